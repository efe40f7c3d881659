"""Moves of partitions between workers, and threads of a task."""

import numpy as np
import pytest
from api import TOLERATED, moves, threads_of_task
from dask import array as da
from hypothesis import given
from hypothesis import strategies as st

from kvariates import _native
from kvariates.dask import KMeans


def loads(rows, place, threads):
    return {w: sum(rows[p] for p in rows if place[p] == w) / t for w, t in threads.items()}


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 3)), min_size=1, max_size=30),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
)
def test_moves_lower_the_largest_load(partitions, counts):
    threads = {f"w{i}": count for i, count in enumerate(counts)}
    rows = {f"p{i}": n for i, (n, _) in enumerate(partitions)}
    holders = {f"p{i}": f"w{w}" for i, (_, w) in enumerate(partitions)}
    found = moves(rows, holders, threads)
    before, after = (loads(rows, h, threads) for h in (holders, holders | found))
    assert max(after.values()) <= max(before.values())
    mean = sum(rows.values()) / sum(threads.values())
    if max(before.values()) <= TOLERATED * mean:
        assert not found
    for partition, worker in found.items():
        assert holders[partition] != worker


def test_equal_partitions_are_shared_evenly():
    rows = {f"p{i}": 10 for i in range(8)}
    found = moves(rows, dict.fromkeys(rows, "a"), {"a": 1, "b": 1})
    assert sorted(found.values()) == ["b"] * 4
    assert moves(rows, dict.fromkeys(rows, "a"), {"a": 1}) == {}


def test_a_fit_uses_all_workers(client, rows, monkeypatch):
    """All blocks on one worker: some are moved, and the result stays. Dask may move some back."""
    from kvariates.dask import DaskTransport

    places, end = [], DaskTransport.end
    monkeypatch.setattr(
        DaskTransport, "end", lambda self: (places.append(dict(self._workers)), end(self))
    )
    one = next(iter(client.nthreads()))
    X = client.persist(da.from_array(rows, chunks=(500, 4)), workers=[one])
    model = KMeans(3, random_state=0, client=client).fit(X)
    assert len(set(places[0].values())) == 2
    again = KMeans(3, random_state=0, client=client).fit(da.from_array(rows, chunks=(500, 4)))
    np.testing.assert_array_equal(model.cluster_centers_, again.cluster_centers_)


@pytest.mark.parametrize(
    ("variable", "worker_threads", "expected"),
    [(None, 1, 1), (None, 8, 1), ("1", 1, 1), ("8", 1, 8), ("8", 4, 2), ("2", 4, 1), ("x", 2, 1)],
)
def test_threads_of_a_task(monkeypatch, variable, worker_threads, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert threads_of_task(worker_threads) == expected


def test_workers_in_this_process_start_no_threads_of_openmp(threads, rows, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = _native.set_work_per_thread(1)  # every loop would use all threads
    try:
        tasks = _native.tasks_of_other_threads()
        model = KMeans(3, random_state=0, client=threads(1, threads_per_worker=2))
        model.fit(da.from_array(rows, chunks=(500, 4))).labels_.compute()
        assert _native.tasks_of_other_threads() == tasks
    finally:
        _native.set_work_per_thread(before)
