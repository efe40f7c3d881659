"""LS++ against brute force: what is kept about the rows, which swap is made, and what it is for.

The one test of chance has a false-alarm rate of 1e-6 and a fixed seed.
"""

import numpy as np
import pytest
from laws.brute import inertia, nearest, squared_distances
from laws.cases import DTYPES, LAYOUTS, rows, start
from sampling.chi_square import ALPHA, chi_square
from scipy import sparse
from threadpoolctl import threadpool_limits

from kvariates.data.rows import Rows
from kvariates.seeding import local_search as module
from kvariates.seeding.local_search import LocalSearchState, local_search, search_steps


def grid(n, d, dtype=np.float64, seed=0, side=9, sparsity=0.0):
    """Return rows of small integers: distances are tied all the time, and rows repeat."""
    return np.random.default_rng(seed).integers(side, size=(n, d)).astype(dtype)


DATA = {"general": rows, "ties": grid}
SIZES = [(60, 2, 2), (80, 1, 5), (150, 4, 12), (90, 3, 1)]
every_size = pytest.mark.parametrize(("n", "d", "k"), SIZES)
every_data = pytest.mark.parametrize("make", DATA.values(), ids=DATA)


def search(X, centers, weights=None, steps=60, seed=0):
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    return local_search(Rows.of(X), centers, weights, steps=steps, rng=np.random.default_rng(seed))


def cost_of(X, centers, weights=None):
    return inertia(X, centers, nearest(X, centers), weights)


def two_nearest(X, centers):
    """Return the squared distances to the nearest and the second nearest centre."""
    D = np.sort(squared_distances(X, centers), axis=1)
    return D[:, 0], D[:, 1] if D.shape[1] > 1 else np.full(len(D), np.inf)


def costs_after(X, centers, p, weights):
    """Return the cost with p in the place of each centre in turn."""
    out = []
    for j in range(len(centers)):
        swapped = centers.copy()
        swapped[j] = p
        out.append(cost_of(X, swapped, weights))
    return np.array(out)


def watch(monkeypatch):
    """Return a list that fills with every step: (centres before, drawn distances, swap or None)."""
    steps = []
    best, swap = LocalSearchState.best_swap, LocalSearchState.swap

    def spy_best(self, to_p):
        j, after = best(self, to_p)
        steps.append({"standing": self, "before": self.centers.copy(), "to_p": to_p.copy()})
        steps[-1].update(j=j, after=after, cost=self.cost, swapped=False)
        return j, after

    def spy_swap(self, j, p, to_p):
        swap(self, j, p, to_p)
        steps[-1].update(swapped=True, p=p.copy(), place=j)
        steps[-1].update(now=self.centers.copy(), now_cost=self.cost)

    monkeypatch.setattr(LocalSearchState, "best_swap", spy_best)
    monkeypatch.setattr(LocalSearchState, "swap", spy_swap)
    return steps


@every_size
@every_data
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_nearest_stay_exact(n, d, k, make, layout, dtype):
    """Whatever is swapped for whatever, be it wise or not."""
    X = make(n, d, dtype, seed=n)
    space = Rows.of(LAYOUTS[layout](X))
    standing = LocalSearchState(space, None, start(X, k).astype(np.float64))
    rng = np.random.default_rng(9)
    for _ in range(40):
        row, j = rng.integers(n), int(rng.integers(k))
        p = X[row].astype(np.float64)
        standing.swap(j, p, space.costs(p[None], np.zeros(n, dtype=np.int32)))
        assert np.array_equal(standing.centers[j], p)
        afresh = space.two_nearest(standing.centers)
        for name in ("labels", "second", "cost", "second_cost"):
            assert np.array_equal(getattr(standing.two, name), getattr(afresh, name)), name
        assert standing.cost == pytest.approx(afresh.cost.sum(), rel=1e-12)
        for kept, right in zip(
            (afresh.cost, afresh.second_cost), two_nearest(X, standing.centers), strict=True
        ):
            np.testing.assert_allclose(kept, right, rtol=1e-9, atol=1e-12)


@every_size
@every_data
@pytest.mark.parametrize("weighted", [False, True])
def test_every_swap_is_the_best_and_helps(n, d, k, make, weighted, monkeypatch):
    X = make(n, d, seed=n + 1)
    weights = np.random.default_rng(n).integers(0, 4, size=n) * 0.5 if weighted else None
    steps = watch(monkeypatch)
    found = search(X, start(X, k), weights)
    refused = 0
    for step in steps:
        inside, weight = step["standing"].space.X, step["standing"].weight
        row = np.flatnonzero(step["to_p"] == 0)[0]
        after = costs_after(inside, step["before"], inside[row], weight)
        least, tiny = after.min(), 1e-9 * step["cost"]
        assert after[step["j"]] == pytest.approx(least, abs=tiny)
        assert step["after"] == pytest.approx(least, abs=tiny)
        if step["swapped"]:
            assert np.array_equal(step["p"], inside[row])
            assert step["now_cost"] < step["cost"]
            changed = np.flatnonzero((step["now"] != step["before"]).any(axis=1))
            assert set(changed) <= {step["place"]}
            assert step["place"] == step["j"]
        else:
            refused += 1
            assert least > step["cost"] - tiny
    assert found.swaps == sum(step["swapped"] for step in steps) > 0
    assert refused > 0, "a test that never sees a refusal"


@every_data
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cost_never_rises_and_is_exact(make, layout, dtype):
    X = make(500, 5, dtype, seed=81)
    weights = np.random.default_rng(3).exponential(size=500)
    centers = start(X, 15).astype(np.float64)
    before = centers.copy()
    last = cost_of(X, centers, weights)
    for steps in range(0, 60, 6):
        found = search(LAYOUTS[layout](X), centers, weights, steps)
        assert found.cost == pytest.approx(cost_of(X, found.centers, weights), rel=1e-11)
        assert found.cost <= last * (1 + 1e-15)
        last = found.cost
    assert np.array_equal(centers, before), "the start was written to"
    assert last < 0.9 * cost_of(X, before, weights)


def test_rows_far_from_the_origin_and_tight_groups():
    """Costs of 1e-10 between groups 1e4 apart: the sums must not drown in what lies between."""
    rng = np.random.default_rng(82)
    X = rng.permutation(6)[rng.integers(6, size=(300, 1))] * 1e4 + rng.normal(size=(300, 2)) * 1e-7
    found = search(X, X[:6], steps=80)
    again = search(X, found.centers, steps=300, seed=1)
    assert again.cost <= found.cost
    assert again.cost == pytest.approx(cost_of(X, again.centers), rel=1e-11)
    assert again.cost < 300 * 4e-14


def test_draws_are_in_proportion_to_the_potential():
    X = rows(40, 2, seed=83)
    weights = np.random.default_rng(4).integers(0, 4, size=40) * 1.0
    centers = X[:3].astype(np.float64)
    standing = LocalSearchState(Rows.of(X), weights, centers)
    rng = np.random.default_rng(5)
    drawn = np.bincount([standing.draw(rng) for _ in range(20_000)], minlength=40)
    share = weights * squared_distances(X, centers).min(axis=1)
    assert chi_square(drawn, share / share.sum()) > ALPHA
    root = weights * np.sqrt(squared_distances(X, centers).min(axis=1))
    for wrong in (share * weights, root, share / np.maximum(weights, 1), np.roll(share, 1)):
        assert chi_square(drawn, wrong / wrong.sum()) < ALPHA


def test_draws_follow_the_swaps():
    """After a swap the law is that of the new costs."""
    X = rows(40, 2, seed=84)
    standing = LocalSearchState(Rows.of(X), None, X[:3].astype(np.float64))
    p = X[[30]].astype(np.float64)
    standing.swap(1, p[0], squared_distances(X, p)[:, 0])
    rng = np.random.default_rng(6)
    drawn = np.bincount([standing.draw(rng) for _ in range(20_000)], minlength=40)
    share = squared_distances(X, X[[0, 30, 2]]).min(axis=1)
    assert chi_square(drawn, share / share.sum()) > ALPHA


def test_weights_are_repeats_and_order_is_none():
    X = rows(200, 3, seed=85)
    weights = np.random.default_rng(7).integers(0, 4, size=200)
    repeated = np.repeat(X, weights, axis=0)
    repeated = repeated[np.random.default_rng(8).permutation(len(repeated))]
    centers = start(X, 10)
    for seed in range(10):
        once = search(X, centers, weights * 1.0, seed=seed)
        again = search(repeated, centers, seed=seed)
        assert np.array_equal(once.centers, again.centers)
        assert once.swaps == again.swaps
        assert once.cost == pytest.approx(again.cost, rel=1e-12)
    assert not np.array_equal(once.centers, search(X, centers, seed=9).centers)


def test_sparse_is_dense():
    X = rows(200, 6, seed=86, sparsity=0.6)
    dense, csr = search(X, start(X, 9)), search(sparse.csr_array(X), start(X, 9))
    assert np.array_equal(dense.centers, csr.centers)
    assert dense.swaps == csr.swaps > 3


def test_threads_do_not_matter():
    X = rows(60_000, 5, np.float32, seed=87)
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="openmp"):
            found.append(search(X, start(X, 20), steps=25))
    assert found[0].swaps > 3
    for other in found[1:]:
        assert np.array_equal(found[0].centers, other.centers)
        assert found[0].cost == other.cost


def test_one_centre_finds_a_central_row():
    X = rows(80, 2, seed=88)
    found = search(X, X[:1], steps=2000)
    assert found.cost == pytest.approx(squared_distances(X, X).sum(axis=0).min(), rel=1e-12)


def test_nothing_left_to_lower_ends_the_search(monkeypatch):
    X = np.repeat(np.array([[0.0, 0], [1, 5], [7, 2]]), 4, axis=0)
    monkeypatch.setattr(module.Standing, "best_swap", None)  # never asked
    found = search(X, X[[0, 4, 8]], steps=10**9)
    assert (found.cost, found.swaps) == (0.0, 0)
    weightless = np.repeat([1.0, 0, 1], 4)
    assert search(X, X[[0, 8]], weightless, steps=10**9).cost == 0


def test_doubled_centres_are_parted():
    X = np.array([[0.0], [0], [4], [4], [9], [9]])
    found = search(X, np.array([[0.0], [0], [0]]), steps=50)
    assert sorted(found.centers.ravel()) == [0, 4, 9]
    assert (found.cost, found.swaps) == (0.0, 2)


def test_no_steps_change_nothing():
    X = rows(50, 2, seed=89)
    found = search(X, X[:4], steps=0)
    assert np.array_equal(found.centers, X[:4])
    assert found.swaps == 0


def test_planted_groups_are_found():
    """From the worst start, all centres in one group, every group gets its centre."""
    rng = np.random.default_rng(90)
    of = np.sort(rng.integers(20, size=2000))
    X = rng.uniform(-100, 100, size=(20, 2))[of] + rng.normal(size=(2000, 2)) * 0.1
    found = search(X, X[:20], steps=search_steps(20))
    assert set(of[nearest(found.centers, X)]) == set(range(20))
