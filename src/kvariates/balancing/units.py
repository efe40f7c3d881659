"""Units of anti-clustering: rows that must-links join, their kinds, and cannot-links between them.

Two units are of one kind if they have as many rows of each category. An exchange of such units
changes neither the sizes of the groups nor their categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kvariates.data.exchanges import Ints
from kvariates.data.rows import F64


def constant_columns(X: F64) -> NDArray[np.bool_]:
    """Which columns differ by no more than rounding errors."""
    constant: NDArray[np.bool_] = X.std(axis=0) <= 1e-13 * np.abs(X).max(axis=0, initial=0.0)
    return constant


class InfeasibleError(ValueError):
    """No groups fulfil the constraints."""


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of rows: `must` in one group, `cannot` in one group. Both of shape (pairs, 2)."""

    must: Ints
    cannot: Ints


@dataclass(frozen=True, eq=False)
class Units:
    """Units, numbered by their first row.

    of_row : the unit of each row.
    category : the category of each row; all 0 if there are none.
    link_start, link : for each unit, those that must be in other groups, as in a CSR matrix.
    """

    of_row: Ints
    category: Ints
    link_start: Ints
    link: Ints

    @property
    def n(self) -> int:
        return len(self.link_start) - 1

    @cached_property
    def size(self) -> Ints:
        """The rows of each unit."""
        return np.bincount(self.of_row, minlength=self.n)

    @cached_property
    def n_categories(self) -> int:
        return int(self.category.max()) + 1

    @cached_property
    def counts(self) -> sparse.csr_array:
        """Rows of each category (columns) in each unit (rows)."""
        shape = (self.n, self.n_categories)
        ones = np.ones(len(self.of_row), dtype=np.int64)
        return sparse.csr_array((ones, (self.of_row, self.category)), shape=shape)

    @cached_property
    def degree(self) -> Ints:
        """The cannot-links of each unit."""
        return np.diff(self.link_start)

    @cached_property
    def first_row(self) -> Ints:
        return np.unique(self.of_row, return_index=True)[1]

    @cached_property
    def kind(self) -> Ints:
        """The kind of each unit. Single rows of category c have kind c."""
        single = self.size == 1
        kind = self.category[self.first_row]
        counts, known = self.counts, dict[tuple[int, ...], int]()
        for unit in np.flatnonzero(~single):
            part = slice(counts.indptr[unit], counts.indptr[unit + 1])
            key = (*counts.indices[part].tolist(), *counts.data[part].tolist())
            kind[unit] = self.n_categories + known.setdefault(key, len(known))
        return kind

    def sums(self, rows: F64) -> F64:
        """The sum of the rows of each unit."""
        if self.n == len(rows):
            return rows
        shape = (self.n, len(rows))
        member = sparse.csr_array((np.ones(len(rows)), (self.of_row, np.arange(len(rows)))), shape)
        return np.ascontiguousarray(member @ rows)


def units_of(n: int, category: Ints, links: Links) -> Units:
    """The units of n rows; InfeasibleError if a cannot-link is within a unit."""
    of_row = _components(n, links.must)
    a, b = of_row[links.cannot.T]
    if (a == b).any():
        i, j = links.cannot[int(np.argmax(a == b))]
        raise InfeasibleError(
            f"cannot_link keeps rows {i} and {j} apart, but must_link joins them, directly or "
            "through other rows. Remove one of the links."
        )
    count = int(of_row.max()) + 1
    both = np.concatenate([a, b]), np.concatenate([b, a])
    table = sparse.csr_array((np.ones(2 * len(a), dtype=np.int64), both), shape=(count, count))
    return Units(
        of_row, category, table.indptr.astype(np.int64), table.indices.astype(np.int64)
    )  # fmt: skip


def _components(n: int, pairs: Ints) -> Ints:
    """Connected components of n rows, numbered by their first row."""
    if not len(pairs):
        return np.arange(n)
    graph = sparse.csr_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    labels = connected_components(graph, directed=False)[1]
    first, inverse = np.unique(labels, return_index=True, return_inverse=True)[1:]
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
