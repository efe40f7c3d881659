"""Dask collections as lists of delayed blocks, one for each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from dask import array as da
from dask.delayed import Delayed, delayed

WEIGHT = "sample_weight of kvariates"  # the name of a column
ACCEPTED = (
    "a Dask array, a Dask DataFrame or a list of delayed blocks. For rows in memory use "
    "kvariates.KMeans, or cut them first: dask.array.from_array(X, chunks=(100_000, -1))."
)


@dataclass(frozen=True, eq=False)
class DelayedBlocks:
    """The rows of each partition, and their weights if there are any."""

    rows: list[Delayed]
    weights: list[Any] | None


def is_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame or a Dask Series."""
    return hasattr(X, "map_partitions") and hasattr(X, "to_delayed") and hasattr(X, "ndim")


def is_delayed_list(X: Any) -> bool:
    """Whether X is a list of delayed blocks."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(b, Delayed) for b in X)


def is_collection(X: Any) -> bool:
    """Whether X is something that `blocks_of` accepts."""
    return isinstance(X, da.Array) or is_frame(X) or is_delayed_list(X)


def blocks_of(X: Any, sample_weight: Any = None) -> DelayedBlocks:
    """Whole rows, one block for each partition."""
    if is_frame(X) and is_frame(sample_weight) and (X.ndim, sample_weight.ndim) == (2, 1):
        return _joined_frames(X, sample_weight)
    rows = _row_blocks(X)
    if sample_weight is None:
        return DelayedBlocks(rows, None)
    weights = _weight_blocks(X, sample_weight)
    _check_partitions(len(rows), len(weights))
    return DelayedBlocks(rows, weights)


def _check_partitions(rows: int, weights: int) -> None:
    if weights != rows:
        raise ValueError(
            f"sample_weight has {weights} partitions, but X has {rows}; partition both alike."
        )


def _joined_frames(X: Any, weight: Any) -> DelayedBlocks:
    """Rows and weights of one graph: Dask may cut columns of the same file differently."""
    _check_partitions(X.npartitions, weight.npartitions)
    meta = X._meta.assign(**{WEIGHT: 1.0})
    joined = X.map_partitions(
        _with_weight, weight, meta=meta, align_dataframes=False, enforce_metadata=False
    )
    rows, weights = delayed(_without_weight, pure=False), delayed(_weight, pure=False)
    parts = joined.to_delayed()
    return DelayedBlocks([rows(part) for part in parts], [weights(part) for part in parts])


def _with_weight(block: Any, weight: Any) -> Any:
    if len(block) != len(weight):
        raise ValueError(
            f"sample_weight has {len(weight)} values in a partition of {len(block)} rows; "
            "partition both alike."
        )
    return block.assign(**{WEIGHT: weight.to_numpy()})


def _without_weight(block: Any) -> Any:
    return block.drop(columns=WEIGHT)


def _weight(block: Any) -> Any:
    return block[WEIGHT].to_numpy()


def whole_rows(X: da.Array) -> da.Array:
    """The array, cut by rows only."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; it must have 2, rows and features.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _row_blocks(X: Any) -> list[Delayed]:
    if isinstance(X, da.Array):
        return list(whole_rows(X).to_delayed().ravel())
    if is_frame(X):
        if X.ndim != 2:
            raise ValueError("X is a Dask Series; give a DataFrame, as X.to_frame().")
        return list(X.to_delayed())
    if is_delayed_list(X):
        return list(X)
    if isinstance(X, list | tuple) and not len(X):
        raise ValueError("X is an empty list; it should hold delayed blocks.")
    raise TypeError(f"X is a {type(X).__name__}; give {ACCEPTED}")


def _weight_blocks(X: Any, weight: Any) -> list[Any]:
    if is_frame(weight) and weight.ndim == 1:
        return list(weight.to_delayed())
    if is_delayed_list(weight):
        return list(weight)
    if not isinstance(weight, da.Array):
        weight = da.from_array(np.asarray(weight, dtype=np.float64), chunks=-1)
    if weight.ndim != 1:
        raise ValueError(f"sample_weight has {weight.ndim} dimensions; it must have 1.")
    if isinstance(X, da.Array) and not np.isnan(X.chunks[0]).any():
        if weight.shape[0] != X.shape[0] and not np.isnan(weight.shape[0]):
            raise ValueError(f"sample_weight has {weight.shape[0]} values for {X.shape[0]} rows.")
        if not np.isnan(weight.shape[0]):
            weight = weight.rechunk((X.chunks[0],))
    return list(weight.to_delayed().ravel())
