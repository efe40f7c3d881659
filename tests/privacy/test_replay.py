"""Given the same noisy outputs, neighbours ask the same queries, and charges cover the changes.

Every method x both adjacencies x pure and with delta x pairs of neighbours x kinds of noise. The
checks are exact; noise is fresh in every run. See `replay.py`.
"""

import warnings

import numpy as np
import pytest
from api import ENOUGH_FEW, Candidates, Conditional, Domain, TreeMethod, make_grid
from privacy.exact_noise import both_adjacencies
from privacy.method_cases import ASSERTED
from privacy.private_models import DELTAS, METHODS, every_method
from privacy.replay import replay
from privacy.replay_trace import Numbered, Outcome, Pair
from scipy import sparse

from kvariates import PrivateKMeans

QUICK_METHODS = METHODS | {"tree": TreeMethod(steps=2)}
EPSILON = 8.0  # so that few rows are above the noise; it is the claim that is checked


def make_fit(method, adjacency, delta, k, **options):
    """A fit of PrivateKMeans as `replay` needs it."""
    options = {"epsilon": EPSILON, "bounds": (-1.0, 1.0)} | options

    def fit(rows):
        model = PrivateKMeans(k, delta=delta, adjacency=adjacency, method=method, **options)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(rows)
        results = {"centers": model.cluster_centers_, "counts": model.cluster_counts_}
        results |= {"condition": model.condition_, "told": [str(w.message) for w in told]}
        return Outcome(model.ledger_, results)

    return fit


def make_pair(others, row, moved, adjacency, place=None):
    """The other rows with one row more, and without it, or with the moved row in its place."""
    place = len(others) if place is None else place
    order = np.insert(np.arange(len(others)), place, len(others))
    first = Numbered(np.insert(others, place, row, axis=0), order)
    if adjacency == "add-remove":
        return Pair(first, Numbered(others, np.arange(len(others))))
    return Pair(first, Numbered(np.insert(others, place, moved, axis=0), order))


def spread_rows(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def groups(n, d):
    """Two groups of rows, one twice as large as the other."""
    middle = np.where(np.arange(n)[:, None] % 3 == 0, -0.5, 0.5)
    return middle + np.random.default_rng(1).normal(0, 0.05, (n, d))


CORNER = np.ones(2)
NEIGHBOURS = {
    # name: the other rows, the row in question, the row that replaces it, its place
    "far away": (np.tile(-CORNER, (40, 1)), CORNER, -CORNER, None),
    "first row": (spread_rows(40, 2), CORNER, -CORNER, 0),
    "in the middle": (groups(61, 2), [0.0, 0.3], CORNER, 30),
    "at a tie": (np.repeat([[-0.5, 0.0], [0.5, 0.0]], 20, axis=0), [0.0, 0.0], [0.0, 1.0], None),
    "out of bounds": (spread_rows(30, 2), [1e300, -4.0], [-1e300, 4.0], 3),
    "missing": (spread_rows(30, 2), [np.nan, 0.5], [1.0, 1.0], 5),
    "infinite": (spread_rows(30, 2), [np.inf, 0.5], [np.nan, np.nan], 5),
    "a duplicate": (np.full((30, 2), 0.25), [0.25, 0.25], [-0.25, 1.0], None),
    "the only row": (np.empty((0, 2)), CORNER, -CORNER, None),
    "fewer rows than centres": (np.array([[-1.0, 1.0]]), CORNER, -CORNER, 0),
}

every_delta = pytest.mark.parametrize("delta", DELTAS)


def to_minus_one(_number, d):
    return -np.ones(d)


def all_complaints(fit, pairs, kinds=("drawn", "zero"), scripted=False):
    """What `replay` finds, by the pair and the kind of noise."""
    found = {}
    for name, pair in pairs.items():
        for kind in kinds:
            found[name, kind] = replay(fit, pair, kind)
        if scripted:
            found[name, "scripted"] = replay(fit, pair, centers=to_minus_one)
    return {case: words for case, words in found.items() if words is not None}


# Conditional methods have a test of their own. With a delta, "auto" is the tree with more steps.
CASES = [
    (name, delta)
    for name in METHODS
    for delta in DELTAS
    if name not in ASSERTED and (name, delta > 0) != ("auto", True)
]


@pytest.mark.parametrize(("name", "delta"), CASES)
@both_adjacencies
def test_neighbours_with_the_same_outputs_cannot_be_told_apart(name, adjacency, delta):
    pairs = {
        which: make_pair(others, row, moved, adjacency, place)
        for which, (others, row, moved, place) in NEIGHBOURS.items()
    }
    fit = make_fit(QUICK_METHODS[name], adjacency, delta, 3)
    drawn_rows = name.startswith("kvariates")
    assert all_complaints(fit, pairs, scripted=drawn_rows) == {}


@both_adjacencies
@pytest.mark.parametrize("kind", ["drawn", "zero"])
def test_conditional_methods_on_data_that_fulfil_the_condition(adjacency, kind):
    method, scene = ASSERTED["kvariates-conditional"]
    first, second = scene.neighbours(adjacency)
    pair = make_pair(first[:-1], first[-1], second[-1], adjacency)
    fit = make_fit(method, adjacency, 0.0, scene.k)
    assert replay(fit, pair, kind) is None
    assert replay(fit, pair, centers=lambda _, d: np.zeros(d)) is None
    false = make_fit(Conditional(delta_w=0.0001), adjacency, 0.0, scene.k)
    assert "drawn rows" in replay(false, pair, centers=lambda _, d: np.ones(d))


@both_adjacencies
def test_too_few_rows_break_an_assertion_that_does_not_hold(adjacency):
    """Two rows and five centres: no condition holds, and a replay shows what it would cost."""
    pair = make_pair(-np.ones((1, 2)), np.ones(2), -np.ones(2), adjacency)
    fit = make_fit(Conditional(delta_w=0.1), adjacency, 0.0, 5)
    assert "'drawn rows' costs" in replay(fit, pair, centers=to_minus_one)


# ---- numbers of rows at which a method decides otherwise ----

LINE = Domain.box(-np.ones(1), np.ones(1))


def changes(rule, first=2):
    """The first number of rows, from `first` on, at which a rule decides otherwise."""
    return next(n for n in range(first, 10_000) if rule(n) != rule(n - 1))


THRESHOLDS = {
    "gupt": [changes(lambda n: round(n**0.4), least) for least in (2, 60)],
    "sample-aggregate": [changes(lambda n: round(n**0.5), least) for least in (2, 60)],
    "grid": [changes(lambda n: make_grid(LINE, 0.95 * EPSILON * n / 10).number, 20)],
    "auto": [changes(lambda n: EPSILON * n >= ENOUGH_FEW)],
}


@pytest.mark.parametrize("name", THRESHOLDS)
@every_delta
def test_numbers_of_rows_where_decisions_change(name, delta):
    fit = make_fit(METHODS[name], "add-remove", delta, 1)
    pairs = {
        str(n): make_pair(spread_rows(n - 1, 1), [1.0], None, "add-remove", place=0)
        for n in THRESHOLDS[name]
    }
    assert all_complaints(fit, pairs) == {}


# ---- methods whose parts are not all used by default ----

PARTS = {
    "candidates": Candidates(swaps=2, trials=2, repeats=2, steps=1),
    "candidates, projected": Candidates(dimension=1, swaps=1, trials=2, repeats=2, steps=1),
}


@pytest.mark.parametrize("name", PARTS)
@both_adjacencies
@every_delta
def test_all_parts_of_a_method(name, adjacency, delta):
    pairs = {
        which: make_pair(*NEIGHBOURS[which][:3], adjacency, NEIGHBOURS[which][3])
        for which in ("far away", "in the middle", "out of bounds", "the only row")
    }
    fit = make_fit(PARTS[name], adjacency, delta, 3)
    assert all_complaints(fit, pairs) == {}


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@both_adjacencies
def test_values_are_clipped(layout, adjacency):
    """The sensitivity of a pick is `max_value`, which need not be on the lattice."""
    others, far = np.full((20, 4), 0.01), np.array([0.9, 0.0, 0.0, 0.0])
    method = Candidates(
        recovery="picks", picks=1, max_value=0.3, max_nonzeros=2, trials=2, repeats=1, steps=0
    )
    fit = make_fit(method, adjacency, 0.0, 2, bounds=None, radius=1.0)
    pair = make_pair(others, far, others[0], adjacency, 0)
    assert all_complaints(lambda rows: fit(layout(rows)), {"a far row": pair}) == {}


@pytest.mark.parametrize("recovery", ["threshold", "picks"])
@both_adjacencies
@every_delta
def test_sparse_rows(recovery, adjacency, delta):
    rng = np.random.default_rng(4)
    others = np.where(rng.random((60, 30)) < 0.1, rng.uniform(0, 1, (60, 30)), 0.0)
    full, other = np.full(30, 9.0), np.eye(30)[7]
    method = Candidates(
        recovery=recovery, picks=3, max_nonzeros=4, swaps=1, trials=2, repeats=1, steps=1
    )
    options = {"bounds": None, "radius": 1.0}
    fit = make_fit(method, adjacency, delta, 2, **options)
    pairs = {
        "a full row": make_pair(others, full, other, adjacency, 0),
        "an empty row": make_pair(others, np.zeros(30), full, adjacency, 5),
        "the only row": make_pair(np.empty((0, 30)), full, other, adjacency),
    }
    assert all_complaints(lambda rows: fit(sparse.csr_array(rows)), pairs) == {}


# ---- trees: principal axes, the power method, rows outside of balls ----


@both_adjacencies
@every_delta
@pytest.mark.parametrize(("n", "d", "steps"), [(300, 1, 2), (400, 6, 2), (120, 132, 1)])
def test_trees_with_many_features(adjacency, delta, n, d, steps):
    pairs = {
        "corner": make_pair(groups(n, d), np.ones(d), -np.ones(d), adjacency, 0),
        "group": make_pair(np.tile(np.eye(d)[0], (n, 1)), -np.ones(d), np.eye(d)[0], adjacency),
    }
    fit = make_fit(TreeMethod(steps=steps), adjacency, delta, 2)
    assert all_complaints(fit, pairs) == {}


# ---- the order of rows ----


@every_method
@both_adjacencies
def test_the_order_of_rows_does_not_matter(name, adjacency):
    """Data sets are multisets: rows in another order, each with the same draws, change nothing."""
    order = np.random.default_rng(2).permutation(50)
    rows = np.concatenate([spread_rows(30, 2), groups(20, 2)])
    pair = Pair(Numbered(rows, np.arange(50)), Numbered(rows[order], order))
    fit = make_fit(METHODS[name], adjacency, 0.0, 3)

    assert replay(fit, pair, free=True) is None
