"""Given the same noisy answers, private peers with neighbouring rows cannot be told apart.

A peer answers all questions of PDk-means++ and of Lloyd with local noise. `privacy/replay.py` runs
it on two neighbours, the second time with the noisy numbers of the first.
"""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from api import (
    CappedSum,
    Domain,
    Envelope,
    PrivatePeer,
    Question,
    Releases,
    checked_bounds,
    without_missing,
)
from api import private_peer_module as private_peer
from federated.fake_grid import BOX, UNUSED, Node, ask
from privacy.exact_noise import both_adjacencies
from privacy.replay import replay
from privacy.replay_trace import Draw, Outcome
from privacy.test_replay import NEIGHBOURS, make_pair

from kvariates.federated import Private, client_app

CENTERS = np.array([[-10.0, -10.0], [0.0, 3.0]])
STEPS = Domain.box(*map(np.array, BOX)).lattice


def make_fit(adjacency):
    """All answers of a peer, of rows between -1 and 1, and its ledger."""
    private = Private(epsilon=8.0, n_clusters=2, steps=2, adjacency=adjacency, ledger=UNUSED)
    asked = [
        ("describe", {}), ("draw", {"step": 0}),
        ("potential", {"centers": CENTERS[:1], "known": 0}), ("draw", {"step": 1}),
        ("noisy_statistics", {"centers": CENTERS, "step": 1}),
        ("noisy_statistics", {"centers": CENTERS / 2, "step": 2}),
    ]  # fmt: skip

    def fit(rows):
        rows = without_missing(10 * np.asarray(rows, dtype=np.float64), adjacency, np.zeros(2))
        peer, releases = PrivatePeer(rows, checked_bounds(BOX), private), Releases()
        answers = {
            str(i): peer.answer(Envelope(1, 0, Question(*question)), releases)
            for i, question in enumerate(asked)
        }
        return Outcome(peer.ledger(releases), answers)

    return fit


def uniform_draws(run):
    """Records the law of each draw of a row."""
    true = private_peer.draw_uniformly

    def hooked(n, rows):
        weights = Counter(map(tuple, STEPS.steps(rows.X).tolist()))
        if missing := max(n, rows.n, 1) - rows.n:
            weights[0, 0] += missing
        run.trace.draws.append(Draw(weights))
        return true(n, rows)

    return patch.object(private_peer, "draw_uniformly", hooked)


def complaints(adjacency):
    fit = make_fit(adjacency)
    found = {}
    for name, (others, row, moved, place) in NEIGHBOURS.items():
        pair = make_pair(others, row, moved, adjacency, place)
        for noise in ("drawn", "zero"):
            found[name, noise] = replay(fit, pair, noise, hooks=uniform_draws)
    return {case: words for case, words in found.items() if words is not None}


@both_adjacencies
def test_neighbours_with_the_same_answers_cannot_be_told_apart(adjacency):
    assert complaints(adjacency) == {}


def exact_number():
    def exact(peer, releases):
        return peer._rows.map(lambda rows: rows.n).reveal("for a test")

    return patch.object(PrivatePeer, "_known_rows", exact)


def small_potential():
    return patch.object(private_peer, "CappedSum", lambda most, step: CappedSum(most // 9, step))


def likely_rows():
    """The first row is drawn every second time."""

    def drawn(n, rows):
        return rows.take(np.zeros(1, dtype=np.int64)) if rows.n else np.zeros((1, rows.d))

    def hooks(run):
        def hooked(n, rows):
            first = tuple(STEPS.steps(rows.X[:1])[0].tolist()) if rows.n else (0, 0)
            run.trace.draws.append(Draw(Counter({first: 1})))
            return drawn(n, rows)

        return patch.object(private_peer, "draw_uniformly", hooked)

    return hooks


@pytest.mark.parametrize("mistake", [exact_number, small_potential], ids=lambda m: m.__name__)
def test_a_planted_mistake_is_found(mistake):
    with mistake():
        assert complaints("add-remove")


def test_a_row_that_is_drawn_too_often_is_found():
    others, row, moved, _ = NEIGHBOURS["first row"]
    pair = make_pair(others, row, moved, "replace-one", 0)
    found = replay(make_fit("replace-one"), pair, "zero", hooks=likely_rows())
    assert "drawn rows" in found


@pytest.mark.parametrize("private", ["add-remove", "replace-one", "central"])
def test_a_row_with_a_missing_value_does_not_drop_a_peer(private, tmp_path):
    """A peer that cannot load its data is dropped, which would disclose the row."""
    rows = np.vstack([np.ones((9, 2)), [[np.nan, 1.0]], [[np.inf, 1.0]], [[pd.NA, 1.0]]])
    budget = private
    if private != "central":
        budget = Private(1.0, 2, adjacency=private, ledger=tmp_path / "ledger")
    app = client_app(lambda _: rows, bounds=BOX, private=budget)
    answer = ask(Node(app, 0), "describe")
    assert answer["d"] == 2
    if private == "central":
        assert answer["n"] == 9
