"""Which partitions to move, so that no worker has much more rows for a thread than others.

Every round of a fit waits for the slowest worker, and Dask places data without regard to that.
"""

from __future__ import annotations

from collections.abc import Mapping

TOLERATED = 1.1  # times the mean number of rows for a thread


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
