"""Dask collections and files as delayed blocks, one for each partition, which the workers hold.

Every round of a fit waits for the slowest worker, and Dask places data without regard to that. So
some partitions are moved before the fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import distributed
import numpy as np
from dask import array as da
from dask.delayed import Delayed, delayed

from kvariates.estimators.file_shares import FileShare, checked_files, find_files
from kvariates.estimators.partitions import ClusterPlan, Partition, check_partitions
from kvariates.objectives.objective import Objective

WEIGHT = "sample_weight of kvariates"  # the name of a column
ACCEPTED = (
    "a Dask array, a Dask DataFrame, a list of delayed blocks or the path of Parquet files. For "
    "rows in memory use kvariates.KMeans, or cut them first: "
    "dask.array.from_array(X, chunks=(100_000, -1))."
)


@dataclass(frozen=True, eq=False)
class DelayedBlocks:
    """The rows of each partition, and their weights if there are any."""

    rows: list[Any]  # delayed, or a `FileShare`, whose rows have their weights
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
    check_partitions(len(rows), len(weights))
    return DelayedBlocks(rows, weights)


def _joined_frames(X: Any, weight: Any) -> DelayedBlocks:
    """Rows and weights of one graph: Dask may cut columns of the same file differently."""
    check_partitions(X.npartitions, weight.npartitions)
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


# -- files that workers read -----------------------------------------------------------------------


def files_on(
    client: Any, source: Any, weights: Any, columns: tuple[str, ...] | None
) -> list[FileShare]:
    """The Parquet files of a path, as a worker sees them. client: None for Dask's default."""
    task = delayed(find_files, pure=False)(source, weights, columns)
    return checked_files(task.compute() if client is None else client.compute(task).result())


def memory_of(client: Any) -> list[float]:
    """The bytes of each worker; infinite without a limit."""
    workers = client.scheduler_info()["workers"].values()
    return [worker["memory_limit"] or np.inf for worker in workers]


# -- partitions in the memory of workers -----------------------------------------------------------


TOLERATED = 1.1  # times the mean number of rows for a thread


def hold_partitions(
    client: Any, blocks: DelayedBlocks, k: int, objective: Objective, *, join: bool
) -> tuple[ClusterPlan, dict[str, Any]]:
    """Check all blocks on their workers and keep their rows there. ValueError in one line.

    Returns the plan and the futures of a `Partition`, by the name of its peer. join: whether
    partitions of few rows may become one peer.
    """
    weights = blocks.weights or [None] * len(blocks.rows)
    hold = delayed(Partition.held, pure=False)
    made = [
        hold(block, weight, number, objective)
        for number, (block, weight) in enumerate(zip(blocks.rows, weights, strict=True))
    ]
    held = client.compute(made)
    try:
        infos = client.gather(
            client.map(methodcaller("info"), held, key="kvariates-check", pure=False)
        )
        plan = ClusterPlan.of(infos, k, sum(client.nthreads().values()), join=join)
        joined = {
            name: _joined(client, [held[i] for i in group], canonical=plan.canonical)
            for name, group in plan.groups.items()
        }
        return plan, _balanced(client, joined, plan.rows)
    finally:
        held.clear()  # a traceback that is kept must not keep the rows


def _joined(client: Any, parts: list[Any], *, canonical: bool) -> Any:
    if len(parts) == 1 and not canonical:
        return parts[0]
    return client.submit(Partition.joined, parts, canonical=canonical, pure=False)


def _balanced(client: Any, futures: dict[str, Any], rows: dict[str, int]) -> dict[str, Any]:
    """The same partitions, of which some are moved to workers that have less to do."""
    wait_for(client, list(futures.values()))
    where, threads = client.who_has(list(futures.values())), client.nthreads()
    holders = {
        name: next((a for a in where.get(future.key, ()) if a in threads), None)
        for name, future in futures.items()
    }
    if None in holders.values():  # a worker was lost just now
        return futures
    for name, worker in moves(rows, holders, threads).items():  # type: ignore[arg-type]
        futures[name] = client.submit(
            Partition.joined, [futures[name]], workers=[worker], allow_other_workers=True,
            pure=False,
        )  # fmt: skip
    return futures


def wait_for(client: Any, futures: list[Any]) -> None:
    """Wait until they are finished, or one of them was cancelled."""
    # `wait` asks the current client.
    with client.as_current(), contextlib.suppress(distributed.CancelledError):
        distributed.wait(futures)


def moves(
    rows: Mapping[str, int], holders: Mapping[str, str], threads: Mapping[str, int]
) -> dict[str, str]:
    """The partitions that should move, and their new workers.

    `rows` and `holders`: the number of rows of each partition, and the worker that holds it.
    `threads`: of each worker.
    """
    place = dict(holders)
    load = {
        worker: sum(rows[p] for p in place if place[p] == worker) / count
        for worker, count in threads.items()
    }
    mean = sum(rows.values()) / sum(threads.values())
    for _ in rows:
        most, least = max(load, key=load.__getitem__), min(load, key=load.__getitem__)
        after = {
            p: max(load[most] - rows[p] / threads[most], load[least] + rows[p] / threads[least])
            for p in place
            if place[p] == most
        }
        best = min(after, key=after.__getitem__, default=None)
        if best is None or load[most] <= TOLERATED * mean or after[best] >= load[most]:
            break
        place[best] = least
        load[most] -= rows[best] / threads[most]
        load[least] += rows[best] / threads[least]
    return {p: worker for p, worker in place.items() if worker != holders[p]}
