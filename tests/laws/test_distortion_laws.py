"""Distortions: the formulas, the nearest centre, and what is refused."""

import numpy as np
import pytest
from api import DISTORTIONS, MIX, KullbackLeibler, Mahalanobis
from hypothesis import given
from hypothesis import strategies as st
from laws.divergences import every, fitted, labelled, measured, rows, table
from scipy import sparse

# ---- the divergence ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "n", "d"),
    [(name, n, d) for name in DISTORTIONS for n, d in ((7, 1), (40, 3), (300, 17))],
)
def test_divergence_is_the_formula(name, n, d, dtype):
    X = rows(name, n, d, dtype=dtype)
    distortion = fitted(name, X)
    C = rows(name, 5, d, seed=1)
    C[0] = X[-1]
    expected = table(name, X, C)
    np.testing.assert_allclose(measured(distortion, X, C), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["kl", "itakura-saito", "total-jensen"])
def test_divergence_keeps_its_digits_close_to_the_centre(name):
    """phi'' (x - c)^2 / 2 is the limit, a quarter of it for Jensen; plain formulas lose it all."""
    x, gap = np.array([[0.7, 2.0, 30.0]]), np.array([1e-7, -2e-7, 3e-6])
    second = 1 / x[0] ** 2 if name == "itakura-saito" else 1 / x[0]
    limit = (second * gap**2).sum() / 2
    if name == "total-jensen":
        slope = (np.log(x[0]) * gap).sum() / np.sqrt((gap**2).sum())
        limit = limit / 4 / np.sqrt(1 + slope**2)
    found = DISTORTIONS[name].run.divergence(x, x[0] + gap)[0]
    assert found == pytest.approx(limit, rel=1e-5)


@every
def test_divergence_is_zero_on_the_row_and_positive_off_it(name):
    X = np.unique(rows(name, 60, 3), axis=0)
    distortion = fitted(name, X)
    D = measured(distortion, X, X)
    assert (np.diagonal(D) == 0).all()
    assert (D[~np.eye(len(X), dtype=bool)] > 0).all()


def test_total_jensen_is_symmetric_and_kl_is_not():
    X = rows("itakura-saito", 50, 4)
    D = measured(DISTORTIONS["total-jensen"].run, X, X)
    assert np.array_equal(D, D.T)
    D = measured(DISTORTIONS["kl"].run, X, X)
    assert np.abs(D - D.T).max() > 0.1


def test_kl_zeros():
    kl = DISTORTIONS["kl"].run
    X = np.array([[0.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    assert kl.divergence(X, np.array([0.0, 2.0])).tolist() == [0.0, np.inf, 2.0]


# ---- the nearest centre ----


def check_nearest(name, X, C):
    distortion = fitted(name, X)
    D = measured(distortion, X, C)
    labels, cost = labelled(distortion, X, C)
    assert labels.dtype == np.int32
    if name == "mahalanobis":  # squared by another kernel: ties may be broken by a rounding
        assert np.allclose(D[np.arange(len(D)), labels], D.min(axis=1), rtol=1e-12, atol=1e-13)
        assert np.allclose(cost, D.min(axis=1), rtol=1e-12, atol=1e-13)
    else:
        assert np.array_equal(labels, D.argmin(axis=1))
        assert np.array_equal(cost, D.min(axis=1))
    book = table(name, X, C)
    found = book[np.arange(len(book)), labels]
    assert np.allclose(found, book.min(axis=1), rtol=1e-9, atol=1e-11)


@every
@pytest.mark.parametrize("k", [1, 2, 9, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_is_the_argmin_of_the_divergence(name, k, dtype):
    X = rows(name, 700, 6, dtype=dtype)
    check_nearest(name, X, fitted(name, X).seed(X, np.arange(k)))


@every
@given(data=st.data(), k=st.integers(1, 6), d=st.integers(1, 4))
def test_nearest_with_ties_zeros_and_copies(name, data, k, d):
    """Small whole numbers tie all the time, and their zeros make KL centres infinitely far."""
    least = 1 if name == "itakura-saito" else 0
    cell = st.integers(least, 3)
    rows_ = st.lists(cell, min_size=d, max_size=d)
    X = np.array(data.draw(st.lists(rows_, min_size=2, max_size=12)), dtype=np.float64)
    C = np.array(data.draw(st.lists(rows_, min_size=k, max_size=k)), dtype=np.float64)
    if name == "mahalanobis":
        X = np.concatenate([X, np.eye(d), -np.eye(d)])  # of full rank
    check_nearest(name, X, C)


@pytest.mark.parametrize("name", ["kl", "itakura-saito"])
@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-15, 1e-14, 1e-12, 1e-9])
def test_near_ties_are_decided_by_the_divergence(name, gap):
    """Centres a rounding apart: the matrix product cannot tell them, the divergence decides."""
    rng = np.random.default_rng(3)
    X = rng.gamma(2.0, size=(2000, 5)) * 10.0 ** rng.integers(-3, 4, size=5)
    C = np.repeat(X[:2], 4, axis=0) * (1 + gap * rng.normal(size=(8, 5)))
    D = measured(DISTORTIONS[name].run, X, C)
    assert np.array_equal(DISTORTIONS[name].run.nearest(X, C)[0], D.argmin(axis=1))


def test_the_matrix_product_alone_gives_wrong_labels():
    """The test above can fail: on its data the plain argmin of the scores is often wrong."""
    kl, rng = DISTORTIONS["kl"].run, np.random.default_rng(3)
    X = rng.gamma(2.0, size=(2000, 5)) * 10.0 ** rng.integers(-3, 4, size=5)
    C = np.repeat(X[:2], 4, axis=0) * (1 + 1e-15 * rng.normal(size=(8, 5)))
    b, h = kl._affine(C)
    assert (h >= 0).all()
    assert (b >= 0).all()
    assert np.mean((X @ h.T + b).argmin(axis=1) != measured(kl, X, C).argmin(axis=1)) > 0.05


def test_an_infinitely_far_centre_is_never_nearest_unless_all_are():
    X = np.array([[1.0, 1, 0], [0, 1, 0], [1, 0, 5], [1e-90, 1, 0]])
    C = np.array([[0.0, 1, 0], [9, 9, 0], [0.0, 1, 0]])
    labels, cost = DISTORTIONS["kl"].run.nearest(X, C)
    assert labels.tolist() == [1, 0, 0, 1]
    assert cost[1] == 0
    assert np.isinf(cost).tolist() == [False, False, True, False]


# ---- input checks ----


def test_kl_seeds_are_mixed_only_where_a_row_has_zeros():
    X = np.array([[1.0, 2, 3], [0, 4, 2], [5, 0, 0]])
    w = np.array([1.0, 2.0, 0.0])
    seeds = fitted("kl", X, w).seed(X, np.array([0, 1, 2]))
    mean = np.average(X, axis=0, weights=w)
    assert np.array_equal(seeds[0], X[0])
    assert np.allclose(seeds[1:], (1 - MIX) * X[1:] + MIX * mean)
    assert np.isfinite(measured(DISTORTIONS["kl"].run, X, seeds)).all()
    assert np.array_equal(
        KullbackLeibler().seed(X, np.array([1])), fitted("kl", X).seed(X, np.array([1]))
    )


GOOD = [[1.0, 2.0], [3.0, 1.0], [2.0, 5.0], [4.0, 4.0]]


@pytest.mark.parametrize(
    ("name", "place", "value", "says"),
    [
        ("kl", (2, 1), -0.5, r"needs values >= 0, but row 2, column 1 is -0\.5; drop"),
        ("total-jensen", (0, 1), -2.0, r"needs values >= 0, but row 0, column 1 is -2\.0; drop"),
        ("itakura-saito", (3, 0), 0.0, r"needs values > 0, but row 3, column 0 is 0\.0; drop"),
        ("itakura-saito", (1, 1), -1.0, r"needs values > 0, but row 1, column 1 is -1\.0; drop"),
        ("kl", (1, 0), 1e150, r"row 1, column 0 is 1e\+150; rescale X"),
        ("itakura-saito", (1, 0), 1e-150, r"row 1, column 0 is 1e-150; rescale X"),
    ],
)
def test_bad_values_are_named(name, place, value, says):
    X = np.array(GOOD)
    DISTORTIONS[name].run.check(X)
    X[place] = value
    with pytest.raises(ValueError, match=says) as error:
        DISTORTIONS[name].run.check(X)
    assert "\n" not in str(error.value)
    if name == "kl":
        with pytest.raises(ValueError, match=says):
            DISTORTIONS[name].run.check(sparse.csr_array(X))


@pytest.mark.parametrize("name", ["itakura-saito", "mahalanobis", "total-jensen"])
def test_csr_rows_are_for_kl_only(name):
    with pytest.raises(ValueError, match=f"{name}' takes dense rows only"):
        DISTORTIONS[name].run.check(sparse.csr_array(np.array(GOOD)))


@pytest.mark.parametrize(
    ("X", "matrix", "says"),
    [
        ([[1.0, 2], [1, 3], [1, 5]], None, "column 0 does not, but for rounding errors: drop it"),
        ([[1.0, 2, 3], [2, 3, 5], [1, 5, 6], [0, 7, 7]], None, "columns 0, 1 and 2 .* drop 1 of"),
        ([[1.0, 2, 3], [2, 3, 9]], None, "columns 0, 1 and 2 .* drop 2 of them"),
        (GOOD, np.eye(3), r"of shape \(2, 2\), .* but it is \(3, 3\)"),
        (GOOD, np.array([[1.0, 0.5], [0, 1]]), "symmetric"),
        (GOOD, np.array([[1.0, 2], [2, 1]]), "positive definite.*columns 0 and 1"),
        (GOOD, np.array([[1.0, np.inf], [np.inf, 1]]), "covariance of finite numbers"),
    ],
)
def test_bad_covariances_are_named(X, matrix, says):
    distortion, X = Mahalanobis(matrix), np.array(X)
    with pytest.raises(ValueError, match=says):  # noqa: PT012 - by `check` or by `fitted`
        distortion.check(X)
        distortion.fitted(X, None)


def uneven(n=2000, dtype=np.float64):
    """Three columns in units of their own, with offsets."""
    X = np.random.default_rng(5).normal(size=(n, 3)) * [1, 1e3, 1e-5] + [0, 1e5, 1]
    return X.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 / 7, -1e-9 / 3])
@pytest.mark.parametrize("with_weights", [False, True])
def test_columns_that_vary_by_rounding_only_are_named(value, dtype, with_weights):
    """Their mean is rounded, so that their variance is not 0."""
    X, rng = uneven(dtype=dtype), np.random.default_rng(6)
    ulp = float(np.spacing(dtype(abs(value)))) * rng.integers(-1, 2, size=2000)
    extra = np.stack([np.full(2000, value), value + ulp], axis=1).astype(dtype)
    weight = rng.exponential(size=2000) if with_weights else None
    with pytest.raises(ValueError, match="vary, and columns 3 and 4 do not, but for rounding"):
        Mahalanobis().fitted(np.concatenate([X, extra], axis=1), weight)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_that_depend_on_others_but_for_rounding_are_named(dtype):
    X = uneven(dtype=dtype)
    total = (X[:, 1].astype(np.float64) - 50 * X[:, 0]).astype(dtype)
    with pytest.raises(ValueError, match=r"columns 0, 1 and 3 depend .* drop 1 of them"):
        Mahalanobis().fitted(np.concatenate([X, total[:, None]], axis=1), None)


@pytest.mark.parametrize("scale", [1e-250, 1e200])
def test_mahalanobis_distances_do_not_depend_on_the_unit(scale):
    """Squares of these values overflow or vanish, which eigh reported as no convergence."""
    X = uneven(200)
    expected = Mahalanobis().fitted(X, None).prepare(X)
    found = Mahalanobis().fitted(X * scale, None).prepare(X * scale)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
