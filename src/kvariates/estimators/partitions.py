"""Partitions of a table on a cluster: rows, checked and kept by a worker, whatever the engine is.

A block is an array, a CSR matrix or a frame, as an engine hands it to a worker, or a `FileShare`.
`Partition` is its rows in the worker's memory; `FilePartition` has none and reads its file in every
pass. `FittedModel` is what a worker needs to label rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from kvariates.data.block_data import BlockData, PartedData, read_weights
from kvariates.data.blocks import CountedBlocks
from kvariates.data.exact_sums import exact_total
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, SMALL, Floats, Labels, Rows, check_sparse
from kvariates.estimators import validation
from kvariates.estimators.file_shares import FileShare
from kvariates.estimators.fitted_centers import CoordinateBlocks, FittedColumns
from kvariates.objectives.objective import Objective
from kvariates.peers.questions import Peer

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
            self._peers[seed] = Peer(self._data(), seed)
        return self._peers[seed]

    def _data(self) -> PartedData:
        return HostData(Rows.of(self.X), self.weight)

    @classmethod
    def held(
        cls, block: Any, weight: Any, number: int, objective: Objective
    ) -> Partition | RefusedPartition:
        """Check a block and keep its rows, in the objective's coordinates."""
        share = block if isinstance(block, FileShare) else None
        where = f"partition {number}" if share is None else share.description
        try:
            if share is not None and share.in_blocks and share.n:
                return FilePartition(share, objective)
            if share is not None:
                block, weight = share.in_memory()
            X = checked_block(block, where)
            if X.shape[0]:
                Rows.of(X).check_squares()
            names = names_of(block) if share is None else share.names
            X, weight = in_coordinates(X, objective, where), checked_weight(weight, X, where)
            return cls(X, weight, names)
        except (ValueError, TypeError, OSError) as error:
            # As a value: an exception would also be written to the log of the worker.
            words = " ".join(str(error).split())
            named = share is None or words.startswith(where)
            return RefusedPartition(words if named else f"{where}: {words}")

    @classmethod
    def joined(cls, parts: Sequence[Partition], *, canonical: bool = False) -> Partition:
        """The rows of several partitions, without the states of their peers.

        `canonical`: in the order in which few rows are drawn in memory.
        """
        if isinstance(parts[0], FilePartition):  # it is moved, never joined: see `ClusterPlan`
            (moved,) = parts
            return moved
        rows = [part.X for part in parts]
        X = rows[0]
        if len(parts) > 1:
            is_sparse = sparse.issparse(X)
            X = sparse.vstack(rows, format="csr") if is_sparse else np.concatenate(rows)
        weights = [part.weight for part in parts if part.weight is not None]
        weight = np.concatenate(weights) if weights else None
        order = Rows.of(X).canonical_order() if canonical else None
        if order is not None:
            X, weight = X[order], None if weight is None else weight[order]
        return cls(X, weight, parts[0].names)

    def info(self) -> PartitionInfo:
        data, weight, is_sparse = self._data(), self.weight, sparse.issparse(self.X)
        positive = np.ones(1) if weight is None else weight[weight > 0]
        lightest, heaviest = positive.min(initial=np.inf), positive.max(initial=0.0)
        return PartitionInfo(data.n, data.d, data.dtype, is_sparse, self.names, lightest, heaviest)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_peers": {}}

    def __sizeof__(self) -> int:
        """Dask decides by it what to move and what to write to a disk."""
        parts = (self.X.data, self.X.indices, self.X.indptr) if hasattr(self.X, "indptr") else ()
        arrays = [*(parts or (self.X,)), *(() if self.weight is None else (self.weight,))]
        return OBJECT_BYTES + sum(int(array.nbytes) for array in arrays)


class FilePartition(Partition):
    """A file whose rows are read anew in every pass. Their weights are in memory, but not `X`."""

    def __init__(self, share: FileShare, objective: Objective) -> None:
        """Read the file once, to check it. ValueError in one line."""
        columns = FittedColumns(len(share.names), share.names)
        blocks = CoordinateBlocks(share.opened(), objective, columns)
        counted = CountedBlocks(blocks, lambda _: None)
        super().__init__(None, read_weights(counted), share.names)
        self.data = BlockData(blocks, counted.totals, self.weight)

    def _data(self) -> PartedData:
        return self.data

    def __sizeof__(self) -> int:
        weights = 0 if self.weight is None else self.weight.nbytes
        return OBJECT_BYTES + self.data.totals.sums.limbs.nbytes + weights

    def info(self) -> PartitionInfo:
        return replace(super().info(), in_blocks=True)


@dataclass(frozen=True)
class RefusedPartition:
    """Why a block cannot be clustered, in one line."""

    reason: str

    def info(self) -> RefusedPartition:
        return self


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
    in_blocks: bool = False  # read anew in every pass, so that it is not joined with others


@dataclass(frozen=True, eq=False)
class ClusterPlan:
    """Which partitions answer together as one peer, and what all have in common."""

    # The numbers of partitions, in the order of their rows, by the name of their peer. Partitions
    # without rows are in none.
    groups: dict[str, list[int]]
    rows: dict[str, int]  # of each peer
    d: int
    dtype: np.dtype[Any]  # of the centres: float32 if all partitions are; otherwise float64
    names: tuple[str, ...] | None  # of the columns
    canonical: bool  # whether so few rows are drawn in canonical order, by one peer

    @classmethod
    def of(
        cls,
        infos: Sequence[PartitionInfo | RefusedPartition],
        k: int,
        threads: int,
        owners: Sequence[int] | None = None,
        *,
        join: bool,
    ) -> ClusterPlan:
        """Check all partitions together. ValueError in one line.

        `threads`: of all workers. `owners`: partitions of different owners are not joined, except
        few rows in all. `join`: whether partitions of few rows may become one peer.
        """  # fmt: skip
        known = _checked(infos, k)
        first = next(iter(known.values()))
        n = sum(info.n for info in known.values())
        join = join and not first.in_blocks
        few = join and n * first.d <= SMALL
        separate = None if few else owners
        kinds = {i: (p.dtype, p.is_sparse, separate and separate[i]) for i, p in known.items()}
        # A round takes longer for each peer, so tiny ones would decide its time. The rows keep
        # their order, and statistics are exact, so the centres are the same.
        most = n if few else n // (PEERS_OF_THREAD * threads) if join else 0
        groups: list[list[int]] = []
        size = 0
        for i, info in known.items():
            size += info.n
            if not groups or size > most or kinds[i] != kinds[groups[-1][-1]]:
                groups.append([])
                size = info.n
            groups[-1].append(i)
        named = {_name(group): group for group in groups}
        rows = {name: sum(known[i].n for i in group) for name, group in named.items()}
        dtype = reduce(np.promote_types, (info.dtype for info in known.values()))
        return cls(named, rows, first.d, dtype, first.names, few and len(groups) == 1)


def _name(group: list[int]) -> str:
    """The name of the peer of these partitions."""
    first, last = group[0], group[-1]
    return f"partition {first}" if first == last else f"partitions {first} to {last}"


def _checked(infos: Sequence[PartitionInfo | RefusedPartition], k: int) -> dict[int, PartitionInfo]:
    """Those that have rows. ValueError unless all together can be clustered."""
    full: dict[int, PartitionInfo] = {}
    for i, info in enumerate(infos):
        if isinstance(info, RefusedPartition):
            raise ValueError(info.reason)
        if info.n:
            full[i] = info
    n = sum(info.n for info in full.values())
    validation.enough_rows(n, k)
    _check_columns(full)
    lightest = min(info.lightest for info in full.values())
    validation.weight_range(lightest, max(info.heaviest for info in full.values()))
    return full


def _check_columns(infos: dict[int, PartitionInfo]) -> None:
    """ValueError unless all partitions have the columns of the first one."""
    first, *others = infos
    a = infos[first]
    for i in others:
        b = infos[i]
        if a.d != b.d:
            here, there = f"features {b.d}", str(a.d)
        elif a.names != b.names:
            here, there = f"columns {b.names and list(b.names)}", str(a.names and list(a.names))
        else:
            continue
        raise ValueError(
            f"partition {i} has {here}, but partition {first} has {there}; all partitions need the "
            "same."
        )


def check_partitions(rows: int, weights: int) -> None:
    """ValueError unless there are as many partitions of weights as of rows."""
    if weights != rows:
        raise ValueError(
            f"sample_weight has {weights} partitions, but X has {rows}; partition both alike."
        )


def in_coordinates(X: Any, objective: Objective, where: str) -> Any:
    """ValueError in one line, for rows that have no direction."""
    try:
        return objective.rows(X).X if X.shape[0] else X
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def names_of(block: Any) -> tuple[str, ...] | None:
    """The names of the columns, if all are strings."""
    names = tuple(getattr(block, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def checked_block(block: Any, where: str) -> Floats:
    """The rows as float32 or float64, dense or CSR; there may be none. ValueError in one line."""
    _refuse_text(block, where)
    check_sparse(block)
    options = {**validation.row_options(block), "ensure_min_samples": 0, "ensure_all_finite": False}
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


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a worker needs to know of a model. `where`: names a block in errors."""

    centers: F64
    columns: FittedColumns
    objective: Objective

    @classmethod
    def of(cls, model: Any) -> FittedModel:
        centers = np.ascontiguousarray(model.cluster_centers_, dtype=np.float64)
        return cls(centers, FittedColumns.of(model), model._objective)

    def labels(self, block: Any, where: str) -> Labels:
        nearest, parts = self.objective.nearest, self._parts(block, None, where)
        return np.concatenate([nearest(rows, self.centers) for rows, _ in parts])

    def distances(self, block: Any, where: str) -> Floats:
        distances, parts = self.objective.distances, self._parts(block, None, where)
        return np.concatenate([distances(rows, self.centers) for rows, _ in parts])

    def exact_cost(self, block: Any, weight: Any, where: str) -> int:
        """The weighted cost of the rows of a block, as costs of blocks can be added."""
        cost = 0
        for rows, part_weight in self._parts(block, weight, where):
            labels = self.objective.nearest(rows, self.centers)
            cost += exact_total(self.objective.costs(rows, self.centers, labels), part_weight)
        return cost

    def _parts(self, block: Any, weight: Any, where: str) -> Iterator[tuple[Rows, F64 | None]]:
        """The rows and weights of a block: at once, or those of a file a part at a time."""
        if isinstance(block, FileShare):
            for part in CoordinateBlocks(block, self.objective, self.columns):
                yield part.rows, part.weight
        else:
            rows = self._rows(block, where)
            yield rows, checked_weight(weight, rows.X, where)

    def _rows(self, block: Any, where: str) -> Rows:
        """The rows of a block, checked against the model. ValueError in one line."""
        X, names, expected = checked_block(block, where), names_of(block), self.columns
        if names is not None and expected.names is not None and names != expected.names:
            raise ValueError(
                f"{where} has columns {list(names)}, but the model was fitted with "
                f"{list(expected.names)}."
            )
        if X.shape[1] != expected.d:
            raise ValueError(
                f"{where} has {X.shape[1]} features, but the model was fitted with {expected.d}."
            )
        rows = self.objective.rows(X)
        rows.check_squares()
        return rows
