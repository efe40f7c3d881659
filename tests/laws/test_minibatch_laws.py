"""Mini-batch k-means against its own definition written slowly, and what users count on.

The one test of chance has a false-alarm rate of 1e-6 and a fixed seed.
"""

from unittest import mock

import numpy as np
import pytest
from api import HostData, RefineProblem, Rows, StopRule, batches, minibatch, refine, total_cost
from api import refinements_module as module
from laws import brute
from laws.cases import LAYOUTS, every_matrix, rows, start
from sampling.chi_square import ALPHA, chi_square

OPTIONS = {"batch_size": 100, "max_iter": 20}


def run(X, centers, weights=None, seed=0, batch_size=100, max_iter=20):
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    rng, stop = np.random.default_rng(seed), StopRule(max_iter, 0.0)
    with mock.patch.object(module, "BATCH_SIZE", batch_size):
        return minibatch(RefineProblem(HostData(Rows.of(X), weights), centers, stop, refine, rng))


def groups(n, k, d=3, dtype=np.float64, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    of = np.arange(n) % k
    X = rng.normal(size=(k, d))[of] * 5 + rng.normal(size=(n, d)) * spread
    return rng.permutation(X).astype(dtype)


def slow(X, centers, weights, batch_size, max_iter, seed):
    """Return the centres, the number of batches and of reassigned centres, row by row."""
    rng = np.random.default_rng(seed)
    X, centers = brute.dense64(X), np.array(centers, dtype=np.float64)
    n, k = len(X), len(centers)
    size = min(batch_size, n)
    counts, smooth, lowest, waited, since, moved = np.zeros(k), None, np.inf, 0, 0, 0
    for step in range(max(1, max_iter * n // size)):
        if weights is None:
            batch = X[rng.integers(n, size=size)]
        else:
            places = rng.random(size) * weights.sum()
            batch = X[[np.flatnonzero(np.cumsum(weights) > u)[0] for u in places]]
        labels = brute.nearest(batch, centers)
        costs = ((batch - centers[labels]) ** 2).sum(axis=1)
        for x, j in zip(batch, labels, strict=True):
            counts[j] += 1
            centers[j] += (x - centers[j]) / counts[j]
        since += size
        if since >= 100 * k:
            since = 0
            poor = [j for j in np.argsort(counts, kind="stable") if counts[j] < counts.mean() / 100]
            poor = poor[: min(size // 2, int((costs > 0).sum()))]
            if poor:
                picked = rng.choice(size, size=len(poor), replace=False, p=costs / costs.sum())
                centers[poor] = batch[picked]
                counts[poor] = min(counts[j] for j in range(k) if j not in poor)
                moved += len(poor)
        if step > 0:
            share = min(1.0, 2 * size / (n + 1))
            smooth = costs.mean() if smooth is None else smooth + share * (costs.mean() - smooth)
            waited = 0 if smooth < lowest else waited + 1
            lowest = min(lowest, smooth)
        if waited >= 10:
            break
    return centers, step + 1, moved


CASES = {
    "plain": {},
    "larger than the data": {"batch_size": 10**6},
    "one pass": {"max_iter": 1},
    "single rows": {"batch_size": 1, "max_iter": 1},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("layout", "dtype", "weighted"),
    [("dense", np.float32, False), ("dense", np.float64, True), ("csr", np.float32, True)],
)
def test_equals_its_definition(name, layout, dtype, weighted):
    X = rows(700, 4, dtype, seed=91, sparsity=0.3)
    weights = np.random.default_rng(0).integers(0, 4, size=700) * 0.5 if weighted else None
    options = {**OPTIONS, **CASES[name]}
    found = run(LAYOUTS[layout](X), start(X, 8), weights, **options)
    centers, count, _ = slow(X, start(X, 8), weights, seed=0, **options)
    assert found.n_iter == -(-count * min(options["batch_size"], 700) // 700)
    atol = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found.centers, centers, rtol=0, atol=atol)


def test_the_definition_ends_in_every_way():
    """The cases above see patience and max_iter at work."""
    X = rows(700, 4, seed=91, sparsity=0.3)

    def batches(**options):
        return slow(X, start(X, 8), None, seed=0, **{**OPTIONS, **options})[1]

    assert 10 < batches() < 20 * 7
    assert batches(max_iter=1) == 7


def test_centres_with_few_rows_are_reassigned_as_defined():
    X = groups(3000, 10, seed=92)
    centers = np.concatenate([X[:4], np.full((6, 3), 1e3) + np.arange(6)[:, None]])
    right, _, moved = slow(X, centers, None, seed=3, **OPTIONS)
    assert moved >= 6
    found = run(X, centers, seed=3)
    np.testing.assert_allclose(found.centers, right, rtol=0, atol=1e-9)
    assert (np.bincount(found.labels, minlength=10) > 0).all()


def test_small_clusters_of_a_good_start_are_kept(monkeypatch):
    """Twenty groups of 0.4 % beside a large one: poor beside the largest, not beside the mean."""
    rng = np.random.default_rng(93)
    of = rng.permutation(np.repeat(np.arange(21), [36_800] + 20 * [160]))
    places = np.concatenate([np.zeros((1, 3)), rng.normal(size=(20, 3)) * 50])
    X = places[of] + rng.normal(size=(40_000, 3))
    found = run(X, places + 0.5, batch_size=1000)
    assert np.array_equal(found.labels, of)
    assert not np.array_equal(found.centers, places + 0.5)
    # As much of the mean as 0.01 of the largest: small ones are lost, and the start handed back.
    monkeypatch.setattr(module, "FEW_ROWS", 0.01 * 0.92 * 21)
    assert np.array_equal(run(X, places + 0.5, batch_size=1000).centers, places + 0.5)


def test_never_worse_than_the_start():
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(size=(5000, 2)), 1e4 * rng.normal(size=(5, 2))])
    centers = np.concatenate([X[:3], X[-5:]])
    start = total_cost(Rows.of(X).costs(centers, Rows.of(X).nearest(centers)), None)
    for seed in range(5):
        assert run(X, centers, batch_size=50, seed=seed).inertia <= start


@every_matrix
def test_labels_and_inertia_are_exact_for_the_centres(layout, dtype):
    X = rows(900, 5, dtype, seed=94, sparsity=0.2)
    weights = np.random.default_rng(1).exponential(size=900)
    init = start(X, 12).astype(np.float64)
    before = init.copy()
    found = run(LAYOUTS[layout](X), init, weights)
    assert found.centers.dtype == dtype
    assert not found.converged
    assert np.array_equal(init, before), "the start was written to"
    assert np.array_equal(found.labels, brute.nearest(X, found.centers))
    right = brute.inertia(X, found.centers, found.labels, weights)
    assert found.inertia == pytest.approx(right, rel=1e-9)
    assert found.inertia < 0.9 * brute.cost(X, init, weights)


@pytest.mark.parametrize("spread", [0.5, 2.0], ids=["groups", "overlapping"])
def test_cost_is_near_that_of_lloyd(spread):
    X = groups(30_000, 12, d=4, seed=95, spread=spread)
    space, excess = Rows.of(X), []
    for seed in range(5):
        init = start(X, 12, seed=seed)
        lloyd = refine(HostData(space), init, StopRule(300, 0.0))
        found = run(X, lloyd.centers + 0.3, batch_size=1024, max_iter=100, seed=seed)
        excess.append(found.inertia / lloyd.inertia)
    assert max(excess) < 1.03


def test_batches_are_drawn_by_weight():
    weights = np.array([0.0, 1, 3, 0, 0.5, 2, 0])
    drawing = batches(7, weights, 1000, np.random.default_rng(2))
    drawn = np.bincount(np.concatenate([next(drawing) for _ in range(20)]), minlength=7)
    assert chi_square(drawn, weights / weights.sum()) > ALPHA
    assert chi_square(drawn, np.r_[weights[1:], weights[:1]] / weights.sum()) < ALPHA
    drawing = batches(7, None, 1000, np.random.default_rng(3))
    drawn = np.bincount(np.concatenate([next(drawing) for _ in range(20)]), minlength=7)
    assert chi_square(drawn, np.full(7, 1 / 7)) > ALPHA


def test_rows_of_weight_zero_change_nothing():
    """Whatever they are: the same centres, to the bit."""
    X = rows(600, 3, seed=98)
    weights = np.random.default_rng(4).integers(0, 3, size=600) * 1.0
    elsewhere = X.copy()
    elsewhere[weights == 0] = 1e6
    one, other = (run(Y, start(X, 7), weights) for Y in (X, elsewhere))
    assert one.centers.tobytes() == other.centers.tobytes()
    assert one.inertia == other.inertia


def test_rows_that_all_lie_on_centres():
    X = np.repeat(np.array([[0.0, 1], [5, 5]]), 300, axis=0)
    found = run(X, np.array([[0.0, 1], [5, 5], [9, 9]]))
    assert found.inertia == 0
    assert np.array_equal(found.centers, [[0, 1], [5, 5], [9, 9]])
