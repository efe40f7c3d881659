"""k-means over the partitions of a Dask collection, behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from dask import array as da
from dask import compute
from dask.delayed import delayed

from kvariates.dask.partitions import (
    DelayedBlocks,
    blocks_of,
    files_on,
    hold_partitions,
    is_collection,
    is_frame,
    memory_of,
    whole_rows,
)
from kvariates.dask.transport import DaskTransport, HasClient, client_for, limited_threads
from kvariates.data.exact_sums import to_float
from kvariates.data.rows import Floats, Labels
from kvariates.estimators import validation
from kvariates.estimators.cluster_kmeans import ClusterKMeans, HeldRows, engine
from kvariates.estimators.file_shares import is_path
from kvariates.estimators.partitions import FittedModel
from kvariates.objectives.objective import Objective
from kvariates.refining.lloyd import Step

LABEL = "label"  # the name of a Series of labels


@engine
@dataclass(eq=False, repr=False)
class KMeans(HasClient, ClusterKMeans):
    """k-means on a Dask cluster.

    Every partition stays on a worker and answers questions about its rows. The
    client gets sums, counts and costs, and a few rows: those that become centres, and with
    init="k-means++" and "k-means||" all candidates. The result does not depend on the number of
    workers, and not on the partitions either, except for init="dk-means++".

    X is a Dask array, a Dask DataFrame, a list of delayed blocks, or the path of Parquet that the
    workers see: a file, a folder, a pattern or a list of paths. If the rows of files do not fit
    into the memory of the workers, every pass reads the files anew, in blocks; the result is the
    same. `sample_weight` is a Dask array, a Dask Series, a list of delayed blocks or array-like; of
    files it is the name of a column. `predict` and `transform` are lazy: a Dask array for an array,
    a Dask Series or DataFrame for a DataFrame, a list of delayed arrays for a list or files, one
    for each file. Iterations are tasks in Dask's dashboard.

    Parameters
    ----------
    <parameters>
    client : distributed.Client or None, default=None
        None: the current client; if there is none, threads of this process.

    Attributes
    ----------
    <attributes>

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from kvariates.dask import KMeans
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(2_500, 4))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = KMeans(n_clusters=5, random_state=0).fit(X)
    ...     labels = model.predict(X).compute()
    >>> labels.shape, model.n_iter_ > 1
    ((10000,), True)
    """

    _: KW_ONLY
    client: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClusterKMeans._parameter_constraints,
        "client": "no_validation",  # type: ignore[dict-item]
    }

    @contextmanager
    def _held(
        self, X: Any, sample_weight: Any, objective: Objective, *, join: bool
    ) -> Iterator[HeldRows]:
        with client_for(self.client) as client:
            blocks = _blocks(X, sample_weight, client)
            blocks = replace(blocks, rows=self._to_read(blocks.rows, memory_of(client)))
            marks: list[Any] = []

            def show(step: Step) -> None:
                """An iteration is a task in Dask's dashboard."""
                key = f"kvariates-iteration-{id(marks):012x}-{step.iteration}"
                marks.append(client.submit(_number, step.iteration, key=key))

            plan, futures = hold_partitions(
                client, blocks, int(self.n_clusters), objective, join=join
            )
            transport = DaskTransport(client, futures)
            try:
                yield HeldRows(transport, plan, show)
            finally:  # a traceback that is kept must not keep the rows
                transport.end()
                futures.clear()
                marks.clear()

    def _is_partitioned(self, X: Any) -> bool:
        return is_collection(X) or is_path(X)

    def _remote_labels(self, X: Any, model: FittedModel) -> Any:
        if isinstance(X, da.Array):
            none = np.empty(0, dtype=np.int32)
            return whole_rows(X).map_blocks(_labels, model, drop_axis=1, dtype=np.int32, meta=none)
        if is_frame(X):
            return X.map_partitions(_label_series, model, meta=(LABEL, np.int32))
        return self._each(_labels, X, model)

    def _remote_distances(self, X: Any, model: FittedModel) -> Any:
        if isinstance(X, da.Array):
            dtype = validation.row_dtype(X.dtype)
            rows, k = whole_rows(X), len(model.centers)
            none = np.empty((0, k), dtype=dtype)
            return rows.map_blocks(
                _distances, model, chunks=(rows.chunks[0], (k,)), dtype=dtype, meta=none
            )
        if is_frame(X):
            names = self.get_feature_names_out().tolist()
            meta = _distance_frame(X._meta, model, names)
            return X.map_partitions(_distance_frame, model, names, meta=meta)
        return self._each(_distances, X, model)

    def _remote_cost(self, X: Any, sample_weight: Any, model: FittedModel) -> float:
        """Without a client by Dask's default scheduler."""
        blocks = _blocks(X, sample_weight, self.client, model.columns.names)
        weights = blocks.weights or [None] * len(blocks.rows)
        cost = delayed(_exact_cost, pure=False)
        pairs = zip(blocks.rows, weights, strict=True)
        costs = [cost(block, weight, model, i) for i, (block, weight) in enumerate(pairs)]
        if self.client is None:
            return to_float(sum(compute(*costs)))
        return to_float(sum(self.client.gather(self.client.compute(costs))))

    def _each(self, function: Any, X: Any, model: FittedModel) -> list[Any]:
        call = delayed(function, pure=False)
        blocks = _blocks(X, None, self.client, model.columns.names)
        return [call(block, model, block_id=(i,)) for i, block in enumerate(blocks.rows)]


def _blocks(
    X: Any, weight: Any, client: Any, columns: tuple[str, ...] | None = None
) -> DelayedBlocks:
    """One for each partition; of files these columns."""
    if is_path(X):
        return DelayedBlocks(files_on(client, X, weight, columns), None)
    return blocks_of(X, weight)


# -- on a worker: Dask fills in `block_id`, the place of a block in its array ----------------------


def _number(iteration: int) -> int:
    return iteration


def _where(block_id: tuple[int, ...] | None) -> str:
    return "X" if block_id is None else f"partition {block_id[0]}"


def _labels(block: Any, model: FittedModel, block_id: tuple[int, ...] | None = None) -> Labels:
    with limited_threads():
        return model.labels(block, _where(block_id))


def _distances(block: Any, model: FittedModel, block_id: tuple[int, ...] | None = None) -> Floats:
    with limited_threads():
        return model.distances(block, _where(block_id))


def _exact_cost(block: Any, weight: Any, model: FittedModel, number: int) -> int:
    with limited_threads():
        return model.exact_cost(block, weight, f"partition {number}")


def _label_series(block: Any, model: FittedModel) -> Any:
    import pandas as pd

    return pd.Series(_labels(block, model), index=block.index, name=LABEL)


def _distance_frame(block: Any, model: FittedModel, names: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(_distances(block, model), index=block.index, columns=names)
