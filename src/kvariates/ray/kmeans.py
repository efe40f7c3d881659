"""k-means on a Ray cluster, behind scikit-learn's interface.

If an actor is lost, another one reads its blocks again and gets the logs of its peers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
import ray
import ray.data
from ray.data.block import BlockAccessor
from ray.exceptions import RayActorError
from scipy import sparse

from kvariates.data.exact_sums import to_float
from kvariates.estimators.cluster_kmeans import ClusterKMeans, HeldRows, engine
from kvariates.estimators.file_shares import FileShare, checked_files, find_files, is_path
from kvariates.estimators.partitions import ClusterPlan, FittedModel, Partition, check_partitions
from kvariates.estimators.validation import COUNT
from kvariates.objectives.objective import Objective
from kvariates.peers.questions import Envelope
from kvariates.peers.transport import Reply, reply_of

_Asked = tuple[tuple[int, ...], int, Envelope]  # partitions, the seed of their peer, a question
STARTS = 10  # of an actor, for one question
LABEL = "label"  # the name of a column
ACCEPTED = (
    "a ray.data.Dataset, the path of Parquet files or a list of object refs. For rows in memory "
    "use kvariates.KMeans."
)


@engine
@dataclass(eq=False, repr=False)
class KMeans(ClusterKMeans):
    """k-means on a Ray cluster.

    Actors keep the rows in their memory and answer questions about them. What the driver gets, and
    what the result depends on, is as for `kvariates.dask.KMeans`.

    X is a ``ray.data.Dataset``, the path of Parquet as for `kvariates.dask.KMeans`, or a list of
    object refs of matrices, CSR matrices or frames. `sample_weight` is the name of a column, or a
    list of object refs. `predict` and `transform` give a lazy Dataset for a Dataset or a path,
    without columns that the model does not know, and object refs for object refs. A Dataset that
    was given then keeps the order of its rows, as its labels do.

    Parameters
    ----------
    <parameters>
    n_workers : int or None, default=None
        The number of actors. None: one for each CPU of the cluster, and at most one for each block.

    Attributes
    ----------
    <attributes>
    """

    _: KW_ONLY
    n_workers: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClusterKMeans._parameter_constraints,
        "n_workers": [*COUNT, None],
    }

    @contextmanager
    def _held(
        self, X: Any, sample_weight: Any, objective: Objective, *, join: bool
    ) -> Iterator[HeldRows]:
        blocks, resources = _blocks_of(X, sample_weight), ray.cluster_resources()
        count = self.n_workers or int(resources.get("CPU", 1))
        memory = [resources.get("memory", np.inf) / count] * count
        rows = self._to_read([block.rows for block in blocks], memory)
        blocks = [block._replace(rows=each) for block, each in zip(blocks, rows, strict=True)]
        actors = _Actors(blocks, min(count, len(blocks)), objective)
        try:
            k, infos, owners = int(self.n_clusters), chain(*ray.get(actors.infos)), actors.owners
            plan = ClusterPlan.of(list(infos), k, owners[-1] + 1, owners, join=join)
            if plan.canonical:  # few rows are one peer
                actors.end()
                actors = _Actors(blocks, 1, objective)
            actors.plan = plan
            yield HeldRows(actors, plan)
        finally:  # a traceback that is kept must not keep the rows
            actors.end()
            blocks.clear()

    def _is_partitioned(self, X: Any) -> bool:
        return isinstance(X, ray.data.Dataset) or is_path(X) or _are_refs(X)

    def _remote_labels(self, X: Any, model: FittedModel) -> Any:
        return _mapped(X, model, model.labels, [LABEL])

    def _remote_distances(self, X: Any, model: FittedModel) -> Any:
        return _mapped(X, model, model.distances, self.get_feature_names_out().tolist())

    def _remote_cost(self, X: Any, sample_weight: Any, model: FittedModel) -> float:
        @ray.remote  # type: ignore[untyped-decorator,unused-ignore]
        def cost(block: _Block) -> int:
            rows, weight = block.fetch()
            return model.exact_cost(_table(rows, model), weight, f"partition {block.number}")

        blocks = _blocks_of(X, sample_weight, model.columns.names)
        return to_float(sum(ray.get(list(map(cost.remote, blocks)))))


def _mapped(X: Any, model: FittedModel, function: Any, names: list[str]) -> Any:
    """Of a table a table with these columns; of object refs, object refs of arrays."""

    def columns(block: Any) -> dict[str, Any]:
        found = function(_table(block, model), "X")
        return dict(zip(names, np.atleast_2d(found.T), strict=True))

    if is_path(X):
        files = [block.rows.file for block in _blocks_of(X, None, model.columns.names)]
        X = ray.data.read_parquet([str(file.path) for file in files], filesystem=files[0].files)
    if isinstance(X, ray.data.Dataset):
        found = X.map_batches(columns, batch_format=None, batch_size=None)
        found.context.execution_options.preserve_order = True  # of X, too: they share it
        return found
    task = ray.remote(lambda block, where: function(_table(block, model), where))
    return [task.remote(ref, f"partition {i}") for i, ref in enumerate(X)]


class _Block(NamedTuple):
    """Object refs of rows and of their weights (a str: their column; None: ones), or a file."""

    number: int
    rows: Any
    weight: Any

    def fetch(self) -> tuple[Any, Any]:
        rows: Any = self.rows if isinstance(self.rows, FileShare) else _table(ray.get(self.rows))
        if isinstance(self.weight, str):
            return rows.drop(columns=self.weight), rows[self.weight].to_numpy()
        return rows, self.weight and ray.get(self.weight)


def _are_refs(X: Any) -> bool:
    return isinstance(X, list | tuple) and all(isinstance(b, ray.ObjectRef) for b in X)


def _refs_of(table: ray.data.Dataset) -> list[Any]:
    """Blocks in the order of the rows."""
    options = table.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        blocks = chain(*(bundle.blocks for bundle in table.iter_internal_ref_bundles()))
        return [ref for ref, about in blocks if about.num_rows != 0]
    finally:
        options.preserve_order = before


def _blocks_of(X: Any, weight: Any, columns: tuple[str, ...] | None = None) -> list[_Block]:
    """ValueError or TypeError in one line. `columns`: to read of files; None: the numeric ones."""
    if is_path(X):
        files = checked_files(ray.get(ray.remote(find_files).remote(X, weight, columns)))
        return [_Block(i, file, None) for i, file in enumerate(files)]
    is_table = isinstance(X, ray.data.Dataset)
    if not is_table and not _are_refs(X):
        raise TypeError(f"X is a {type(X).__name__}; give {ACCEPTED}")
    rows, known = (_refs_of(X), X.columns()) if is_table else (list(X), [])
    if not rows:
        raise ValueError("X is an empty list; it should hold object refs of blocks.")
    if not (weight is None or _are_refs(weight) or (isinstance(weight, str) and weight in known)):
        raise ValueError("sample_weight should be the name of a column of X, or object refs.")
    weights = list(weight) if _are_refs(weight) else [weight] * len(rows)
    check_partitions(len(rows), len(weights))
    return [_Block(i, *pair) for i, pair in enumerate(zip(rows, weights, strict=True))]


def _table(block: Any, model: FittedModel | None = None) -> Any:
    """A matrix or a frame; the columns of the model, of a frame that has others, too."""
    if isinstance(block, np.ndarray | FileShare) or sparse.issparse(block):
        return block
    access = BlockAccessor.for_block(block)
    first, *others = access.column_names() or [None]
    if first is not None and not others and (rows := access.to_numpy(first)).ndim == 2:
        return rows
    frame, names = access.to_pandas(), model and model.columns.names
    return frame[list(names)] if names and set(names) <= set(frame.columns) else frame


class RowsActor:
    """The partitions of some blocks."""

    def hold(self, blocks: Sequence[_Block], objective: Objective) -> list[Any]:
        held = {b.number: Partition.held(*b.fetch(), b.number, objective) for b in blocks}
        self._parts: Any = held
        self._peers: dict[tuple[int, ...], Any] = {}
        return [partition.info() for partition in held.values()]

    def answer(self, asked: Sequence[_Asked], canonical: bool) -> list[Reply]:
        for group, seed, _ in asked:
            if group not in self._peers:  # joined when it is asked for the first time
                parts = [self._parts.pop(number) for number in group]
                self._peers[group] = Partition.joined(parts, canonical=canonical).peer(seed)
        return [reply_of(self._peers[group].answer, envelope) for group, _, envelope in asked]


class _Actors:
    """A transport. Each of `count` actors holds neighbouring blocks."""

    def __init__(self, blocks: list[_Block], count: int, objective: Objective) -> None:
        self.owners = [i * count // len(blocks) for i in range(len(blocks))]
        shares = [[b for b in blocks if self.owners[b.number] == i] for i in range(count)]
        self._shares = [(share, objective) for share in shares]
        self._actors: list[Any] = [None] * count
        self.infos = [self._start(owner) for owner in range(count)]
        self.plan: ClusterPlan  # once it is known

    def _start(self, owner: int) -> Any:
        """Start an actor, perhaps in place of a lost one; the ref of what it says of its blocks."""
        made: Any = ray.remote(RowsActor)
        self._actors[owner] = made.options(scheduling_strategy="SPREAD").remote()
        return self._actors[owner].hold.remote(*self._shares[owner])

    def peers(self) -> list[str]:
        return list(self.plan.groups)

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        asked: dict[int, dict[str, _Asked]] = {}
        for seed, (name, group) in enumerate(self.plan.groups.items()):
            if name in envelopes:
                one = tuple(group), seed, envelopes[name]
                asked.setdefault(self.owners[group[0]], {})[name] = one
        waiting = {owner: self._ask(owner, asked[owner]) for owner in asked}
        found = [self._answers(owner, asked[owner], ref) for owner, ref in waiting.items()]
        return dict(zip(chain(*asked.values()), chain(*found), strict=True))

    def _ask(self, owner: int, asked: dict[str, _Asked]) -> Any:
        return self._actors[owner].answer.remote(list(asked.values()), self.plan.canonical)

    def _answers(self, owner: int, asked: dict[str, _Asked], ref: Any, left: int = STARTS) -> Any:
        try:
            return ray.get(ref)
        except RayActorError:
            if not left:
                raise
            self._start(owner)
            return self._answers(owner, asked, self._ask(owner, asked), left - 1)

    def end(self) -> None:
        """Let the actors end, and with them the rows and the states of the peers."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors, self._shares = [], []
