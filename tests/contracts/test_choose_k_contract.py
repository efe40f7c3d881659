"""Choosing k: order, threads, layout and weights do not matter; text; bad input."""

import numpy as np
import pytest
from contracts.k_choices import FAST, blobs, same
from scipy import sparse
from threadpoolctl import threadpool_limits

from kvariates import choose_k

# ---- invariance ----


def test_the_order_of_rows_does_not_matter():
    X, weight = blobs(3, 5), np.linspace(1, 3, 400)
    order = np.random.default_rng(0).permutation(400)
    a = choose_k(X, sample_weight=weight, **FAST)
    assert same(a, choose_k(X[order], sample_weight=weight[order], **FAST))
    assert not same(a, choose_k(X, **FAST))


def test_threads_do_not_matter():
    X, found = blobs(3, 6, n=800, d=400), []  # BLAS with more threads would give other bits
    for threads in (1, 2, 7):
        with threadpool_limits(threads):
            found.append(choose_k(X, (1, 4), random_state=0))
    assert same(found[0], found[1])
    assert same(found[0], found[2])


def test_a_seed_determines_the_choice():
    X = np.random.default_rng(7).normal(size=(600, 2))
    a, b, c = (choose_k(X, (1, 5), silhouette_sample=200, random_state=seed) for seed in (1, 1, 2))
    assert same(a, b)
    assert not same(a, c)


@pytest.mark.parametrize("layout", [sparse.csr_array, np.asfortranarray, np.ndarray.tolist])
def test_layouts_do_not_matter(layout):
    X = blobs(3, 8, n=200)
    a, b = choose_k(X, **FAST), choose_k(layout(X), **FAST)
    assert a.k == b.k == 3
    np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-9)
    np.testing.assert_allclose(a.silhouette, b.silhouette, rtol=1e-9)


def test_a_weight_equals_repeated_rows():
    """Costs are equal; silhouettes differ, as a row is not a neighbour of its own copies."""
    X = blobs(3, 9, n=240)
    weight = np.random.default_rng(0).integers(0, 4, size=240)
    options = {"k_range": (1, 5), "method": "global", "random_state": 0}
    a = choose_k(X, sample_weight=weight, **options)
    b = choose_k(np.repeat(X, weight, axis=0), **options)
    assert a.k == b.k == 3
    np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-9)
    np.testing.assert_allclose(a.silhouette, b.silhouette, atol=0.02)


def test_the_scale_of_weights_does_not_matter():
    X, weight = blobs(3, 10, n=200), np.linspace(1, 2, 200)
    a, b = (choose_k(X, sample_weight=w, **FAST) for w in (weight, weight / 1024))
    np.testing.assert_allclose(a.silhouette, b.silhouette, rtol=1e-9)
    assert np.array_equal(a.dividing, b.dividing)
    assert a.k == b.k == 3


def test_rows_of_weight_zero_do_not_count():
    X = np.vstack([blobs(2, 15, n=80), np.full((5, 3), 1e3)])
    a = choose_k(X, sample_weight=np.r_[np.ones(80), np.zeros(5)], **FAST)
    assert same(a, choose_k(X[:80], sample_weight=np.ones(80), **FAST))


@pytest.mark.parametrize("k_range", [(2, 6), range(2, 7), [2, 3, 4, 5, 6], np.arange(2, 7)])
def test_ways_to_write_a_range(k_range):
    choice = choose_k(blobs(3, 11), k_range, random_state=0)
    assert choice.ks.tolist() == [2, 3, 4, 5, 6]
    assert [len(centers) for centers in choice.solutions] == [2, 3, 4, 5, 6]
    assert choice.k == len(choice.centers) == 3


def test_float32_stays_float32():
    choice = choose_k(blobs(3, 12).astype(np.float32), **FAST)
    assert choice.k == 3
    assert choice.centers.dtype == np.float32


# ---- text ----


def test_the_criteria_are_printed_and_are_a_data_frame():
    choice = choose_k(blobs(3, 13), **FAST)
    names = ["k", "inertia", "elbow", "silhouette", "dividing"]
    head, *rows, last = str(choice).splitlines()
    assert head.split() == names
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row.endswith("<") for row in rows] == [False, False, True, False, False]
    assert last == f"k = 3: {choice.reason}"
    assert list(choice.frame().columns) == names
    assert np.array_equal(choice.frame()["dividing"], choice.dividing)


# ---- bad input ----


PAIR, RISING = "a pair or a range of integers", "1 <= lowest <= highest, or consecutive integers"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"k_range": k}, PAIR) for k in ((), (1.0, 5.0), (True, 5))),
        *(({"k_range": k}, RISING) for k in ((0, 5), (5, 2), [1, 2, 4], range(1, 6, 4))),
        ({"k_range": (1, 61)}, r"The highest k \(61\) is larger than the number of rows \(60\)"),
        ({"k_range": 7}, "k_range"),
        ({"method": "fast"}, "method"),
        ({"silhouette_sample": 5}, r"highest k \(10\) is larger than silhouette_sample \(5\)"),
        ({"sample_weight": np.zeros(60)}, "at least one"),
        ({"sample_weight": np.ones(59)}, "sample_weight.shape"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_a_bad_option_is_an_error(options, message):
    with pytest.raises(ValueError, match=message) as error:
        choose_k(blobs(2, 0, n=60), **options)
    assert "\n" not in str(error.value)


def test_bad_rows_are_an_error():
    with pytest.raises(ValueError, match="NaN"):
        choose_k(np.full((20, 2), np.nan))
    with pytest.raises(ValueError, match="X has 2 distinct rows; k_range begins at 3"):
        choose_k(np.repeat(np.eye(2), 9, axis=0), (3, 5))
    with pytest.raises(ValueError, match="overflow"):
        choose_k(np.eye(20) * 1e200)
