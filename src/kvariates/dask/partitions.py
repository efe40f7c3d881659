"""Partitions: the rows of a Dask collection, checked and held in the memory of workers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import distributed
import numpy as np
from dask.delayed import delayed
from scipy import sparse
from sklearn.utils import check_array

from kvariates.dask.balance import moves
from kvariates.dask.delayed_blocks import DelayedBlocks
from kvariates.data.rows import F64, Floats, Rows, check_sparse
from kvariates.estimators import validation
from kvariates.peers.peer import Peer

OBJECT_BYTES = 500  # of a partition, besides its arrays
PEERS_OF_THREAD = 8  # if small partitions are joined


class Partition:
    """Rows in the memory of a worker, and the peer that answers questions about them.

    The peer lives as long as the rows do. It does not travel: if Dask moves the rows, writes them
    to a disk or computes them again, its state is lost, and the coordinator sends its log.
    """

    def __init__(self, X: Any, weight: F64 | None, names: tuple[str, ...] | None) -> None:
        self.X, self.weight, self.names = X, weight, names
        self._peers: dict[int, Peer] = {}

    def peer(self, seed: int) -> Peer:
        """The peer whose own draws have this seed. Pre: called by one thread at a time."""
        if seed not in self._peers:
            self._peers[seed] = Peer(Rows.of(self.X), self.weight, seed)
        return self._peers[seed]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_peers": {}}

    def __sizeof__(self) -> int:
        """Dask decides by it what to move and what to write to a disk."""
        parts = (self.X.data, self.X.indices, self.X.indptr) if hasattr(self.X, "indptr") else ()
        arrays = [*(parts or (self.X,)), *(() if self.weight is None else (self.weight,))]
        return OBJECT_BYTES + sum(int(array.nbytes) for array in arrays)


@dataclass(frozen=True)
class RefusedPartition:
    """Why a block cannot be clustered, in one line."""

    reason: str


@dataclass(frozen=True)
class PartitionInfo:
    """What the client has to know of a partition. `lightest`, `heaviest`: positive weights."""

    n: int
    d: int
    dtype: np.dtype[Any]
    is_sparse: bool
    names: tuple[str, ...] | None
    lightest: float
    heaviest: float


@dataclass(frozen=True, eq=False)
class HeldPartitions:
    """Partitions that have rows.

    Attributes
    ----------
    futures : dict from str to Future
        Of a `Partition`, by the name of its peer, in the order of the rows.
    n, d : int
    dtype : dtype
        Of the centres: float32 if all partitions are; otherwise float64.
    names : tuple of str or None
    """

    futures: dict[str, Any]
    n: int
    d: int
    dtype: np.dtype[Any]
    names: tuple[str, ...] | None


def hold_partitions(client: Any, blocks: DelayedBlocks, k: int, *, join: bool) -> HeldPartitions:
    """Check all blocks on their workers and keep their rows there. ValueError in one line.

    join: whether partitions of few rows may become one peer.
    """
    weights = blocks.weights or [None] * len(blocks.rows)
    hold = delayed(_hold, pure=False)
    made = [
        hold(block, weight, number)
        for number, (block, weight) in enumerate(zip(blocks.rows, weights, strict=True))
    ]
    held = client.compute(made)
    try:
        infos = client.gather(client.map(_info, held, key="kvariates-check", pure=False))
        _check(infos, k)
        full = [i for i, info in enumerate(infos) if info.n]
        dtype = reduce(np.promote_types, (infos[i].dtype for i in full))
        first, groups = infos[full[0]], [[i] for i in full]
        if join:
            groups = _groups(infos, full, sum(client.nthreads().values()))
        rows = {_name(group): sum(infos[i].n for i in group) for group in groups}
        joined = {_name(group): _joined(client, [held[i] for i in group]) for group in groups}
        futures = _balanced(client, joined, rows)
        return HeldPartitions(futures, sum(rows.values()), first.d, dtype, first.names)
    finally:
        held.clear()  # a traceback that is kept must not keep the rows


def _groups(infos: list[PartitionInfo], full: list[int], threads: int) -> list[list[int]]:
    """Neighbours to join: a round takes longer for each peer, so tiny ones would decide its time.

    The rows keep their order, and statistics are exact, so the centres are the same.
    """
    most = sum(infos[i].n for i in full) // (PEERS_OF_THREAD * threads)
    groups: list[list[int]] = []
    size = 0
    for i in full:
        size += infos[i].n
        kinds = {(infos[j].dtype, infos[j].is_sparse) for j in (i, *(groups[-1] if groups else ()))}
        if not groups or size > most or len(kinds) > 1:
            groups.append([])
            size = infos[i].n
        groups[-1].append(i)
    return groups


def _name(group: list[int]) -> str:
    """The name of the peer of these partitions."""
    first, last = group[0], group[-1]
    return f"partition {first}" if first == last else f"partitions {first} to {last}"


def _joined(client: Any, parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else client.submit(_join, parts, pure=False)


def _check(infos: list[PartitionInfo | RefusedPartition], k: int) -> None:
    """ValueError unless all partitions together can be clustered."""
    full: dict[int, PartitionInfo] = {}
    for i, info in enumerate(infos):
        if isinstance(info, RefusedPartition):
            raise ValueError(info.reason)
        if info.n:
            full[i] = info
    n = sum(info.n for info in full.values())
    if n < k:
        raise ValueError(f"n_samples={n} should be >= n_clusters={k}.")
    _check_columns(full)
    lightest = min(info.lightest for info in full.values())
    validation.weight_range(lightest, max(info.heaviest for info in full.values()))


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


def _check_columns(infos: dict[int, PartitionInfo]) -> None:
    """ValueError unless all partitions have the columns of the first one."""
    first = min(infos)
    for i, info in infos.items():
        for what in ("d", "names"):
            here, there = getattr(info, what), getattr(infos[first], what)
            if here != there:
                words = "columns" if what == "names" else "features"
                here, there = (list(v) if isinstance(v, tuple) else v for v in (here, there))
                raise ValueError(
                    f"partition {i} has {words} {here}, but partition {first} has {there}; all "
                    "partitions need the same."
                )


# -- on a worker -----------------------------------------------------------------------------------


def _hold(block: Any, weight: Any, number: int) -> Partition | RefusedPartition:
    try:
        X = checked_block(block, f"partition {number}")
        if X.shape[0]:
            Rows.of(X).check_squares()
        return Partition(X, checked_weight(weight, X, f"partition {number}"), names_of(block))
    except (ValueError, TypeError) as error:
        # As a value: an exception would also be written to the log of the worker.
        return RefusedPartition(" ".join(str(error).split()))


def _info(partition: Partition | RefusedPartition) -> PartitionInfo | RefusedPartition:
    if isinstance(partition, RefusedPartition):
        return partition
    (n, d), weight = partition.X.shape, partition.weight
    positive = np.ones(1) if weight is None else weight[weight > 0]
    lightest, heaviest = positive.min(initial=np.inf), positive.max(initial=0.0)
    X, names = partition.X, partition.names
    return PartitionInfo(n, d, X.dtype, sparse.issparse(X), names, lightest, heaviest)


def _join(parts: list[Partition]) -> Partition:
    rows = [part.X for part in parts]
    X = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.concatenate(rows)
    weights = [part.weight for part in parts if part.weight is not None]
    return Partition(X, np.concatenate(weights) if weights else None, parts[0].names)


def _moved(partition: Partition) -> Partition:
    return Partition(partition.X, partition.weight, partition.names)


def names_of(block: Any) -> tuple[str, ...] | None:
    """The names of the columns, if all are strings."""
    names = tuple(getattr(block, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def checked_block(block: Any, where: str) -> Floats:
    """The rows as float32 or float64, dense or CSR; there may be none. ValueError in one line."""
    _refuse_text(block, where)
    check_sparse(block)
    options = {**validation.CSR_OR_DENSE, "ensure_min_samples": 0, "ensure_all_finite": False}
    try:
        X: Floats = validation.canonical(check_array(block, **options))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {str(error).splitlines()[0]}") from error
    _refuse_missing(X, where, names_of(block))
    return X


def _refuse_text(block: Any, where: str) -> None:
    kinds = getattr(block, "dtypes", None)
    if kinds is None:
        return
    text = [str(name) for name, kind in kinds.items() if not is_numeric(kind)]
    if text:
        raise ValueError(
            f"{where}: not numeric: {', '.join(text)}; select numeric columns, as X[['a', 'b']]."
        )


def is_numeric(kind: Any) -> bool:
    """Whether a column of this dtype holds numbers (also pandas' own dtypes)."""
    return getattr(kind, "kind", "O") in "fiub"


def _refuse_missing(X: Any, where: str, names: Sequence[str] | None) -> None:
    """ValueError that names the first row and column that is NaN or infinite."""
    values = X.data if hasattr(X, "indptr") else X
    if np.isfinite(values).all():
        return
    if hasattr(X, "indptr"):
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
        value = values[at]
    else:
        row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
        value = values[row, column]
    what = "NaN" if np.isnan(value) else "infinite, or too large for its dtype"
    place = f"column {column}" if names is None else f"column {names[column]!r}"
    raise ValueError(
        f"{where}, row {row}, {place}: the value is {what}; fill it in or leave the row out."
    )


def checked_weight(weight: Any, X: Any, where: str) -> F64 | None:
    """float64 weights of the rows, which may all be zero. ValueError in one line."""
    if weight is None:
        return None
    out = np.ascontiguousarray(weight, dtype=np.float64)
    if out.shape != (X.shape[0],):
        raise ValueError(
            f"{where}: sample_weight has shape {out.shape}, but there are {X.shape[0]} rows; "
            "partition both alike."
        )
    wrong = np.flatnonzero(~((out >= 0) & np.isfinite(out)))
    if len(wrong):
        raise ValueError(
            f"{where}, row {wrong[0]}: sample_weight is {out[wrong[0]]:g}; weights must be finite "
            "and not negative."
        )
    return out
