"""k-means|| on tiny sets against its exact law: every round, and what is chosen in the end.

Chi-square at ALPHA = 1e-6 a test: with new seeds, a right implementation would fail this whole file
about once in thirty thousand times. Slips that people have made must be caught.
"""

import itertools

import numpy as np
import pytest
from sampling import exact
from sampling.chi_square import ALPHA, follows
from scipy import sparse

from kvariates.data.rows import Rows
from kvariates.seeding import kmeans_parallel
from kvariates.seeding.sampler import greedy_trials

RUNS = 2500
ROWS = np.array([[0.0, 0], [1, 0], [0, 2.5], [6, 5], [7, 3.5]])
SETS = {
    "unweighted": (ROWS, None),
    "weighted": (ROWS, np.array([1.0, 4, 2, 0.5, 3])),
    "zero weights": (ROWS, np.array([1.0, 0, 2, 1, 0])),
    "duplicates": (np.array([[0.0], [0], [3], [3.0], [7]]), np.array([1.0, 2, 1, 1, 3])),
    "one row holds nearly all": (np.array([[0.0], [1], [2.5], [4], [60]]), None),
}
every_set = pytest.mark.parametrize("name", SETS)


# ---- the exact law ----


def subsets(rows):
    return itertools.chain.from_iterable(
        itertools.combinations(rows, size) for size in range(len(rows) + 1)
    )


def round_law(D, weights, taken, rate):
    """Return {rows that a round takes: probability}: each row's clock rings or does not."""
    share = weights * D[:, taken].min(axis=1)
    if share.sum() == 0:
        return {(): 1.0}
    rings = -np.expm1(-rate * share / share.sum())
    able = np.flatnonzero(rings)
    return {
        chosen: float(np.prod([rings[i] if i in chosen else 1 - rings[i] for i in able]))
        for chosen in subsets(able.tolist())
    }


def rounds_law(X, weights, rounds, rate):
    """Return {(first row, rows of round 1, ...): probability}."""
    D = exact.squared(X)
    weights = np.ones(len(D)) if weights is None else weights
    law = {((i,),): p for i, p in enumerate(weights / weights.sum()) if p > 0}
    for _ in range(rounds):
        law = {
            (*past, chosen): chance * p
            for past, chance in law.items()
            for chosen, p in round_law(D, weights, list(sum(past, ())), rate).items()
        }
    return law


def masses(X, weights, candidates):
    nearest = exact.squared(X)[:, candidates].argmin(axis=1)
    return np.bincount(nearest, weights, minlength=len(candidates)) * 1.0


def chosen_law(X, k, weights, rounds, rate):
    """Return {final rows, in order: probability}; at most one candidate may be missing."""
    D, weights = exact.squared(X), np.ones(len(X)) if weights is None else weights
    out = {}
    for past, chance in rounds_law(X, weights, rounds, rate).items():
        candidates = list(sum(past, ()))
        late = exact.plain_step(D, weights, candidates) if len(candidates) < k else [1.0]
        for extra, p in enumerate(late):
            if p == 0:
                continue
            rows = candidates + ([extra] if len(candidates) < k else [])
            assert len(rows) >= k
            step = exact.greedy_step(greedy_trials(k))
            mass = masses(X, weights, rows)
            for chosen, q in exact.sequence_law(step, X[rows], k, mass).items():
                key = tuple(rows[i] for i in chosen)
                out[key] = out.get(key, 0.0) + chance * p * q
    return out


# ---- what is drawn ----


def traces(X, weights, monkeypatch, rounds, rate, runs=RUNS):
    """Return, run by run, the rows of X that each round took."""
    seen = []
    original = kmeans_parallel.take

    def spy(potential, rows):
        seen[-1].append(tuple(sorted(order[rows].tolist())))
        return original(potential, rows)

    monkeypatch.setattr(kmeans_parallel, "take", spy)
    space, rng = Rows.of(X), np.random.default_rng(5)
    order = space.canonical_order()
    for _ in range(runs):
        seen.append([])
        kmeans_parallel.kmeans_parallel(
            space, 1, weights, rounds=rounds, oversampling=rate, rng=rng
        )
    return [tuple(run) for run in seen]


def chosen(X, k, weights, rounds, oversampling, runs=RUNS):
    space, rng = Rows.of(X), np.random.default_rng(6)
    options = {"rounds": rounds, "oversampling": oversampling, "rng": rng}
    return [
        tuple(kmeans_parallel.kmeans_parallel(space, k, weights, **options).indices.tolist())
        for _ in range(runs)
    ]


@every_set
@pytest.mark.parametrize("rate", [0.7, 3.0])
def test_rows_of_a_round_are_taken_independently_by_their_share(name, rate, monkeypatch):
    X, weights = SETS[name]
    law = rounds_law(X, weights, 1, rate)
    assert follows(traces(X, weights, monkeypatch, 1, rate), law) > ALPHA


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_rounds_in_every_layout(layout, dtype, monkeypatch):
    X, weights = SETS["weighted"]
    law = rounds_law(X, weights, 1, 2.0)
    assert follows(traces(layout(X.astype(dtype)), weights, monkeypatch, 1, 2.0), law) > ALPHA


@every_set
def test_later_rounds_see_what_earlier_ones_took(name, monkeypatch):
    X, weights = SETS[name]
    law = rounds_law(X, weights, 2, 1.0)
    assert follows(traces(X, weights, monkeypatch, 2, 1.0), law) > ALPHA


@every_set
@pytest.mark.parametrize("k", [1, 2])
def test_what_is_chosen_follows_its_law(name, k):
    X, weights = SETS[name]
    if name == "duplicates":
        X = X + np.array([[0.0], [0.01], [0], [0.01], [0]])  # which of two equals is no matter
    law = chosen_law(X, k, weights, 1, 1.5 * k)
    assert follows(chosen(X, k, weights, 1, 1.5), law) > ALPHA


def test_seeds_without_rounds_are_drawn_one_by_one():
    """No round, k = 2: two candidates by D^2, of which both are kept, the heavier one first more
    often."""
    X, weights = SETS["weighted"]
    law = chosen_law(X, 2, weights, 0, 0.0)
    assert follows(chosen(X, 2, weights, 0, 1.0), law) > ALPHA


# ---- what must be caught ----


class Forgetful:
    """A potential whose rows have lost their weights."""

    weight = None

    def __init__(self, potential):
        self._potential = potential

    def __getattr__(self, name):
        return getattr(self._potential, name)


MASSES = kmeans_parallel.masses
UNWEIGHTED = {
    "every candidate weighs one": lambda potential: np.sign(MASSES(potential)),
    "rows are counted, not weighed": lambda potential: MASSES(Forgetful(potential)),
}


@pytest.mark.parametrize("slip", UNWEIGHTED)
@pytest.mark.parametrize("k", [1, 2])
def test_reclustering_without_weights_would_be_seen(k, slip, monkeypatch):
    X, weights = SETS["weighted"]
    law = chosen_law(X, k, weights, 1, 1.5 * k)
    monkeypatch.setattr(kmeans_parallel, "masses", UNWEIGHTED[slip])
    assert follows(chosen(X, k, weights, 1, 1.5), law) < ALPHA


WRONG_ROUNDS = {
    "uniform": lambda costs, weight, count, rng: np.unique(rng.integers(len(costs), size=count)),
    "weights ignored": lambda costs, weight, count, rng: RIGHT(costs, None, count, rng),
    "distance instead of its square": lambda costs, weight, count, rng: RIGHT(
        np.sqrt(costs), weight, count, rng
    ),
    "at most two draws": lambda costs, weight, count, rng: RIGHT(costs, weight, min(count, 2), rng),
    "never empty": lambda costs, weight, count, rng: RIGHT(costs, weight, max(count, 1), rng),
    "one draw short": lambda costs, weight, count, rng: RIGHT(
        costs, weight, max(count - 1, 0), rng
    ),
    "only the first": lambda costs, weight, count, rng: RIGHT(costs, weight, count, rng)[:1],
}
RIGHT = kmeans_parallel.sample_candidates


@pytest.mark.parametrize("slip", WRONG_ROUNDS)
def test_wrong_rounds_would_be_seen(slip, monkeypatch):
    X, weights = SETS["weighted"]
    law = rounds_law(X, weights, 1, 2.0)
    monkeypatch.setattr(kmeans_parallel, "sample_candidates", WRONG_ROUNDS[slip])
    assert follows(traces(X, weights, monkeypatch, 1, 2.0), law) < ALPHA


def test_a_stale_potential_would_be_seen(monkeypatch):
    X, weights = SETS["weighted"]
    law = rounds_law(X, weights, 2, 1.0)
    first = {}

    def stale(costs, weight, count, rng):
        if first.get("fresh", True):
            first["costs"] = costs.copy()
        first["fresh"] = not first.get("fresh", True)
        return RIGHT(first["costs"], weight, count, rng)

    monkeypatch.setattr(kmeans_parallel, "sample_candidates", stale)
    assert follows(traces(X, weights, monkeypatch, 2, 1.0), law) < ALPHA
