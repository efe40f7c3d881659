"""Rows of a matrix in memory, dense or CSR, under squared Euclidean distance.

No module outside this room calls the native kernels. Algorithms see rows through `HostData`.

Cosine distance needs no class of its own: on unit vectors ||x - c||^2 = 2 (1 - cos), so spherical
k-means is k-means over `unit_rows(X)` with centres put back on the sphere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from kvariates import _native
from kvariates.data.exact_sums import LIMBS, ExactSums, exact_total, exponent_of, to_float

Floats = NDArray[Any]  # float32 or float64
F64 = NDArray[np.float64]
Labels = NDArray[np.int32]
Numbers = int | NDArray[np.int64]  # of rows, for messages: of the first row, or of each

# Types whose numbers float32 holds; bfloat16 is that of `ml_dtypes`.
SMALL_TYPES = frozenset({"float16", "bfloat16", "int8", "uint8"})
SINGLE_ROWS = 4096  # of a small type that are made float32 together

SMALL = 2**18  # values up to which sorting the rows takes hardly any time

# Outside these mean variances, squares or their sums leave the range of float64.
NARROWEST, WIDEST = 1e-290, 1e290
SCALE = "Scale X, e.g. divide it by abs(X).max()."  # scikit-learn's StandardScaler fails here too
OVERFLOW = f"The values of X are too large (squared distances overflow float64). {SCALE}"
VANISH = f"The differences between rows are too small (their squares vanish in float64). {SCALE}"


class TwoNearest(NamedTuple):
    """Every point's nearest and second nearest centre, and their costs, in the kernels' order.

    The cost is the squared distance for `Rows` and the distance in a metric space. Ties go to the
    lowest index. With one centre, `second` equals `labels` and `second_cost` is infinite.
    """

    labels: Labels
    second: Labels
    cost: Floats
    second_cost: Floats

    @classmethod
    def empty(cls, n: int, dtype: DTypeLike = np.float64) -> TwoNearest:
        """Arrays of n entries for a kernel to fill."""
        labels, second = np.empty((2, n), dtype=np.int32)
        return cls(labels, second, *np.empty((2, n), dtype=dtype))


@dataclass(frozen=True)
class Rows:
    """n rows of d features, and their view for the kernels. Pre: finite, C order or sorted CSR.

    Centres are float64, whatever the dtype of the rows. `nearest` and `distances` take float32
    centres too, which they read as the same numbers in float64. Dense rows of SMALL_TYPES stay as
    they are; all results are those of the same rows in float32.
    """

    X: Any
    view: _native.RowsView
    half_squares: ClassVar[bool] = False  # as in a metric space

    @classmethod
    def of(cls, X: Any) -> Rows:
        if scipy.sparse.issparse(X):
            return cls(X, _native.csr(*_csr_arrays(X)))
        if X.dtype.name in SMALL_TYPES:
            return cls(X, _native.small(X.view(np.uint16) if X.dtype.name == "bfloat16" else X))
        return cls(X, _native.dense(X))

    @property
    def n(self) -> int:
        return self.view.n

    @property
    def d(self) -> int:
        return self.view.d

    @property
    def dense(self) -> bool:
        return not scipy.sparse.issparse(self.X)

    @property
    def stored(self) -> int:
        """The number of stored values."""
        return self.n * self.d if self.dense else int(self.X.nnz)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows, or float32 if they are of a small type."""
        dtype: np.dtype[Any] = self.X.dtype
        return np.dtype(np.float32) if dtype.name in SMALL_TYPES else dtype

    @cached_property
    def single(self) -> Rows:
        """These rows, for kernels that read no small type: in float32 if they are of one."""
        return Rows.of(self.X.astype(np.float32)) if self.X.dtype.name in SMALL_TYPES else self

    def take(self, indices: NDArray[np.int64]) -> F64:
        """The rows at `indices` as centres: a new dense float64 array."""
        rows = self.X[indices]
        dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
        return np.ascontiguousarray(dense, dtype=np.float64)

    def subset(self, indices: NDArray[np.int64]) -> Rows:
        """The rows at `indices`, in their layout and dtype."""
        return Rows.of(self.X[indices])

    def canonical_order(self) -> NDArray[np.int64] | None:
        """An order of the rows that depends on their values alone; None for large data.

        Draws made in this order do not change when the rows are shuffled.
        """
        if self.n * self.d > SMALL:
            return None
        rows = self.X.toarray() if scipy.sparse.issparse(self.X) else self.X
        # Big-endian bytes of a float32 and of its float64 are in the same order; -0.0 becomes 0.0.
        values = np.ascontiguousarray(rows.astype(self.dtype, copy=False) + 0.0, dtype=">f8")
        keys = values.view(np.dtype((np.void, values.itemsize * self.d))).ravel()
        return np.argsort(keys, kind="stable")

    @cached_property
    def magnitudes(self) -> tuple[float, float]:
        """The largest absolute value, and the smallest that is not zero (infinity if none is)."""
        return _native.magnitudes(self.view)

    def check_squares(self) -> None:
        """ValueError if squared distances to moderate centres overflow float64."""
        values = self.X.data if scipy.sparse.issparse(self.X) else self.X
        if self.dtype == np.float64 and not np.isfinite(sum_of_squares(values)):
            raise ValueError(OVERFLOW)

    def nearest(self, centers: Floats) -> Labels:
        labels = np.full(self.n, -1, dtype=np.int32)
        _native.nearest(self.view, centers, labels)
        return labels

    def two_nearest(self, centers: F64) -> TwoNearest:
        near = TwoNearest.empty(self.n)
        _native.two_nearest(self.single.view, centers, *near)
        return near

    def costs(self, centers: F64, labels: Labels) -> F64:
        """Squared distance of every row to the centre it is labelled with."""
        cost = np.empty(self.n)
        _native.costs(self.view, centers, labels, cost)
        return cost

    def distances(self, centers: Floats, *, squared: bool = False) -> Floats:
        out = np.empty((self.n, len(centers)), dtype=self.dtype)
        if self.X.dtype.name not in SMALL_TYPES:
            _native.distances(self.view, centers, squared, out)
            return out
        for first in range(0, self.n, SINGLE_ROWS):
            part = slice(first, first + SINGLE_ROWS)
            single = Rows.of(self.X[part].astype(np.float32))
            _native.distances(single.view, centers, squared, out[part])
        return out

    def tree_nodes(self, seed: int, rng: np.random.Generator) -> _native.Nodes:
        """As in a metric space."""
        return tree_over(self.single.X, False, seed)

    def spread(self) -> float:
        """Mean over the features of their variance.

        Raises ValueError if float64 cannot hold squared distances.
        """
        sums = self.column_sums(exponent_of(self.magnitudes[0]))
        return spread_around(sums.values / self.n, [self], self.n)

    def column_sums(self, exponent: int) -> ExactSums:
        """The sums of the features, in the unit of `exponent` (see `ExactSums`)."""
        sums = ExactSums(np.zeros((1, 1, LIMBS, self.d), np.int64), exponent)
        weights, count = np.zeros((1, LIMBS), np.int64), np.zeros(1, np.int64)
        of_sums = sums.limbs[0], weights, count, exponent, 1, 0, self.magnitudes[1]
        _native.update(self.view, None, np.zeros(self.n, dtype=np.int32), None, *of_sums)
        return sums

    def column_ranges(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each feature."""
        low, high = (end.astype(self.dtype) for end in (self.X.min(axis=0), self.X.max(axis=0)))
        return (low.toarray(), high.toarray()) if scipy.sparse.issparse(self.X) else (low, high)


def spread_around(mean: F64, shards: Iterable[Rows], n: int) -> float:
    """As `Rows.spread`, of n rows in shards with this mean, of shape (1, d): one pass."""
    total, low, high = 0, np.full(mean.shape, np.inf), np.full(mean.shape, -np.inf)
    for shard in shards:
        cost = shard.costs(mean, np.zeros(shard.n, dtype=np.int32))
        if not np.isfinite(cost.max()):
            raise ValueError(OVERFLOW)
        part = exact_total(cost)
        total += part
        if to_float(part) < NARROWEST * n * shard.d:  # perhaps squares vanished
            least, most = shard.column_ranges()
            low, high = np.minimum(low, least), np.maximum(high, most)
    spread: float = to_float(total) / (n * mean.shape[1])
    if not spread < WIDEST:
        raise ValueError(OVERFLOW)
    if spread < NARROWEST and np.any(low != high):
        raise ValueError(VANISH)
    return spread


def tree_over(X: Any, manhattan: bool, seed: int) -> _native.Nodes:
    """The nodes of a random tree over rows, under L1 or L2 (see `data.hst_tree`)."""
    if not scipy.sparse.issparse(X):
        return _native.tree_over_rows(X, manhattan, seed)
    return _native.tree_over_csr(*_csr_arrays(X), manhattan, seed)


def _csr_arrays(X: Any) -> tuple[Floats, Labels, NDArray[np.int64], int]:
    indptr = X.indptr.astype(np.int64, copy=False)
    return X.data, X.indices.astype(np.int32, copy=False), indptr, X.shape[1]


def count_distinct(rows: Rows, limit: int) -> int:
    """The number of distinct rows, or `limit` if there are at least so many."""
    distinct, first = np.empty((0, rows.d)), 0
    step = max(2 * limit, 2**10)  # mostly enough
    while first < rows.n:
        block = rows.take(np.arange(first, min(first + step, rows.n)))
        distinct = np.unique(np.concatenate([distinct, block]), axis=0)
        if len(distinct) >= limit:
            return limit
        first, step = first + step, max(limit, 2**20 // rows.d)
    return len(distinct)


class DrawnCells(NamedTuple):
    """One row of each cell, and the weight of the cell (see native/cells.hpp)."""

    rows: NDArray[np.int64]
    weights: F64


def draw_cells(
    rows: Rows, weights: F64, centers: F64, size: int, rng: np.random.Generator
) -> DrawnCells:
    """Draw at most `size` rows by their scores around these centres.

    The weights of the drawn rows add up to those of all rows, and the expected new weight of a row
    is its weight. Pre: 2 * len(centers) < size < rows.n.
    """
    labels = rows.nearest(centers)
    cost = rows.costs(centers, labels)
    seed = int(rng.integers(2**64, dtype=np.uint64))
    return DrawnCells(*_native.draw_cells(labels, cost, weights, len(centers), size, seed))


def sum_of_squares(values: Floats) -> float:
    """Without BLAS: its threads would spin for a tenth of a second, beside those of the kernels."""
    flat = values.reshape(-1)
    return float(np.einsum("i,i->", flat, flat))


def nearest_centers(X: Any, centers: Floats) -> Labels:
    """The label of every row of an array."""
    dense = X if scipy.sparse.issparse(X) else np.ascontiguousarray(X)
    return Rows.of(dense).nearest(np.ascontiguousarray(centers, dtype=np.float64))


def total_cost(cost: F64, weight: F64 | None) -> float:
    """Sum of the weighted costs, exact and then rounded; infinite if a cost is."""
    return joint_cost([(cost, weight)])


def joint_cost(parts: Iterable[tuple[F64, F64 | None]]) -> float:
    """`total_cost` of the costs and weights of all parts, however they are cut."""
    total = 0
    for cost, weight in parts:
        with np.errstate(over="ignore", invalid="ignore"):
            rough = float(np.sum(cost if weight is None else cost * weight))
        if not np.isfinite(rough):
            return rough
        total += exact_total(cost, weight)
    try:
        return to_float(total)
    except OverflowError:  # of several finite parts
        return np.inf


def check_sparse(X: Any) -> None:
    """ValueError if a compressed matrix points outside its own arrays: such a matrix can crash."""
    if not scipy.sparse.issparse(X) or X.format not in ("csr", "csc"):
        return
    axis = 0 if X.format == "csr" else 1
    lists, bound, entries = X.shape[axis], X.shape[1 - axis], len(X.data)
    start, indices = X.indptr, X.indices
    if len(start) != lists + 1 or start[0] != 0 or (np.diff(start) < 0).any():
        raise ValueError(
            f"X.indptr must have {lists + 1} entries that rise from 0, one for each "
            f"{'row' if axis == 0 else 'column'} and one more; build X anew from its entries."
        )
    if start[-1] != entries or len(indices) != entries:
        raise ValueError(
            f"X has {entries} values and {len(indices)} indices, but X.indptr ends at {start[-1]}; "
            "all three must agree."
        )
    if entries and (indices.min() < 0 or indices.max() >= bound):
        bad = indices[(indices < 0) | (indices >= bound)][0]
        raise ValueError(f"X.indices holds {bad}; it must be from 0 to {bound - 1}.")


def unit_rows(X: Any, numbers: Numbers = 0) -> Any:
    """A copy of X whose rows have length one. Raises ValueError for a row of zeros."""
    if scipy.sparse.issparse(X):
        out = X.astype(np.float64)
        largest = abs(out).max(axis=1).toarray().ravel()
        _check_directions(largest, numbers)
        stored = np.diff(out.indptr)
        out.data /= np.repeat(largest, stored)  # now no square overflows
        norms = np.sqrt(np.asarray(out.multiply(out).sum(axis=1)).ravel())
        out.data /= np.repeat(norms, stored)
        return out.astype(X.dtype)
    largest = np.maximum(X.max(axis=1), -X.min(axis=1)).astype(np.float64)
    _check_directions(largest, numbers)
    out = X / largest[:, None]
    out /= np.sqrt(squared_norms(out))[:, None]
    return out.astype(X.dtype, copy=False)


def directions(means: F64, before: F64) -> F64:
    """Means scaled to length one; those of length zero are as `before`."""
    norms = np.sqrt(squared_norms(means))
    out, some = before.copy(), norms > 0
    out[some] = means[some] / norms[some, None]
    return out


def squared_norms(X: F64) -> F64:
    """Of each row, by its values alone. `np.einsum` fuses operations on some processors only."""
    zero: F64 = np.zeros((1, X.shape[1]))
    return Rows.of(np.ascontiguousarray(X)).costs(zero, np.zeros(len(X), dtype=np.int32))


def _check_directions(largest: F64, numbers: Numbers) -> None:
    if not largest.all():
        place = int(np.flatnonzero(largest == 0)[0])
        row = numbers[place] if isinstance(numbers, np.ndarray) else numbers + place
        raise ValueError(
            f"metric='cosine' needs rows that are not all zeros; row {row} is. Drop such rows."
        )
