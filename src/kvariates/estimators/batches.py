"""Batches of rows for the estimators of streams: where they come from, and their checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import F64, Floats
from kvariates.estimators import validation

BATCH = 2**16  # rows of a batch that is cut from an array


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that were checked. `dropped`: how many were left out."""

    X: Floats
    weight: F64 | None
    dropped: int


def checked_batch(model: Any, X: Any, sample_weight: Any, dtype: Any, missing: str) -> Batch:
    """The batch as float32 or float64.

    Pre: `dtype` is that of the first batch, or None if this is the first one.
    """
    X = validate_data(
        model, X, reset=dtype is None, dtype=dtype or [np.float64, np.float32], order="C",
        ensure_min_samples=0, ensure_all_finite=missing == "error",
    )  # fmt: skip
    if X.shape[0] == 0:
        return Batch(X, None, 0)
    weight = validation.weights(sample_weight, X)
    if missing == "error":
        return Batch(X, weight, 0)
    finite = np.isfinite(X).all(axis=1)
    if finite.all():
        return Batch(X, weight, 0)
    kept = None if weight is None else weight[finite]
    return Batch(np.ascontiguousarray(X[finite]), kept, int(np.count_nonzero(~finite)))


def batches_of(X: Any, sample_weight: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of rows and weights, from all that `fit` accepts.

    A matrix or a table is cut into batches. Blocks of a source have their own weights. Anything
    else is an iterable of batches.
    """
    if isinstance(X, SourceBlocks):
        _no_weights(sample_weight, "blocks(..., weights=...)")
        yield from ((block.X, block.weight) for block in X)
    elif _is_table(X):
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        for first in range(0, max(1, X.shape[0]), BATCH):
            part = slice(first, first + BATCH)
            rows = X.iloc[part] if hasattr(X, "iloc") else X[part]
            yield rows, None if sample_weight is None else np.asarray(sample_weight)[part]
    else:
        _no_weights(sample_weight, "partial_fit(batch, sample_weight=...) for every batch")
        yield from ((batch, None) for batch in X)


def _is_table(X: Any) -> bool:
    """Whether X is one table of rows, and not an iterable of tables."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and np.ndim(X[0]) <= 1
    return hasattr(X, "shape")


def _no_weights(sample_weight: Any, instead: str) -> None:
    if sample_weight is not None:
        raise ValueError(f"sample_weight is for a single table of rows; use {instead}.")


def note_rows_seen(error: BaseException, rows: int) -> None:
    """Add to an error in the middle of a stream how far it came."""
    error.add_note(f"{rows:,} rows were read before; the model has kept them.")
