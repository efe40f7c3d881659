"""The replay of `test_replay.py` for private k-median: rows are entries of the demand."""

import warnings

import numpy as np
import pytest
from api import DemandCandidates, DemandHst, DemandLocalSearch, DemandTask, PrivateChooser
from privacy.demands import spaces
from privacy.exact_noise import both_adjacencies
from privacy.replay import replay
from privacy.replay_trace import Numbered, Outcome, Pair

from kvariates import PrivateKMedian

SPACES = spaces(np.random.default_rng(4))
METHODS = {
    "cells": "cells",
    "hst": DemandHst(n_swaps=3, levels=10**6),
    "seeds": DemandHst(n_swaps=0),
    "local-search": DemandLocalSearch(3),
    "few candidates": DemandLocalSearch(3, n_candidates=12),
    "candidates": "candidates",
    "candidates, all parts": DemandCandidates(
        dimension=2, repeats=2, levels=2, threshold=1.0, swaps=2, trials=2, n_candidates=5
    ),
}
POINTS = {
    "precomputed": SPACES["matrix"].D,
    "euclidean": SPACES["euclidean"].X,
    "graph": SPACES["graph"].csr,
}
DEMANDS = {
    # name: the other entries, the entry in question, the entry that replaces it, its place
    "spread": (np.random.default_rng(0).integers(0, 40, 90), 39, 0, 5),
    "alone": (np.empty(0, dtype=np.int64), 7, 30, 0),
    "far from others": (np.full(60, 3), 33, 3, 60),
    "a repeat": (np.full(60, 3), 3, 20, 0),
}


def make_fit(method, metric, adjacency, delta):
    def fit(demand):
        options = {"metric": metric, "adjacency": adjacency, "delta": delta, "random_state": 3}
        model = PrivateKMedian(3, epsilon=4.0, method=method, **options)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(POINTS[metric], demand=demand)
        results = {"medoids": model.medoid_indices_, "counts": model.cluster_counts_}
        return Outcome(model.ledger_, results | {"told": [str(w.message) for w in told]})

    return fit


def make_pair(name, adjacency):
    others, entry, moved, place = DEMANDS[name]
    order = np.insert(np.arange(len(others)), place, len(others))
    first = Numbered(np.insert(others, place, entry), order)
    if adjacency == "add-remove":
        return Pair(first, Numbered(others, np.arange(len(others))))
    return Pair(first, Numbered(np.insert(others, place, moved), order))


CASES = [
    (name, metric)
    for name in METHODS
    for metric in POINTS
    if metric == "euclidean" or not name.startswith("candidates")
]


@pytest.mark.parametrize(("name", "metric"), CASES)
@both_adjacencies
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_neighbours_cannot_be_told_apart_by_more_than_is_paid(name, metric, adjacency, delta):
    fit = make_fit(METHODS[name], metric, adjacency, delta)
    for which in DEMANDS:
        pair = make_pair(which, adjacency)
        for kind in ("drawn", "zero"):
            assert replay(fit, pair, kind) is None, (which, kind)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_is_free(name):
    """The replay sees the entry in question: if nothing were paid, it would complain."""
    metric = "euclidean" if name.startswith("candidates") else "precomputed"
    fit = make_fit(METHODS[name], metric, "add-remove", 0.0)
    assert "and is charged 0" in replay(fit, make_pair("spread", "add-remove"), free=True)


def test_a_swap_without_noise_is_found(monkeypatch):
    """The planted mistake: the best swap, paid for but not drawn."""
    true = PrivateChooser.__call__

    def best(self, changes, cost):
        drawn = true(self, changes, cost)
        at = np.unravel_index(int(np.argmin(changes)), changes.shape)
        self.chosen[-1] = type(drawn)(*map(int, at))
        return self.chosen[-1]

    monkeypatch.setattr(PrivateChooser, "__call__", best)
    fit = make_fit(METHODS["local-search"], "precomputed", "add-remove", 0.0)
    assert replay(fit, make_pair("alone", "add-remove")) is not None


def test_counts_without_noise_are_found(monkeypatch):
    """The planted mistake: exact counts of clusters beside a paid release."""
    true = DemandTask.count

    def exact(self, cells, number, *args):
        made = true(self, cells, number, *args)
        demand = self.rows.reveal("for a test")
        return type(made)(np.bincount(cells[demand] + 1, minlength=number + 1)[1:] * 1.0, 0.1)

    monkeypatch.setattr(DemandTask, "count", exact)
    fit = make_fit(METHODS["cells"], "precomputed", "add-remove", 0.0)
    assert replay(fit, make_pair("spread", "add-remove")) is not None
