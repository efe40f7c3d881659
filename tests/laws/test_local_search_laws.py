"""LS++ against brute force: the two nearest centres, the swap that is made, and the result."""

import numpy as np
import pytest
from api import HostData, LocalSearchState, Rows, SeedingProblem, local_search, search_steps
from laws import brute
from laws.brute import nearest, squared_distances
from laws.cases import LAYOUTS, every_matrix, rows, start, weighted_or_not
from laws.threads import on_threads
from sampling.chi_square import ALPHA, chi_square
from scipy import sparse


def integers(n, d, dtype=np.float64, seed=0):
    """Return rows of small integers: distances are often tied, and rows repeat."""
    return np.random.default_rng(seed).integers(9, size=(n, d)).astype(dtype)


every_size = pytest.mark.parametrize(
    ("n", "d", "k"), [(60, 2, 2), (80, 1, 5), (150, 4, 12), (90, 3, 1)]
)
every_data = pytest.mark.parametrize("make", [rows, integers], ids=["general", "ties"])


def search(X, centers, weights=None, steps=60, seed=0):
    problem = SeedingProblem(
        HostData(Rows.of(X), weights), len(centers), rng=np.random.default_rng(seed)
    )
    return local_search(problem, np.ascontiguousarray(centers, dtype=np.float64), steps=steps)


def costs_after(X, centers, p, weights):
    """Return the cost with p in the place of each centre in turn."""
    out = []
    for j in range(len(centers)):
        swapped = centers.copy()
        swapped[j] = p
        out.append(brute.cost(X, swapped, weights))
    return np.array(out)


@every_size
@every_data
@every_matrix
def test_two_nearest_stay_exact(n, d, k, make, layout, dtype):
    """Whichever centre is swapped for whichever row."""
    X = make(n, d, dtype, seed=n)
    points = Rows.of(LAYOUTS[layout](X))
    state = LocalSearchState(points, None, start(X, k).astype(np.float64))
    rng = np.random.default_rng(9)
    for _ in range(40):
        row, j = rng.integers(n), int(rng.integers(k))
        p = X[row].astype(np.float64)
        state.swap(j, p, points.costs(p[None], np.zeros(n, dtype=np.int32)))
        assert np.array_equal(state.centers[j], p)
        anew = points.two_nearest(state.centers)
        for name in ("labels", "second", "cost", "second_cost"):
            assert np.array_equal(getattr(state.two, name), getattr(anew, name)), name
        assert state.cost == pytest.approx(anew.cost.sum(), rel=1e-12)


@every_size
@every_data
@weighted_or_not
def test_every_swap_is_the_best_and_lowers_the_cost(n, d, k, make, weighted, monkeypatch):
    X = make(n, d, seed=n + 1)
    weights = np.random.default_rng(n).integers(0, 4, size=n) * 0.5 if weighted else None
    best, swap, steps = LocalSearchState.best_swap, LocalSearchState.swap, []

    def spy_best(self, to_p):
        found = best(self, to_p)
        p = self.points.X[np.flatnonzero(to_p == 0)[0]]
        after = costs_after(self.points.X, self.centers, p, self.weight)
        tiny = 1e-9 * self.cost
        assert after[found.center] == pytest.approx(after.min(), abs=tiny)
        assert found.cost == pytest.approx(after.min(), abs=tiny)
        steps.append(after.min() > self.cost - tiny)  # whether no swap helps
        return found

    def spy_swap(self, j, p, to_p):
        before, cost = self.centers.copy(), self.cost
        swap(self, j, p, to_p)
        before[j] = p
        assert np.array_equal(self.centers, before)
        assert self.cost < cost
        assert not steps[-1]
        steps[-1] = None

    monkeypatch.setattr(LocalSearchState, "best_swap", spy_best)
    monkeypatch.setattr(LocalSearchState, "swap", spy_swap)
    found = search(X, start(X, k), weights)
    assert False not in steps, "a swap that helps was not made"
    assert found.swaps == steps.count(None) > 0
    assert True in steps, "no swap was ever refused"


@every_data
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cost_never_rises_and_is_exact(make, layout):
    X = make(500, 5, np.float32, seed=81)
    weights = np.random.default_rng(3).exponential(size=500)
    centers = start(X, 15).astype(np.float64)
    before = centers.copy()
    last = brute.cost(X, centers, weights)
    for steps in range(0, 60, 12):
        found = search(LAYOUTS[layout](X), centers, weights, steps)
        assert found.cost == pytest.approx(brute.cost(X, found.centers, weights), rel=1e-11)
        assert found.cost <= last * (1 + 1e-15)
        assert (found.swaps > 0) == (steps > 0)
        last = found.cost
    assert np.array_equal(centers, before), "the start was changed"
    assert last < 0.9 * brute.cost(X, before, weights)


def test_tight_groups_far_apart():
    """Costs of 1e-10 between groups 1e4 apart keep their digits."""
    rng = np.random.default_rng(82)
    X = rng.permutation(6)[rng.integers(6, size=(300, 1))] * 1e4 + rng.normal(size=(300, 2)) * 1e-7
    found = search(X, X[:6], steps=80)
    again = search(X, found.centers, steps=300, seed=1)
    assert again.cost <= found.cost
    assert again.cost == pytest.approx(brute.cost(X, again.centers), rel=1e-11)
    assert again.cost < 300 * 4e-14


def test_draws_are_in_proportion_to_the_potential():
    """Before and after a swap."""
    X, rng = rows(40, 2, seed=83), np.random.default_rng(5)
    weights = np.random.default_rng(4).integers(0, 4, size=40) * 1.0
    state = LocalSearchState(Rows.of(X), weights, X[:3].astype(np.float64))
    for centers in (X[:3], X[[0, 30, 2]]):
        drawn = np.bincount([state.draw(rng) for _ in range(20_000)], minlength=40)
        cost = squared_distances(X, centers).min(axis=1)
        share = weights * cost
        assert chi_square(drawn, share / share.sum()) > ALPHA
        for wrong in (share * weights, weights * np.sqrt(cost), cost, np.roll(share, 1)):
            assert chi_square(drawn, wrong / wrong.sum()) < ALPHA
        state.swap(1, X[30], squared_distances(X, X[[30]])[:, 0])


def test_weights_are_repeats_and_order_and_layout_do_not_matter():
    X = rows(200, 3, seed=85, sparsity=0.3)
    weights = np.random.default_rng(7).integers(0, 4, size=200)
    repeated = np.repeat(X, weights, axis=0)
    repeated = repeated[np.random.default_rng(8).permutation(len(repeated))]
    centers = start(X, 10)
    for seed in range(5):
        once = search(X, centers, weights * 1.0, seed=seed)
        for data, mass in ((repeated, None), (sparse.csr_array(X), weights * 1.0)):
            again = search(data, centers, mass, seed=seed)
            assert np.array_equal(once.centers, again.centers)
            assert once.swaps == again.swaps > 3
            assert once.cost == pytest.approx(again.cost, rel=1e-12)
    assert not np.array_equal(once.centers, search(X, centers, seed=4).centers)


def test_threads_change_nothing():
    X = rows(60_000, 5, np.float32, seed=87)
    found = on_threads(lambda: search(X, start(X, 20), steps=25))
    assert found[0].swaps > 3
    for other in found[1:]:
        assert np.array_equal(found[0].centers, other.centers)
        assert found[0].cost == other.cost


def test_one_centre_becomes_the_best_row():
    X = rows(80, 2, seed=88)
    found = search(X, X[:1], steps=2000)
    assert found.cost == pytest.approx(squared_distances(X, X).sum(axis=0).min(), rel=1e-12)


def test_the_search_ends_when_all_costs_are_zero():
    X = np.repeat(np.array([[0.0, 0], [1, 5], [7, 2]]), 4, axis=0)
    found = search(X, X[[0, 4, 8]], steps=10**9)
    assert (found.cost, found.swaps) == (0.0, 0)
    assert search(X, X[[0, 8]], np.repeat([1.0, 0, 1], 4), steps=10**9).cost == 0
    found = search(X, X[[0, 0, 0]], steps=10**9)  # equal centres are separated
    assert (found.cost, found.swaps) == (0.0, 2)


def test_planted_groups_are_found():
    """From the worst start, all centres in one group, every group gets its centre."""
    rng = np.random.default_rng(90)
    of = np.sort(rng.integers(20, size=2000))
    X = rng.uniform(-100, 100, size=(20, 2))[of] + rng.normal(size=(2000, 2)) * 0.1
    found = search(X, X[:20], steps=search_steps(20))
    assert set(of[nearest(found.centers, X)]) == set(range(20))
