"""Every scan gives the labels, steps and centres of brute force, for any shape."""

from itertools import pairwise

import numpy as np
import pytest
from api import REFINEMENTS, InMemoryAssigner, objective_for
from hypothesis import given
from hypothesis import strategies as st
from laws import brute
from laws.cases import (
    ALGORITHMS,
    DTYPES,
    LAYOUTS,
    METRICS,
    close,
    every_matrix,
    every_metric,
    fit,
    rows,
    same_bits,
    start,
    weighted_or_not,
)
from sklearn.cluster import KMeans as Peer

from kvariates import KMeans


def check_against_brute(X, init, metric="euclidean", weights=None, **options):
    """All algorithms reach brute force's fit, and one another's to the last bit."""
    expected = brute.lloyd(X, init, weights, metric=metric, **options)
    fits = [
        fit(X, init, weights, algorithm=algorithm, metric=metric, **options)
        for algorithm in (ALGORITHMS if len(init) > 1 else ["lloyd", "hamerly", "auto"])
    ]
    first = fits[0]
    assert np.array_equal(first.labels_, expected.labels)
    # A spherical fit that starts where it ends may or may not see its centres move by a rounding.
    if metric == "euclidean" or expected.n_iter > 2:
        assert first.n_iter_ == expected.n_iter
    assert first.cluster_centers_.dtype == X.dtype
    np.testing.assert_allclose(first.cluster_centers_, expected.centers, **close(X.dtype))
    # Unit rows are rounded to their precision: half of that squared distance is the cost of none.
    atol = len(first.labels_) * 10 * np.finfo(X.dtype).eps
    np.testing.assert_allclose(first.inertia_, expected.inertia, rtol=1e-6, atol=atol)
    for other in fits[1:]:
        assert same_bits(first, other)
    return first


@weighted_or_not
@every_matrix
@every_metric
def test_algorithms_agree_with_brute_force(dtype, layout, metric, weighted):
    X = LAYOUTS[layout](rows(900, 7, dtype, sparsity=0.4))
    weights = np.random.default_rng(2).exponential(size=900) if weighted else None
    model = check_against_brute(X, start(X, 11), metric, weights, tol=0)
    assert model.n_iter_ > 5, "too easy to tell the algorithms apart"


@every_matrix
@every_metric
def test_stopping_early_stops_at_the_same_place(dtype, layout, metric):
    X = LAYOUTS[layout](rows(500, 5, dtype, seed=3, sparsity=0.3))
    for max_iter in (1, 2, 3, 7):
        check_against_brute(X, start(X, 8), metric, tol=0, max_iter=max_iter)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tolerance_is_relative_to_the_variance(dtype):
    X = rows(2000, 4, dtype, seed=4) * np.array([1, 100, 1, 10], dtype=dtype)
    steps = [check_against_brute(X, start(X, 12), tol=t).n_iter_ for t in (1e-2, 1e-3, 1e-4, 0)]
    assert steps == sorted(set(steps))


WIDTHS = [*range(1, 41), 63, 64, 65, 66, 130, 257, 784]
COUNTS = [*range(1, 71), 100, 257]
SIZES = [1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257, 1000]
TILES = [1023, 1025, 4095, 4096, 4097, 8193, 16385]


@every_matrix
def test_any_number_of_features(layout, dtype):
    for d in WIDTHS:
        X = LAYOUTS[layout](rows(150 + d % 7, d, dtype, seed=d, sparsity=0.2))
        check_against_brute(X, start(X, 9), tol=0, max_iter=6)


@every_matrix
def test_every_number_of_centres(layout, dtype):
    for k in COUNTS:
        X = LAYOUTS[layout](rows(140 + 2 * k, 3 + k % 5, dtype, seed=k, groups=9))
        check_against_brute(X, start(X, k), tol=0, max_iter=4)


@every_matrix
def test_every_number_of_rows(layout, dtype):
    for n in SIZES:
        X = LAYOUTS[layout](rows(n, 6, dtype, seed=n))
        for k in sorted({1, 2, n // 2, n - 1, n} - {0}):
            if k <= min(n, 80):
                check_against_brute(X, start(X, k, seed=n), tol=0, max_iter=4)
    for n in TILES:
        X = LAYOUTS[layout](rows(n, 3, dtype, seed=n))
        check_against_brute(X, start(X, 5), tol=0, max_iter=5)


@given(
    n=st.integers(2, 120),
    d=st.integers(1, 20),
    k=st.integers(1, 30),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
    metric=st.sampled_from(METRICS),
    weighted=st.booleans(),
)
def test_any_shape(n, d, k, seed, dtype, layout, metric, weighted):
    k = min(k, n)
    # Two rows in one dimension have at most two directions: all would be ties.
    d = max(d, 2) if metric == "cosine" else d
    X = LAYOUTS[layout](rows(n, d, dtype, seed=seed, sparsity=0.2 if d > 2 else 0))
    weights = np.random.default_rng(seed).integers(1, 9, size=n) if weighted else None
    check_against_brute(X, start(X, k, seed=seed), metric, weights, tol=0, max_iter=20)


@pytest.mark.parametrize(("dtype", "weighted"), [(np.float32, True), (np.float64, False)])
def test_same_start_same_end_as_scikit_learn(dtype, weighted):
    X = rows(3000, 8, dtype, seed=6)
    weights = np.random.default_rng(0).uniform(0.1, 3, size=len(X)) if weighted else None
    init = start(X, 15)
    peer = Peer(15, init=init, n_init=1).fit(X, sample_weight=weights)
    ours = fit(X, init, weights)
    assert ours.n_iter_ == peer.n_iter_
    assert np.mean(ours.labels_ == peer.labels_) > 0.999
    np.testing.assert_allclose(ours.cluster_centers_, peer.cluster_centers_, rtol=0, atol=2e-4)
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=1e-5)


@every_metric
def test_cost_never_rises(metric):
    X = rows(1500, 6, seed=7)
    init = start(X, 20)
    costs = [fit(X, init, metric=metric, tol=0, max_iter=m).inertia_ for m in range(1, 25)]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(costs))
    assert costs[-1] < 0.95 * costs[0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@weighted_or_not
def test_centres_are_means_whatever_the_scales(algorithm, weighted):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 2)) * np.exp(3 * rng.standard_cauchy(size=(3000, 1)).clip(-7, 9))
    weights = 10.0 ** rng.uniform(-6, 6, size=3000) if weighted else np.ones(3000)
    model = fit(X, start(X, 25), weights, algorithm=algorithm, tol=0, max_iter=100)
    for j in set(model.labels_):
        check_mean(model, X, weights, j)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_centres_are_means_after_a_huge_row_has_left(algorithm):
    """Running sums must not keep the rounding errors of a row that has left the cluster."""
    giant = 1e12
    X = np.random.default_rng(9).normal(size=(3002, 2))
    X[1000], X[2000] = [giant, 0], [giant, 0.9 * giant]
    # The first step leaves row 1000 with the many, the second takes it away.
    init = np.array([[0.0, 0.0], [1.9 * giant, 1.5 * giant]])
    assert fit(X, init, algorithm=algorithm, tol=0, max_iter=1).cluster_centers_[0, 0] > 1e8
    model = fit(X, init, algorithm=algorithm, tol=0)
    assert np.bincount(model.labels_).tolist() == [3000, 2]
    check_mean(model, X, np.ones(3002), 0)


def check_mean(model, X, weights, j):
    own = model.labels_ == j
    mean = (X[own] * weights[own, None]).sum(axis=0) / weights[own].sum()
    atol = 1e-9 * np.abs(X[own]).max()
    np.testing.assert_allclose(model.cluster_centers_[j], mean, rtol=0, atol=atol)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("algorithm", list(REFINEMENTS))
def test_costs_that_are_kept_are_those_of_the_best_run(algorithm, metric):
    if not REFINEMENTS[algorithm].needs <= objective_for(metric, None, None, None).offers:
        return
    X = rows(300, 4)
    model = KMeans(9, metric=metric, algorithm=algorithm, n_init=3, random_state=0)
    model._keep_costs = True
    model.fit(X)
    assert len(model._costs) == model.n_iter_ > 1
    assert model._costs[-1] == model.inertia_
    if algorithm != "minibatch":  # costs of which are estimates
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(model._costs))


def test_the_cost_after_an_iteration_is_that_of_a_fit_that_ends_there():
    X, init = rows(300, 4), start(rows(300, 4), 9)
    model = KMeans(9, init=init, tol=0)
    model._keep_costs = True
    costs = model.fit(X)._costs
    shorter = [KMeans(9, init=init, tol=0, max_iter=i).fit(X) for i in range(1, len(costs) + 1)]
    assert costs == tuple(fit.inertia_ for fit in shorter)


def test_nothing_is_measured_if_nobody_asks_for_costs(monkeypatch):
    measured = []
    monkeypatch.setattr(InMemoryAssigner, "_exact_cost", lambda _: measured.append(1) or 0)
    model = KMeans(9, random_state=0).fit(rows(300, 4))
    assert not hasattr(model, "_costs")
    assert not measured
    model._keep_costs = True
    assert len(model.fit(rows(300, 4))._costs) == len(measured) == model.n_iter_


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_processor_that_fuses_operations_gives_the_same_centres(metric, monkeypatch):
    X = rows(400, 37, seed=12)
    model = KMeans(7, metric=metric, n_init=1, random_state=0)
    before = model.fit(X)
    centers, n_iter = before.cluster_centers_, before.n_iter_

    def fused(subscripts, a, b, out=None):  # one rounding at the end
        assert subscripts == "ij,ij->i"
        exact = np.square(a.astype(np.longdouble)).sum(axis=1).astype(np.float64)
        return np.copyto(out, exact) if out is not None else exact

    monkeypatch.setattr(np, "einsum", fused)
    after = model.fit(X)
    assert after.n_iter_ == n_iter
    assert np.array_equal(after.cluster_centers_, centers)
