"""Holds the rows of a Dask collection in the memory of its workers, about as many on each.

Every round of a fit waits for the slowest worker, and Dask places data without regard to that. So
some partitions are moved before the fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import distributed
from dask.delayed import delayed

from kvariates.dask.collections import DelayedBlocks
from kvariates.estimators.partitions import (
    ClusterPlan,
    Partition,
    PartitionInfo,
    RefusedPartition,
)
from kvariates.objectives.objective import Objective

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
        infos = client.gather(client.map(_info, held, key="kvariates-check", pure=False))
        plan = ClusterPlan.of(infos, k, sum(client.nthreads().values()), join=join)
        joined = {
            name: _joined(client, [held[i] for i in group], canonical=plan.canonical)
            for name, group in plan.groups.items()
        }
        return plan, _balanced(client, joined, plan.rows)
    finally:
        held.clear()  # a traceback that is kept must not keep the rows


def _info(partition: Partition | RefusedPartition) -> PartitionInfo | RefusedPartition:
    return partition.info()


def _joined(client: Any, parts: list[Any], *, canonical: bool) -> Any:
    if len(parts) == 1 and not canonical:
        return parts[0]
    return client.submit(Partition.joined, parts, canonical=canonical, pure=False)


def _moved(partition: Partition) -> Partition:
    return Partition.joined([partition])


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
            _moved, futures[name], workers=[worker], allow_other_workers=True, pure=False
        )
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

    Parameters
    ----------
    rows : mapping
        The number of rows of each partition.
    holders : mapping
        The worker that holds each partition.
    threads : mapping
        The number of threads of each worker.
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
