"""The result does not depend on how the rows are stored in memory."""

import numpy as np
import pandas as pd
import pytest
from laws.cases import DTYPES, fit, rows, same_bits, start
from scipy import sparse

from kvariates import KMeans, KMedian, kmeans_plusplus

X = rows(60, 3, seed=71)


def _misaligned(a):
    raw = np.zeros(a.nbytes + 1, dtype=np.uint8)
    out = np.ndarray(a.shape, a.dtype, raw, offset=1)
    out[:] = a
    return out


def _read_only(a):
    out = a.copy()
    out.flags.writeable = False
    return out


def _unsorted(csr):
    """The entries of every row backwards."""
    ends = zip(csr.indptr, csr.indptr[1:], strict=False)
    order = np.concatenate([np.arange(end - 1, begin - 1, -1) for begin, end in ends])
    return sparse.csr_array((csr.data[order], csr.indices[order], csr.indptr), shape=csr.shape)


def _doubled(csr):
    """Every entry twice, as its halves."""
    return sparse.csr_array(
        (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), csr.indptr * 2), shape=csr.shape
    )


def _explicit_zeros(a):
    n, d = a.shape
    indices, indptr = np.tile(np.arange(d), n), np.arange(n + 1) * d
    parts = a.ravel().copy(), indices.astype(np.int32), indptr.astype(np.int32)
    return sparse.csr_array(parts, shape=a.shape)


SPARSE = {
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "csr_matrix": sparse.csr_matrix,
    "lil": sparse.lil_matrix,
    "unsorted indices": lambda a: _unsorted(sparse.csr_array(a)),
    "duplicate entries": lambda a: _doubled(sparse.csr_array(a)),
    "explicit zeros": _explicit_zeros,
}
LAYOUTS = {
    "fortran": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "misaligned": _misaligned,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": _read_only,
    "list": lambda a: a.tolist(),
    "matrix in a view": lambda a: np.pad(a, 3)[3:-3, 3:-3],
    **SPARSE,
}


def check_layout(data, plain):
    init = start(plain, 4)
    a, b = fit(data, init), fit(plain, init)
    assert np.array_equal(a.labels_, b.labels_)
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, rtol=1e-5, atol=1e-6)
    assert np.array_equal(a.predict(data), b.labels_)
    np.testing.assert_allclose(a.transform(data), b.transform(plain), rtol=1e-5, atol=1e-5)
    assert np.array_equal(
        kmeans_plusplus(data, 3, random_state=0)[1], kmeans_plusplus(plain, 3, random_state=0)[1]
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_in_memory(layout):
    for dtype in DTYPES:
        plain = rows(75, 5, dtype, seed=73, sparsity=0.5 if layout in SPARSE else 0.0)
        check_layout(LAYOUTS[layout](plain), plain)


def test_wide_indices_are_right_or_refused():
    """scikit-learn refuses 64-bit indices; to accept them is fine, to misread them is not."""
    plain = rows(75, 5, seed=74, sparsity=0.5)
    csr = sparse.csr_array(plain)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    expected = fit(plain, start(plain, 4)).labels_
    try:
        assert np.array_equal(fit(csr, start(plain, 4)).labels_, expected)
    except ValueError as refused:
        assert "int64 indices" in str(refused)  # noqa: PT017


def test_duplicate_entries_of_the_input_stay():
    doubled = _doubled(sparse.csr_array(X))
    kept = doubled.data.copy(), doubled.indices.copy()
    KMeans(3, random_state=0).fit(doubled)
    assert np.array_equal(doubled.data, kept[0])
    assert np.array_equal(doubled.indices, kept[1])


def test_memory_maps(tmp_path):
    plain = rows(75, 5, np.float32, seed=75)
    stored = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=plain.shape)
    stored[:] = plain
    stored.flush()
    check_layout(np.memmap(tmp_path / "rows", np.float32, "r", shape=plain.shape), plain)


def test_small_numbers_become_single():
    """float32 holds all of them."""
    for kind in ("float16", "int8", "uint8"):
        data = (rows(75, 5, seed=76) * 3 + 9).astype(kind)
        init = np.unique(data.astype(np.float64), axis=0)[:4]
        model, single = fit(data, init), fit(data.astype(np.float32), init)
        assert model.cluster_centers_.dtype == np.float32
        assert same_bits(model, single)
        assert same_bits(fit(pd.DataFrame(data), init), single)
        assert KMedian(3, random_state=0).fit(data).cluster_centers_.dtype == np.float32


def test_other_numbers_become_double():
    for kind in ("int16", "uint64", "bool", "longdouble"):
        data = (np.abs(rows(75, 5, seed=76)) * 3).astype(kind)
        init = np.unique(data.astype(np.float64), axis=0)[:4]
        model = fit(data, init)
        assert model.cluster_centers_.dtype == np.float64
        assert same_bits(model, fit(data.astype(np.float64), init))
