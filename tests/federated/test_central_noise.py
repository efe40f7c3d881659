"""Central noise: exact sums of peers, one noise on their total, and a ledger of the coordinator."""

from __future__ import annotations

import numpy as np
import pytest
from api import (
    QUESTIONS,
    Envelope,
    FlowerTransport,
    Question,
    SummingPeer,
    checked_bounds,
    fit,
    server_options,
)
from federated.fake_grid import BOX, FakeGrid, LyingNode, Node, blobs, grid_of, loader

from kvariates.federated import client_app

X = blobs(2000)
START = np.array([[-5.0, -5.0], [5.0, 5.0], [-5.0, 5.0]])
ADJACENCIES = ("add-remove", "replace-one")


def fitted(grid, **options):
    options = {"bounds": BOX, "epsilon": 1.0, "random_state": 1, **options}
    return fit(FlowerTransport(grid, 5.0), server_options(3, **options))


def lloyd_step(rows, centers):
    labels = ((rows[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    return np.array([rows[labels == j].mean(axis=0) for j in range(len(centers))])


def test_with_a_large_budget_it_is_lloyd():
    found = fitted(grid_of(np.array_split(X, 4), bounds=BOX, private="central"),
                   epsilon=1e6, init=START, max_iter=3)  # fmt: skip
    expected = START
    for _ in range(3):
        expected = lloyd_step(X, expected)
    np.testing.assert_allclose(found.centers, expected, atol=1e-3)
    assert found.transcript.points_revealed == 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_ledger_has_one_noise_for_all_peers(adjacency):
    ledgers = [
        fitted(grid_of(np.array_split(X, n), bounds=BOX, private="central"),
               adjacency=adjacency, max_iter=4).ledgers["coordinator"]
        for n in (1, 5)
    ]  # fmt: skip
    assert ledgers[0] == ledgers[1]
    assert 1.0 - 1e-9 <= ledgers[0].total().epsilon <= 1.0
    twice = 1 if adjacency == "add-remove" else 2
    assert len(ledgers[0].charges) == 8
    for charge in ledgers[0].charges:
        moved = twice * (20.0 if "sums" in charge.label else 1.0)  # the half sides of the box
        assert charge.sensitivity == pytest.approx(moved)
        assert charge.epsilon == pytest.approx(moved / charge.scale)


def test_noise_is_added_once_to_each_total():
    """With the public start, the first release of counts is the only source of this error."""
    found = [
        fitted(grid_of([X], bounds=BOX, private="central"), init=START, max_iter=1).centers
        for _ in range(20)
    ]
    assert len({centers.tobytes() for centers in found}) == 20  # noise has no seed


def test_a_peer_answers_nothing_but_sums():
    peer = SummingPeer(X, checked_bounds(BOX))
    for name in QUESTIONS.keys() - {"describe"}:
        with pytest.raises(ValueError, match="only sums"):
            peer.answer(Envelope(1, 0, Question(name, {})))


LIES = {
    "counts": (lambda a: {**a, "counts": a["counts"] + 10**6}, "more than its"),
    "sums": (lambda a: {**a, "sums": a["sums"] + 1e6}, "inside the public bounds"),
    "not on the lattice": (lambda a: {**a, "sums": a["sums"] + 1e-12}, "quantize"),
    "shape": (lambda a: {**a, "sums": a["sums"][:1]}, "of shape"),
}


@pytest.mark.parametrize(("change", "words"), LIES.values(), ids=LIES.keys())
def test_a_peer_that_lies_is_dropped(change, words):
    app = client_app(loader(np.array_split(X, 3)), bounds=BOX, private="central")
    liar = LyingNode(app, 1, lambda asked, a: change(a) if asked == "sums_on_lattice" else a)
    found = fitted(FakeGrid([Node(app, 0), liar, Node(app, 2)]))
    assert [dropped.peer for dropped in found.transcript.dropped] == ["1"]
    assert words in found.transcript.dropped[0].reason


@pytest.mark.parametrize("options", [{"init": "dk-means++"}, {"bounds": None}, {"max_iter": 0}])
def test_central_noise_needs_what_is_public(options):
    with pytest.raises(ValueError, match="Central noise"):
        server_options(3, **{"bounds": BOX, "epsilon": 1.0, **options})


def test_options_that_would_tell_numbers_of_rows_or_are_unknown():
    with pytest.raises(ValueError, match="max_rows does not work with central noise"):
        server_options(3, bounds=BOX, epsilon=1.0, max_rows=100)
    with pytest.raises(ValueError, match="adjacency must be"):
        server_options(3, bounds=BOX, epsilon=1.0, adjacency="both")
