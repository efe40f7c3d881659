"""The best centre under a distortion: no other is better, near or, where D is convex, far."""

import numpy as np
import pytest
from api import DISTORTIONS
from hypothesis import assume, example, given
from hypothesis import strategies as st
from laws.divergences import distributions, every, fitted, lloyd_under, rows, summed
from scipy.optimize import minimize
from scipy.special import kl_div

JENSEN = DISTORTIONS["total-jensen"].run


def local_size(R, c):
    """A relative step from c that is small beside the way to any row: there D is not smooth."""
    way = np.abs(R - c).max(axis=1)
    return min([0.01, *(0.1 * way[way > 1e-9] / max(c.max(), 1e-300))])


@every
@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), d=st.integers(1, 4))
@example(seed=0, n=1, d=1)
@example(seed=156, n=2, d=2)  # total Jensen: a narrow valley, too long for gradient steps
def test_no_other_centre_is_better(name, seed, n, d):
    rng = np.random.default_rng(seed)
    X = rows(name, n + 3 * d, d, seed)
    distortion = fitted(name, X)
    R, w = distortion.prepare(X[:n]), rng.exponential(size=n)
    best = distortion.center(R, w)
    least = summed(distortion, R, w, best)
    # Total Jensen has local minima, and the search ends where it gains no 1e-13 of the sum.
    local = local_size(R, best)
    sizes = [local / 10, local] if name == "total-jensen" else [1e-3, 0.1, 0.5]
    slack = 1e-9 if name == "total-jensen" else 1e-12
    for size in sizes:
        for noise in rng.uniform(-1, 1, size=(6, d)):
            off = best + size * noise if name == "mahalanobis" else best * np.exp(size * noise)
            assert least <= summed(distortion, R, w, off) * (1 + slack) + 1e-15
    if name != "total-jensen":
        assert np.allclose(best, np.average(R, axis=0, weights=w), rtol=1e-12)


def test_perturbing_a_wrong_centre_would_be_seen():
    """The test above can fail: away from the minimum some perturbation helps."""
    rng = np.random.default_rng(0)
    X, w = rows("itakura-saito", 8, 3), np.ones(8)
    for name in ("kl", "itakura-saito", "total-jensen"):
        D = DISTORTIONS[name].run
        wrong = D.center(X, w) * 1.02
        offs = [wrong * np.exp(0.01 * rng.uniform(-1, 1, size=3)) for _ in range(6)]
        assert min(summed(D, X, w, off) for off in offs) < summed(D, X, w, wrong)


def gain(D, X, w, c, size):
    """The part of the cost that a step of relative size `size` along one coordinate saves."""
    steps = np.exp(size * np.concatenate([np.eye(len(c)), -np.eye(len(c))]))
    cost = summed(D, X, w, c)
    return (cost - min(summed(D, X, w, c * step) for step in steps)) / max(cost, 1e-300)


STEP, NOTHING = 1e-3, 1e-9  # in 8000 draws the largest gain was 6e-11


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 4))
def test_total_jensen_centre_is_stationary(seed, n, d):
    rng = np.random.default_rng(seed)
    X, w, D = rows("total-jensen", n, d, seed), rng.exponential(size=n), JENSEN
    found = D.center(X, w)
    assert (found[~X.any(axis=0)] == 0).all()
    assume(local_size(X, found) >= STEP)  # one draw in fifty: almost on a row
    assert gain(D, X, w, found, STEP) <= NOTHING


@pytest.mark.parametrize("wrong", ["mean", "1 % off", "1 % off along one"])
def test_a_centre_that_is_not_stationary_would_be_seen(wrong):
    """The test above can fail: each of these does for nine draws of ten."""
    D, seen = JENSEN, []
    for seed in range(40):
        X, w = rows("total-jensen", 6, 3, seed), np.random.default_rng(seed).exponential(size=6)
        c = D.center(X, w)
        planted = {
            "mean": np.average(X, axis=0, weights=w),
            "1 % off": 1.01 * c,
            "1 % off along one": c * [1, 0.99, 1],
        }
        seen.append(gain(D, X, w, planted[wrong], STEP) > 100 * NOTHING)
    assert np.mean(seen) > 0.9


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 4))
@example(seed=2221, n=2, d=2)  # a start of zeros, and the best one
def test_total_jensen_centre_is_never_worse_than_its_start(seed, n, d):
    rng = np.random.default_rng(seed)
    X, w, D = rows("total-jensen", n, d, seed), rng.exponential(size=n), JENSEN
    for start in (rows("itakura-saito", 1, d, seed + 1)[0], X[0], D.center(X, w), X.max(axis=0)):
        after = summed(D, X, w, D.center(X, w, start))
        assert after <= summed(D, X, w, start) * (1 + 1e-12) + 1e-15


def test_total_jensen_has_other_minima_than_the_one_near_the_mean():
    """So a centre is sought from where it was, or a step of the loop could raise the cost."""
    X, w, D = np.array([[99.465], [0.019]]), np.array([0.4, 0.8]), JENSEN
    start = X[1]
    assert summed(D, X, w, D.center(X, w)) > 1.02 * summed(D, X, w, start)
    assert summed(D, X, w, D.center(X, w, start)) <= summed(D, X, w, start)
    fit = lloyd_under(D, X, start[None], w, max_iter=9)
    assert fit.inertia <= summed(D, X, w, start)


@pytest.mark.parametrize("seed", range(3))
def test_kl_centres_of_fixed_labels_are_what_an_optimiser_finds(seed):
    """Over all distributions (a softmax of free numbers), cluster by cluster."""
    X, w = distributions(9, 4, seed), np.random.default_rng(seed).exponential(size=9)
    kl = DISTORTIONS["kl"].run
    for own in (np.arange(4), np.arange(4, 9)):

        def cost(free, own=own):
            c = np.exp(free - free.max())
            return float((w[own] * kl_div(X[own], c / c.sum()).sum(axis=1)).sum())

        direct = minimize(cost, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
        c = np.exp(direct.x - direct.x.max())
        found = kl.center(X[own], w[own])
        assert cost(np.log(found)) == pytest.approx(direct.fun, rel=1e-9)
        assert np.allclose(found, c / c.sum(), atol=1e-5)
