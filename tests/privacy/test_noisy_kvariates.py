"""Private k-variates++: the law of its draws, its charges, and its checks."""

import itertools

import numpy as np
import pytest
from api import Conditional, Floored, WithLaplace
from api import noisy_kvariates_module as noisy_kvariates
from hypothesis import given
from hypothesis import strategies as st
from privacy.private_models import make_task
from sampling.chi_square import ALPHA, follows
from scipy import stats

from kvariates import PrivateKMeans

pytestmark = pytest.mark.slow

# --- charges ---------------------------------------------------------------------------------


def test_charges_name_the_method_and_its_noise():
    made = make_task(np.zeros((1000, 2)), 4, "replace-one")
    (charge,) = Floored()(made).charges
    assert charge.mechanism == "floored k-variates++"
    assert (charge.sensitivity, charge.norm) == (4.0, "l1")
    (charge,) = WithLaplace()(made).charges
    assert charge.scale == pytest.approx(4 * 4.0)  # k 2R / epsilon
    count, centers = Floored()(make_task(np.zeros((1000, 2)), 4, delta=0.1)).charges
    assert count.epsilon == pytest.approx(noisy_kvariates.COUNT_SHARE)
    assert centers.epsilon == pytest.approx(1 - noisy_kvariates.COUNT_SHARE)


def test_the_sensitivity_is_the_diameter_of_the_domain():
    box = make_task(np.zeros((3, 5)), 2, "replace-one")
    assert Floored()(box).charges[0].sensitivity == pytest.approx(10.0)
    ball = make_task(np.zeros((3, 4)), 2, "replace-one", ball=True)
    assert Floored()(ball).charges[0].sensitivity == pytest.approx(2 * np.sqrt(4))


# --- laws ------------------------------------------------------------------------------------


ROWS = np.array([[-1.0], [-0.25], [0.5], [0.75]])


def law(alpha):
    """The law of the two rows drawn without noise: the paper's weights, floored."""
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
    """With such a large epsilon noise moves no centre nearer to another row."""
    made = make_task(ROWS, 2, "replace-one", epsilon=2000.0)
    draws = []
    for _ in range(3000):
        centers = method(made).centers
        draws.append(tuple(np.abs(centers - ROWS[:, 0]).argmin(axis=1).tolist()))
    assert follows(draws, law(alpha)) > ALPHA


def test_noise_has_the_scale_that_is_charged():
    """With one row in the middle and k = 1, the centre is noise clipped to the domain."""
    made = make_task(np.zeros((1, 1)), 1, "replace-one", epsilon=2 * np.log(4))
    scale = WithLaplace()(made).charges[0].scale
    got = np.array([WithLaplace()(made).centers[0, 0] for _ in range(4000)])
    cuts = np.array([-0.999, -0.5, -0.2, 0.0, 0.2, 0.5, 0.999])
    cells = np.diff(np.concatenate([[0.0], stats.laplace.cdf(cuts, scale=scale), [1.0]]))
    hits = np.bincount(np.searchsorted(cuts, got), minlength=8)
    assert stats.chisquare(hits, 4000 * cells).pvalue > ALPHA


# --- sizes -----------------------------------------------------------------------------------


@given(st.integers(0, 20), st.integers(1, 25))
def test_resized_rows_have_the_size_and_keep_real_rows(n, size):
    X = np.arange(1.0, n + 1)[:, None]
    rows, weight = noisy_kvariates.resize(X, size)
    assert (len(rows) if weight is None else weight.sum()) == size
    real = rows[rows[:, 0] != 0, 0]
    assert len(set(real)) == len(real) == min(n, size)
    assert set(real) <= set(X[:, 0])


# --- input -----------------------------------------------------------------------------------


def test_bad_constants_raise():
    for delta_w in (None, 0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="delta_w must be a number > 0"):
            PrivateKMeans(3, epsilon=1.0, bounds=(0, 1), method=Conditional(delta_w)).fit(
                np.eye(9, 2)
            )
    for alpha in (0.0, -1.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="alpha"):
            Floored(alpha)
