"""DP local search: exact costs, the law of a swap, and the search without noise."""

import itertools
import math

import numpy as np
import pytest
from api import (
    CappedDistances,
    Cost,
    DemandLocalSearch,
    Graph,
    farthest,
    private_search,
    public_candidates,
)
from api import swaps_module as swaps
from privacy.demands import FREE, asked, spaces, task_of, whole_distances
from privacy.exact_noise import both_adjacencies

RNG = np.random.default_rng(8)
SPACES = spaces(RNG)
every_space = pytest.mark.parametrize("name", SPACES)


# ---- capped distances ----


@every_space
@pytest.mark.parametrize("part", [1.0, 0.3])
def test_distances_in_steps(name, part):
    space, every = SPACES[name], np.arange(40)
    exact = space.distances(every).astype(np.float64)
    cap = part * farthest(space, RNG)
    capped = CappedDistances(space, cap)
    found = capped.matrix(every, every).D.astype(np.float64)
    assert (found == np.floor(found)).all()
    assert (found * capped.step <= cap).all()
    np.testing.assert_allclose(found * capped.step, np.minimum(exact, cap), atol=2 * capped.step)
    assert 2**20 <= cap / capped.step < 2**21
    # A distance does not depend on the others that are computed with it.
    for rows, columns in ((every[::3], every), (every, every[5:7]), (every[4:5], every[::-1])):
        table = capped.matrix(rows, np.ascontiguousarray(columns)).D
        np.testing.assert_array_equal(table, found[np.ix_(rows, columns)])


@every_space
def test_the_largest_distance(name, monkeypatch):
    space = SPACES[name]
    exact = float(space.distances(np.arange(40)).max())
    assert farthest(space, RNG) == exact
    monkeypatch.setattr("kvariates.data.lattice_rows.EXACT_WORK", 0)
    assert exact <= farthest(space, RNG) <= 2 * exact


# ---- one swap ----


def all_swaps(task, start):
    """The cost of every swap, by its definition, in the order of the scores."""
    capped = CappedDistances(task.space, task.cap)
    D = capped.matrix(np.arange(40), np.arange(40)).D.astype(np.float64) * capped.step
    demand = task.rows.reveal("for a test")
    costs = []
    for candidate in np.setdiff1d(np.arange(40), start):
        for slot in range(len(start)):
            after = start.copy()
            after[slot] = candidate
            costs.append(D[np.ix_(after, demand)].min(axis=0).sum())
    return np.array(costs)


@every_space
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("size", [0, 1, 300])
def test_scores_are_the_costs_of_all_swaps(name, k, size):
    task = task_of(SPACES[name], RNG.integers(0, 40, size=size), k)
    start = RNG.permutation(40)[:k]
    first, last = asked(lambda: private_search(task, start, np.arange(40), [Cost(epsilon=1.0)] * 2))
    expected = np.floor(-all_swaps(task, start) / first.sensitivity.step)
    np.testing.assert_array_equal(first.values, expected)
    assert first.sensitivity.sensitivity == task.cap
    assert first.sensitivity.monotone
    assert len(last.values) == 2


@every_space
def test_one_more_point_lowers_every_score_by_at_most_the_diameter(name):
    demand, start = RNG.integers(0, 40, size=50), np.array([3, 9])
    for point in range(0, 40, 7):
        here, there = (
            asked(
                lambda d=d: private_search(
                    task_of(SPACES[name], d, 2), start, np.arange(40), [FREE] * 2
                )
            )[0]
            for d in (demand, np.append(demand, point))
        )
        moved = here.values - there.values
        assert moved.min() >= 0
        assert moved.max() <= here.sensitivity.range("add-remove")
        assert moved.max() > 0


@both_adjacencies
@pytest.mark.parametrize("cost", [Cost(epsilon=0.3), Cost(rho=0.02)])
def test_the_scale_of_a_swap_is_the_diameter_by_epsilon(adjacency, cost):
    task = task_of(SPACES["matrix"], [1, 2, 3], 2, adjacency)
    private_search(task, np.array([0, 5]), np.arange(40), [cost] * 4)
    far = task.cap if adjacency == "add-remove" else 2 * task.cap
    scale = far / cost.value if cost.pure else far / math.sqrt(8 * cost.value)
    assert [charge.label for charge in task.charges] == [
        "swap 1", "swap 2", "swap 3", "choice of a set",
    ]  # fmt: skip
    for charge in task.charges:
        assert charge.scale == pytest.approx(scale, rel=1e-5)
        assert charge.scale >= scale * (1 - 1e-12)
        assert charge.cost <= cost.value


# ---- the search ----


class BestSwap:
    """The best swap, whether it lowers the cost or not."""

    def __call__(self, changes, cost):
        return swaps.MedoidSwap(*map(int, np.unravel_index(np.argmin(changes), changes.shape)))


@pytest.mark.parametrize("k", [1, 3, 6])
def test_without_noise_it_is_the_search_of_best_swaps(k):
    rng = np.random.default_rng(k)
    space, demand = whole_distances(40, rng), rng.integers(0, 40, size=500)
    task, start = task_of(space, demand, k), rng.permutation(40)[:k]
    path = private_search(task, start, np.arange(40), [FREE] * 9)
    weight = np.bincount(demand, minlength=40).astype(float)
    problem = swaps.MedoidProblem(space, weight, np.arange(40))
    costs = [swaps.MedoidState.of(problem, each).cost for each in path.sets]
    assert costs[path.chosen] == min(costs)
    # The swaps of the search that is not private, as long as they help.
    state, every = swaps.MedoidState.of(problem, start), swaps.AllCandidates(np.arange(40), 40)
    found = swaps.swap_medoids(state, swaps.SwapSearch(every))
    assert found.n_swaps < 8
    np.testing.assert_array_equal(path.sets[found.n_swaps], found.medoids)
    np.testing.assert_array_equal(path.medoids, found.medoids)
    # And on, where no swap helps: it never stops early.
    assert len(path.sets) == 9
    for one, two in itertools.pairwise(path.sets):
        state = swaps.MedoidState.of(problem, one)
        fresh = np.setdiff1d(np.arange(40), one)
        swap = BestSwap()(state.changes(fresh), state.cost)
        state.swap(int(fresh[swap.candidate]), swap.slot)
        np.testing.assert_array_equal(two, state.medoids)


@pytest.mark.parametrize("name", ["matrix", "graph"])
def test_few_candidates(name):
    task = task_of(SPACES[name], RNG.integers(0, 40, size=99), 3)
    start = np.array([31, 2, 17])
    some = public_candidates(task, start, 10)
    assert set(start) < set(some.tolist())
    assert len(some) <= 13
    assert (np.diff(some) > 0).all()
    result = DemandLocalSearch(4, n_candidates=10)(task)
    assert len(result.path) == 5
    assert len({point for each in result.path for point in each.tolist()}) <= 13
    assert isinstance(SPACES["graph"], Graph)
    np.testing.assert_array_equal(public_candidates(task, start, None), np.arange(40))
