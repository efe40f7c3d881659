"""CSR rows on a lattice: rounded, cut to few values, and summed by cluster, each row by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates.data.rows import F64, Labels
from kvariates.numerics.lattice import Lattice

I64 = NDArray[np.int64]
MOST = 2**18  # values of a row; of more, the largest are kept, so that integers cannot overflow
SHORTER = 1 - 2.0**-40  # a row that is too long is multiplied by this much less than needed


def quantize_sparse(X: Any, lattice: Lattice, half: F64 | None = None) -> Any:
    """CSR rows clipped to the ball of an l2 lattice and rounded towards zero, each by itself.

    Values are first clipped to the radius (and to a box of half sides `half`) and rounded to
    integers. The squares of a row are then
    added as integers, so that whether it is too long depends on its own values alone.
    """
    if X.shape[0] > lattice.n_max:
        raise ValueError(f"More rows than n_max = {lattice.n_max}: their sums might not be exact.")
    X = largest_values(X, MOST)
    largest = lattice.radius * lattice.step
    values = np.clip(X.data.astype(np.float64), -largest, largest)
    if half is not None:
        values = np.clip(values, -half[X.indices], half[X.indices])
    steps = np.trunc(values / lattice.step).astype(np.int64)
    steps = _inside(steps, _row_numbers(X), X.shape[0], lattice.square)
    kept = scipy.sparse.csr_matrix(
        (steps * lattice.step, X.indices.copy(), X.indptr.copy()), shape=X.shape
    )
    kept.eliminate_zeros()
    return kept


def largest_values(X: Any, most: int) -> Any:
    """CSR rows with their `most` largest absolute values only; of equal ones the first columns."""
    per_row = np.diff(X.indptr)
    if not (per_row > most).any():
        return X
    order = np.lexsort((X.indices, -np.abs(X.data), _row_numbers(X)))
    rank = np.arange(len(order)) - np.repeat(X.indptr[:-1], per_row)
    kept = np.sort(order[rank < most])
    starts = np.concatenate([[0], np.cumsum(np.minimum(per_row, most))])
    return scipy.sparse.csr_matrix((X.data[kept], X.indices[kept], starts), shape=X.shape)


def sparse_sums(X: Any, labels: Labels, k: int) -> F64:
    """The sums (k, d) of rows on a lattice by label; float64 adds them without rounding."""
    ones = np.ones(len(labels))
    member = scipy.sparse.csr_matrix(
        (ones, (labels, np.arange(len(labels)))), shape=(k, len(labels))
    )
    return np.asarray((member @ X).toarray())


def _inside(steps: I64, row: I64, n: int, most: int) -> I64:
    """Rows of integers, shortened until their squares add up to at most `most`."""
    while True:
        squares = np.zeros(n, dtype=np.int64)
        np.add.at(squares, row, steps**2)
        far = squares > most
        if not far.any():
            return steps
        factor = np.ones(n)
        factor[far] = np.sqrt(most / squares[far]) * SHORTER
        steps = np.trunc(steps * factor[row]).astype(np.int64)


def _row_numbers(X: Any) -> I64:
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
