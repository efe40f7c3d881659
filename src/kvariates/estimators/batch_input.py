"""What `fit` of a stream takes: a table, which is cut into batches, or batches one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _num_samples

from kvariates.data.blocks import Block
from kvariates.data.rows import F64

MISSING = ("error", "drop")


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows as they were given, not yet checked, and their weights."""

    X: Any
    sample_weight: Any = None


def is_table(X: Any) -> bool:
    """Whether X is one table of rows (or nothing that has rows), and not batches of rows."""
    arraylike = any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__"))
    if arraylike or not isinstance(X, Iterable) or isinstance(X, str | bytes | Mapping):
        return True
    if not isinstance(X, list | tuple) or not X:
        return False
    first = X[0]
    return not isinstance(first, Block) and len(getattr(first, "shape", ())) != 2


def batches(source: Iterable[Any]) -> Iterator[Batch]:
    """The batches of an iterable of tables or of blocks."""
    for given in source:
        yield Batch(given.X, given.weight) if isinstance(given, Block) else Batch(given)


def is_empty(X: Any) -> bool:
    """Whether a batch has no rows, whatever its columns are."""
    try:
        return bool(_num_samples(X) == 0)
    except TypeError:  # not a table: the validators will say so
        return False


def parts(X: Any, weight: F64 | None, count: int) -> Iterator[Batch]:
    """So many batches of consecutive rows, whose sizes differ by at most one."""
    edges = np.linspace(0, X.shape[0], count + 1).round().astype(int).tolist()
    for first, stop in pairwise(edges):
        yield Batch(X[first:stop], None if weight is None else weight[first:stop])


def complete_rows(X: Any) -> Any:
    """The numbers of the rows without NaN."""
    if not sparse.issparse(X):
        return np.flatnonzero(~np.isnan(X).any(axis=1))
    row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.setdiff1d(np.arange(X.shape[0]), row_of[np.isnan(X.data)])
