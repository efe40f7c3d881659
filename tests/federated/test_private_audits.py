"""Black-box audits of a private peer on neighbouring data sets, and of mistakes in it."""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
import pytest
from api import CappedSum, Envelope, PrivatePeer, Question, Releases, checked_bounds
from api import private_peer_module as private_peer
from federated.fake_grid import BOX, UNUSED
from privacy.neighbours import neighbours
from privacy.private_models import seen

from kvariates.federated import Private
from kvariates.privacy import audit

CORNER = np.array([[-10.0, -10.0]])
RUNS = 1500


def mechanism(kind, adjacency):
    """All releases that a question needs, for the whole budget."""
    private = Private(2.0, 2, 1, adjacency, UNUSED)
    arguments = {"describe": {}, "draw": {"step": 0}, "potential": {"centers": CORNER, "known": 0},
                 "noisy_statistics": {"centers": CORNER, "step": 1}}[kind]  # fmt: skip
    part = {"describe": "n", "draw": "points", "potential": "potential",
            "noisy_statistics": "sums"}[kind]  # fmt: skip

    def run(rows):
        peer = PrivatePeer(10 * rows, checked_bounds(BOX), private)
        answer = peer.answer(Envelope(1, 0, Question(kind, arguments)), Releases())
        return np.ravel(answer[part])

    return run, private


def cost(private, kind):
    """What one question of this kind costs, with the number of rows."""
    costs = private.costs()
    of = {"describe": [], "draw": costs["draw"][:1], "potential": costs["potential"][:1],
          "noisy_statistics": costs["sums"]}[kind]  # fmt: skip
    return sum(c.value for c in [*costs["count"], *of])


def exact_number():
    """The exact number of rows instead of the noisy one."""
    return patch.object(PrivatePeer, "_known_rows", lambda self, releases: seen(self._rows).n)


def too_small_share():
    """The noise for rows of which each has a tiny share; here there are three."""
    true = private_peer.Share
    return patch.object(private_peer, "Share", lambda value, n: true(value / 10**9, n))


def too_small_sensitivity():
    return patch.object(private_peer, "CappedSum", lambda most, step: CappedSum(most // 20, step))


CASES = [
    ("describe", "add-remove", exact_number),
    ("draw", "add-remove", too_small_share),
    ("draw", "replace-one", too_small_share),
    ("potential", "replace-one", too_small_sensitivity),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "adjacency", "mistake"), CASES)
def test_audits_pass_and_catch_a_mistake(kind, adjacency, mistake):
    run, private = mechanism(kind, adjacency)
    both = neighbours("lone", 3, 2, adjacency)
    for broken in (nullcontext, mistake):
        with broken():
            found = audit(run, both, epsilon=cost(private, kind), runs=RUNS, test="coordinates")
        assert found.passed == (broken is nullcontext), str(found)
