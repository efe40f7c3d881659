"""The noise of private peers has the scale that is charged; half the noise is caught."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from api import Envelope, PrivatePeer, Question, Releases, checked_bounds, measurement
from api import mechanisms_module as mechanisms
from api import private_peer_module as private_peer
from federated.fake_grid import BOX, UNUSED
from scipy import stats

from kvariates.federated import Private

ALPHA = 1e-6
DRAWS = 1000
CORNER = np.array([[-10.0, -10.0]])


def peer_of(rows, **options):
    private = Private(
        **{
            "epsilon": 20.0,
            "n_clusters": 2,
            "adjacency": "replace-one",
            "ledger": UNUSED,
            **options,
        }
    )
    return PrivatePeer(np.asarray(rows, dtype=float), checked_bounds(BOX), private)


def ask(peer, name, releases=None, **arguments):
    releases = Releases() if releases is None else releases
    answer = peer.answer(Envelope(1, 0, Question(name, arguments)), releases)
    return answer, releases.charges[-1]


def halved_rows():
    """Noise of half the scale for drawn rows; the charge is as before."""
    true = private_peer.noisy_rows

    def half(*arguments):
        made = true(*arguments)
        quiet = replace(made.noise, measurement=measurement("laplace", made.noise.scale / 2))
        return replace(made, noise=quiet)

    return patch.object(private_peer, "noisy_rows", half)


def halved_release():
    """Noise of half the scale for potentials and sums; the charge is as before."""
    true = mechanisms.calibrated

    def half(law, *arguments):
        made = true(law, *arguments)
        return replace(made, measurement=measurement(law, made.scale / 2))

    return patch.object(mechanisms, "calibrated", half)


def pvalue(values, center, scale):
    """Chi-square of values against Laplace's law, in 12 cells of the same probability."""
    edges = stats.laplace.ppf(np.arange(1, 12) / 12, center, scale)
    hits = np.bincount(np.searchsorted(edges, values), minlength=12)
    return stats.chisquare(hits).pvalue


def drawn():
    peer = peer_of(np.zeros((50_000, 2)))
    found = [ask(peer, "draw", step=0) for _ in range(DRAWS)]
    return pvalue(np.ravel([answer["points"][0, 0] for answer, _ in found]), 0.0, found[0][1].scale)


def potentials():
    peer = peer_of(np.zeros((3000, 2)))
    found = [ask(peer, "potential", centers=CORNER, known=0) for _ in range(DRAWS)]
    values = [answer["potential"] for answer, _ in found]
    return pvalue(values, 3000 * 200.0, found[0][1].scale)


def statistics():
    peer = peer_of(np.zeros((3000, 2)), steps=1)
    found = [ask(peer, "noisy_statistics", centers=CORNER, step=1) for _ in range(DRAWS)]
    return pvalue([answer["sums"][0, 0] for answer, _ in found], 0.0, found[0][1].scale)


CASES = [(drawn, halved_rows), (potentials, halved_release), (statistics, halved_release)]


@pytest.mark.parametrize(("law", "mistake"), CASES)
def test_noise_has_the_scale_that_is_charged(law, mistake):
    assert law() > ALPHA
    with mistake():
        assert law() < ALPHA


def test_rows_are_drawn_uniformly():
    rows = np.array([[-9.0, -9.0], [-9.0, 9.0], [9.0, -9.0], [9.0, 9.0]])
    for adjacency in ("replace-one", "add-remove"):
        peer = peer_of(rows, epsilon=1e5, adjacency=adjacency)
        points = np.concatenate([ask(peer, "draw", step=0)[0]["points"] for _ in range(DRAWS)])
        labels = 2 * (points[:, 0] > 0) + (points[:, 1] > 0)
        assert np.abs(np.abs(points) - 9).max() < 0.1
        assert stats.chisquare(np.bincount(labels, minlength=4)).pvalue > ALPHA
