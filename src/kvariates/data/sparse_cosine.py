"""CSR rows under cosine distance, as k-median uses them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvariates.data.metric_spaces import ROWS_BYTES, DistanceRows, Ints, Rounding
from kvariates.data.rows import F64, Floats

CLOSE = 1e-6  # distances below this are computed from differences
PAIRS = 2**14  # of close rows whose differences are computed at once


class SparseCosine(DistanceRows):
    """CSR rows of length one under cosine distance: half the squared Euclidean distance.

    It is computed as (|x|^2 + |y|^2) / 2 - <x, y> in float64, which loses the digits of small
    distances: these are computed again from differences. `at` holds the rows at which costs are
    measured; None means X. Pre: sorted, no duplicates.
    """

    metric = "cosine"

    def __init__(self, X: Any, at: Any = None) -> None:
        self.X, self.at = X, X if at is None else at
        self.n_candidates, self.n, self.dtype = X.shape[0], self.at.shape[0], X.dtype
        self._transposed = self.at.T.astype(np.float64).tocsr()
        self._halves = _half_squares(self.at)
        self.work = 1 + len(self.at.data) / max(1, self.n)

    @property
    def rounding(self) -> Rounding:
        """As of `Vectors`; the error of products is relative to the smallest of their distances."""
        eps, longest = float(np.finfo(self.dtype).eps), int(np.diff(self.X.indptr).max(initial=0))
        products = 4 * (longest + 8) * 2.0**-53 / CLOSE
        return Rounding((2 * longest + 32) * eps + products, 0.0, eps + (longest + 8) * 2.0**-52)

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        if columns is not None:
            return SparseCosine(self.X, self.at[columns]).distances(points)
        out = np.empty((len(points), self.n), dtype=self.dtype)
        step = max(1, ROWS_BYTES // (8 * max(1, self.n)))
        for first in range(0, len(points), step):
            part = slice(first, first + step)
            out[part] = self._block(self.X[points[part]].astype(np.float64))
        return out

    def _block(self, rows: Any) -> F64:
        far = np.add.outer(_half_squares(rows), self._halves)
        far -= (rows @ self._transposed).toarray()
        i, j = np.nonzero(far < CLOSE)
        for first in range(0, len(i), PAIRS):
            part = slice(first, first + PAIRS)
            apart = rows[i[part]] - self.at[j[part]].astype(np.float64)
            far[i[part], j[part]] = _half_squares(apart)
        return far

    def measured_at(self, demand: Ints) -> SparseCosine:
        return SparseCosine(self.X, self.at[demand])

    def exact_if_whole(self, farthest: float) -> bool:
        return False


def _half_squares(rows: Any) -> F64:
    """Half the squared length of each CSR row, in float64."""
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    squares = 0.5 * np.square(rows.data.astype(np.float64))
    return np.bincount(of_row, squares, minlength=rows.shape[0]).astype(np.float64, copy=False)
