"""Labels, distances and costs of a Dask collection, computed partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from dask import array as da
from dask import compute
from dask.delayed import delayed

from kvariates.dask.delayed_blocks import DelayedBlocks, blocks_of, is_frame, whole_rows
from kvariates.dask.partitions import checked_block, checked_weight, names_of
from kvariates.dask.threads import limited_threads
from kvariates.data.exact_sums import exact_total, to_float
from kvariates.data.rows import F64, Floats, Labels, Rows
from kvariates.estimators.block_results import FittedColumns

LABEL = "label"  # the name of a Series of labels


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a worker needs to know of a model."""

    centers: F64
    columns: FittedColumns

    @classmethod
    def of(cls, model: Any) -> FittedModel:
        centers = np.ascontiguousarray(model.cluster_centers_, dtype=np.float64)
        return cls(centers, FittedColumns.of(model))


def lazy_labels(X: Any, model: FittedModel) -> Any:
    """The nearest centre of every row, in the partitions of X."""
    if isinstance(X, da.Array):
        none = np.empty(0, dtype=np.int32)
        return whole_rows(X).map_blocks(_labels, model, drop_axis=1, dtype=np.int32, meta=none)
    if is_frame(X):
        return X.map_partitions(_label_series, model, meta=(LABEL, np.int32))
    return _each(_labels, blocks_of(X), model)


def lazy_distances(X: Any, model: FittedModel, names: list[str]) -> Any:
    """The distances of every row to all centres. `names`: of the columns of a frame."""
    if isinstance(X, da.Array):
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        rows, k = whole_rows(X), len(model.centers)
        none = np.empty((0, k), dtype=dtype)
        return rows.map_blocks(
            _distances, model, chunks=(rows.chunks[0], (k,)), dtype=dtype, meta=none
        )
    if is_frame(X):
        meta = _distance_frame(X._meta, model, names)
        return X.map_partitions(_distance_frame, model, names, meta=meta)
    return _each(_distances, blocks_of(X), model)


def cost_of_blocks(blocks: DelayedBlocks, model: FittedModel, client: Any) -> float:
    """The weighted cost of all rows at their nearest centres, computed now.

    `client`: None for Dask's default scheduler.
    """
    weights = blocks.weights or [None] * len(blocks.rows)
    cost = delayed(_exact_cost, pure=False)
    pairs = zip(blocks.rows, weights, strict=True)
    costs = [cost(block, weight, model, (i,)) for i, (block, weight) in enumerate(pairs)]
    found = compute(*costs) if client is None else client.gather(client.compute(costs))
    return to_float(sum(found))


def _each(function: Any, blocks: DelayedBlocks, model: FittedModel) -> list[Any]:
    call = delayed(function, pure=False)
    return [call(block, model, block_id=(i,)) for i, block in enumerate(blocks.rows)]


# -- on a worker -----------------------------------------------------------------------------------


def _rows(block: Any, columns: FittedColumns, block_id: tuple[int, ...] | None) -> Rows:
    """The rows of a block, checked against the model. ValueError in one line."""
    where = "X" if block_id is None else f"partition {block_id[0]}"
    X, names = checked_block(block, where), names_of(block)
    if names is not None and columns.names is not None and names != columns.names:
        raise ValueError(
            f"{where} has columns {list(names)}, but the model was fitted with "
            f"{list(columns.names)}."
        )
    if X.shape[1] != columns.d:
        raise ValueError(
            f"{where} has {X.shape[1]} features, but the model was fitted with {columns.d}."
        )
    rows = Rows.of(X)
    rows.check_squares()
    return rows


# Dask fills in `block_id`, the place of a block in its array.


def _labels(block: Any, model: FittedModel, block_id: tuple[int, ...] | None = None) -> Labels:
    rows = _rows(block, model.columns, block_id)
    with limited_threads():
        return rows.nearest(model.centers)


def _distances(block: Any, model: FittedModel, block_id: tuple[int, ...] | None = None) -> Floats:
    rows = _rows(block, model.columns, block_id)
    with limited_threads():
        return rows.distances(model.centers)


def _exact_cost(block: Any, weight: Any, model: FittedModel, block_id: tuple[int, ...]) -> int:
    rows = _rows(block, model.columns, block_id)
    weight = checked_weight(weight, rows.X, f"partition {block_id[0]}")
    with limited_threads():
        return exact_total(rows.costs(model.centers, rows.nearest(model.centers)), weight)


def _label_series(block: Any, model: FittedModel) -> Any:
    import pandas as pd

    return pd.Series(_labels(block, model), index=block.index, name=LABEL)


def _distance_frame(block: Any, model: FittedModel, names: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(_distances(block, model), index=block.index, columns=names)
