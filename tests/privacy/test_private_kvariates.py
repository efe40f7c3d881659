"""Private k-variates++: what is drawn, what is charged, and what is asked of the caller."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling.chi_square import ALPHA, follows
from scipy import stats

from kvariates.privacy.ledger import Ledger, Loss
from kvariates.private_methods.noisy_kvariates import (
    COUNTING,
    Conditional,
    Floored,
    WithLaplace,
    of_size,
)
from kvariates.private_methods.task import Domain, PrivateTask

METHODS = {
    "floored": Floored(),
    "more floored": Floored(alpha=1.0),
    "laplace": WithLaplace(),
    "conditional": Conditional(delta_w=1e-3),
}
SIDES = ("add-remove", "replace-one")


def task(X, k, side="add-remove", epsilon=1.0, delta=0.0, ball=False):
    X = np.asarray(X, dtype=np.float64)
    d = X.shape[1]
    domain = Domain.around(np.zeros(d), 1.0) if ball else Domain.box(-np.ones(d), np.ones(d))
    return PrivateTask(domain.rows(X), domain, k, side, Loss(epsilon, delta))


# --- charges ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("side", SIDES)
@settings(max_examples=25)
@given(
    epsilon=st.floats(0.01, 30.0),
    delta=st.sampled_from([0.0, 1e-6, 0.1]),
    n=st.integers(0, 40),
    k=st.integers(1, 20),
    d=st.integers(1, 4),
    ball=st.booleans(),
)
def test_the_total_is_the_epsilon_asked_for(name, side, epsilon, delta, n, k, d, ball):
    made = task(np.linspace(-1, 1, n * d).reshape(n, d), k, side, epsilon, delta, ball)
    got = METHODS[name](made)
    total = Ledger(side, got.charges, Loss(epsilon, delta)).total()
    assert epsilon * (1 - 1e-12) <= total.epsilon <= epsilon
    assert total.delta == 0.0  # pure, whatever delta is
    assert got.centers.shape == (k, d)
    assert np.allclose(made.domain.inside(got.centers), got.centers)


def test_a_charge_says_what_ran():
    made = task(np.zeros((1000, 2)), 4, "replace-one")
    (charge,) = Floored()(made).charges
    assert charge.mechanism == "floored k-variates++"
    assert (charge.sensitivity, charge.norm) == (4.0, "l1")
    (charge,) = WithLaplace()(made).charges
    assert charge.scale == pytest.approx(4 * 4.0)  # k 2R / epsilon
    count, centers = Floored()(task(np.zeros((1000, 2)), 4)).charges
    assert count.epsilon == pytest.approx(COUNTING)
    assert centers.epsilon == pytest.approx(1 - COUNTING)


def test_reach_is_how_far_apart_two_rows_can_be():
    box = task(np.zeros((3, 5)), 2, "replace-one")
    assert Floored()(box).charges[0].sensitivity == pytest.approx(10.0)
    ball = task(np.zeros((3, 4)), 2, "replace-one", ball=True)
    assert Floored()(ball).charges[0].sensitivity == pytest.approx(2 * np.sqrt(4))


def test_under_replace_one_noise_depends_on_the_number_of_rows_alone():
    far, near = (task(X, 3, "replace-one") for X in (np.eye(7, 2), np.zeros((7, 2))))
    assert Floored()(far).charges == Floored()(near).charges


# --- laws ------------------------------------------------------------------------------------


ROWS = np.array([[-1.0], [-0.25], [0.5], [0.75]])


def law(alpha):
    """Of the two rows drawn, if noise were none: the paper's weights, floored."""
    out = {}
    for i, j in itertools.product(range(4), repeat=2):
        weights = (ROWS[:, 0] - ROWS[i, 0]) ** 2 + alpha * 4.0
        out[i, j] = float(weights[j] / weights.sum() / 4)
    return out


@pytest.mark.parametrize(
    ("method", "alpha"),
    [(Floored(0.1), 0.1), (Floored(0.5), 0.5), (WithLaplace(), 0.0), (Conditional(1e-3), 0.0)],
)
def test_with_little_noise_rows_are_drawn_by_floored_distances(method, alpha):
    """At so large an epsilon that noise moves no centre nearer to another row."""
    made = task(ROWS, 2, "replace-one", epsilon=2000.0)
    draws = []
    for _ in range(3000):
        centers = method(made).centers
        draws.append(tuple(np.abs(centers - ROWS[:, 0]).argmin(axis=1).tolist()))
    assert follows(draws, law(alpha)) > ALPHA


def test_noise_has_the_scale_that_is_charged():
    """One row at the middle, k = 1: a centre is noise, cut off at the domain's ends."""
    made = task(np.zeros((1, 1)), 1, "replace-one", epsilon=2 * np.log(4))
    scale = WithLaplace()(made).charges[0].scale
    got = np.array([WithLaplace()(made).centers[0, 0] for _ in range(4000)])
    cuts = np.array([-0.999, -0.5, -0.2, 0.0, 0.2, 0.5, 0.999])
    cells = np.diff(np.concatenate([[0.0], stats.laplace.cdf(cuts, scale=scale), [1.0]]))
    hits = np.bincount(np.searchsorted(cuts, got), minlength=8)
    assert stats.chisquare(hits, 4000 * cells).pvalue > ALPHA


# --- data sets of one size -------------------------------------------------------------------


@given(st.integers(0, 20), st.integers(1, 25))
def test_data_are_made_of_one_size(n, size):
    X = np.arange(1.0, n + 1)[:, None]
    rows, weight = of_size(X, size)
    assert (len(rows) if weight is None else weight.sum()) == size
    real = rows[rows[:, 0] != 0, 0]
    assert len(set(real)) == len(real) == min(n, size)
    assert set(real) <= set(X[:, 0])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_and_many_centers(name, n):
    got = METHODS[name](task(np.ones((n, 2)), 9))
    assert got.centers.shape == (9, 2)


# --- at the door -----------------------------------------------------------------------------


def test_what_is_asserted_is_named():
    got = Conditional(delta_w=0.01)(task(np.eye(9, 2), 3))
    assert got.condition == "conditional: delta_w = 0.01 asserted, not checked"
    assert all("conditional" in charge.label for charge in got.charges)
    assert Floored()(task(np.eye(9, 2), 3)).condition is None


@pytest.mark.parametrize("delta_w", [None, 0.0, -1.0, np.inf, np.nan])
def test_a_constant_is_not_guessed(delta_w):
    with pytest.raises(ValueError, match="delta_w must be a number > 0"):
        Conditional(delta_w)(task(np.eye(9, 2), 3))


@pytest.mark.parametrize("alpha", [0.0, -1.0, 1.5, np.nan])
def test_a_floor_is_needed(alpha):
    with pytest.raises(ValueError, match="alpha"):
        Floored(alpha)
