"""k-means|| on tiny sets against its exact law: every round, and the rows chosen in the end.

The tests also catch mistakes that people have made.
"""

import itertools

import numpy as np
import pytest
from api import (
    EuclideanPotential,
    HostData,
    RowCosts,
    Rows,
    SeedingProblem,
    euclidean_potential,
    greedy_trials,
)
from api import seedings_module as kmeans_parallel
from laws.shards import ShardData
from sampling import exact
from sampling.chi_square import ALPHA, follows
from scipy import sparse

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


def round_law(D, weights, taken, rate):
    """Return {rows that a round takes: probability}: each row is taken independently or not."""
    share = weights * D[:, taken].min(axis=1)
    if share.sum() == 0:
        return {(): 1.0}
    p = -np.expm1(-rate * share / share.sum())
    able = np.flatnonzero(p).tolist()
    subsets = (itertools.combinations(able, size) for size in range(len(able) + 1))
    return {
        chosen: float(np.prod([p[i] if i in chosen else 1 - p[i] for i in able]))
        for chosen in itertools.chain.from_iterable(subsets)
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


def chosen_law(X, k, weights, rounds, rate):
    """Return {final rows, in order: probability}; at most one candidate may be missing."""
    D, weights = exact.squared(X), np.ones(len(X)) if weights is None else weights
    step, out = exact.greedy_step(greedy_trials(k)), {}
    for past, chance in rounds_law(X, weights, rounds, rate).items():
        candidates = list(sum(past, ()))
        late = exact.plain_step(D, weights, candidates) if len(candidates) < k else [1.0]
        for extra in np.flatnonzero(late):
            rows = candidates + ([extra] if len(candidates) < k else [])
            mass = np.bincount(D[:, rows].argmin(axis=1), weights, len(rows)) * 1.0
            for chosen, q in exact.sequence_law(step, X[rows], k, mass).items():
                key = tuple(rows[i] for i in chosen)
                out[key] = out.get(key, 0.0) + chance * late[extra] * q
    return out


# ---- what is drawn ----


def in_memory(X, weights):
    return EuclideanPotential(Rows.of(X), weights, 100)


def in_two_shards(X, weights):
    halves = slice(0, 2), slice(2, None)
    shards = [
        HostData(Rows.of(X[half]), None if weights is None else weights[half]) for half in halves
    ]
    return euclidean_potential(ShardData(shards), 100)


def rounds_of(X, weights, rounds, rate, make=in_memory):
    """Return, run by run, the rows of X that each round takes."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(RUNS):
        sizes = rng.poisson(rate, size=rounds)
        taken = kmeans_parallel.draw_candidates(make(X, weights), sizes, 1, rng)
        found.append(tuple(tuple(rows.tolist()) for rows in taken))
    return found


def chosen(X, k, weights, rounds, oversampling):
    problem = SeedingProblem(HostData(Rows.of(X), weights), k, rng=np.random.default_rng(6))
    options = {"rounds": rounds, "oversampling": oversampling}
    return [
        tuple(kmeans_parallel.kmeans_parallel(problem, **options).indices.tolist())
        for _ in range(RUNS)
    ]


@every_set
def test_rounds_take_rows_independently_by_their_share(name):
    X, weights = SETS[name]
    assert follows(rounds_of(X, weights, 1, 3.0), rounds_law(X, weights, 1, 3.0)) > ALPHA
    assert follows(rounds_of(X, weights, 2, 1.0), rounds_law(X, weights, 2, 1.0)) > ALPHA


def test_rounds_of_sparse_rows_and_of_shards_have_the_same_law():
    X, weights = SETS["weighted"]
    law = rounds_law(X, weights, 2, 1.0)
    single = sparse.csr_array(X.astype(np.float32))
    assert follows(rounds_of(single, weights, 2, 1.0), law) > ALPHA
    assert follows(rounds_of(X, weights, 2, 1.0, in_two_shards), law) > ALPHA


@every_set
@pytest.mark.parametrize("k", [1, 2])
def test_chosen_rows_follow_their_law(name, k):
    X, weights = SETS[name]
    if name == "duplicates":
        X = X + np.array([[0.0], [0.01], [0], [0.01], [0]])  # either of two equals may be chosen
    law = chosen_law(X, k, weights, 1, 1.5 * k)
    assert follows(chosen(X, k, weights, 1, 1.5), law) > ALPHA


def test_without_rounds_candidates_are_drawn_one_by_one():
    X, weights = SETS["weighted"]
    assert follows(chosen(X, 2, weights, 0, 1.0), chosen_law(X, 2, weights, 0, 0.0)) > ALPHA


# ---- what must be caught ----


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_reclustering_without_weights_would_be_seen(k, monkeypatch):
    X, weights = SETS["weighted"]
    law = chosen_law(X, k, weights, 1, 1.5 * k)
    true = EuclideanPotential.masses
    counted = {
        "every candidate weighs one": lambda self: np.sign(true(self)),
        "rows are counted, not weighed": lambda self: (
            (true(self) > 0) * np.bincount(self._costs.nearest, minlength=len(self.centers))
        ),
    }
    for masses in counted.values():
        monkeypatch.setattr(EuclideanPotential, "masses", masses)
        assert follows(chosen(X, k, weights, 1, 1.5), law) < ALPHA


def by(power, weighted):
    """Return a round that draws by other masses."""

    def draw_round(potential, size, rng):
        potential.flush()
        mass = potential._costs.cost**power * (potential.weight if weighted else 1)
        return np.unique(rng.choice(len(mass), size=size, p=mass / mass.sum()))

    return draw_round


RIGHT = kmeans_parallel.draw_round
WRONG_ROUNDS = {
    "uniform": by(0, False),
    "weights ignored": by(1, False),
    "distance instead of its square": by(0.5, True),
    "at most two draws": lambda p, size, rng: RIGHT(p, min(size, 2), rng),
    "never empty": lambda p, size, rng: RIGHT(p, max(size, 1), rng),
    "one draw short": lambda p, size, rng: RIGHT(p, max(size - 1, 0), rng),
    "only the first": lambda p, size, rng: RIGHT(p, size, rng)[:1],
}


@pytest.mark.parametrize("mistake", WRONG_ROUNDS)
def test_wrong_rounds_would_be_seen(mistake, monkeypatch):
    X, weights = SETS["weighted"]
    monkeypatch.setattr(kmeans_parallel, "draw_round", WRONG_ROUNDS[mistake])
    assert follows(rounds_of(X, weights, 1, 2.0), rounds_law(X, weights, 1, 2.0)) < ALPHA


def test_costs_that_are_not_updated_would_be_seen(monkeypatch):
    X, weights = SETS["weighted"]
    lower = RowCosts.lower
    monkeypatch.setattr(
        RowCosts, "lower", lambda self, c, first, limit: first or lower(self, c, first, limit)
    )
    assert follows(rounds_of(X, weights, 2, 1.0), rounds_law(X, weights, 2, 1.0)) < ALPHA
