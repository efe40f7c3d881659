"""A summary of a Dask collection: few weighted points that stand for all rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from dask.delayed import delayed
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from kvariates.dask.partitions import blocks_of
from kvariates.dask.transport import HasClient, client_for, limited_threads
from kvariates.data.rows import Rows
from kvariates.estimators import validation
from kvariates.estimators.partitions import checked_block, checked_weight, in_coordinates
from kvariates.estimators.saving import SavedModel
from kvariates.estimators.validation import KMeansMetric, RandomState
from kvariates.objectives.objective import OBJECTIVES, Objective, objective_for
from kvariates.summaries.merge_reduce import FAN_IN, LARGER, SYNOPSES
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints
from kvariates.tables import documented


@documented(SYNOPSES=SYNOPSES, OBJECTIVES=OBJECTIVES)
@dataclass(eq=False, repr=False)
class StreamingSummary(HasClient, SavedModel, BaseEstimator):
    """Weighted points that stand for the rows of a Dask collection.

    Every partition is read once and summarized by its worker; the summaries are joined in a tree.
    The rows need not fit into the memory of the cluster. The result does not depend on the workers.

    Parameters
    ----------
    n_synopses : int, default=20000
        The most points. Between workers, summaries of four times as many points travel.
    n_clusters : int, default=8
        The number of clusters that the points are to tell apart.
    synopsis : {<names of SYNOPSES>}, default="coreset"
        How rows are summarized.

        <list of SYNOPSES>
    metric : {<names of OBJECTIVES>}, default="euclidean"
        That of the fit that the points are for.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.
    client : distributed.Client or None, default=None
        None: the current client; if there is none, threads of this process.

    Attributes
    ----------
    synopses_ : ndarray of shape (n, n_features)
        With metric="cosine" they have length one.
    synopsis_weights_ : ndarray of shape (n,)
        They add up to the weight of all rows.
    n_rows_seen_ : int

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from kvariates import StreamingKMeans
    >>> from kvariates.dask import StreamingSummary
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(2_500, 4))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     summary = StreamingSummary(n_synopses=500, n_clusters=5, random_state=0).fit(X)
    >>> round(summary.synopsis_weights_.sum())
    10000
    >>> model = StreamingKMeans(n_clusters=5, n_synopses=500, random_state=0)
    >>> model = model.partial_fit(summary.synopses_, sample_weight=summary.synopsis_weights_)
    """

    n_synopses: int = 20_000
    n_clusters: int = 8
    _: KW_ONLY
    synopsis: str = "coreset"
    metric: KMeansMetric = "euclidean"
    random_state: RandomState = None
    client: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_synopses": [Interval(Integral, 4, None, closed="left")],
        "n_clusters": validation.COUNT,
        "synopsis": [StrOptions(SYNOPSES.keys())],
        "metric": [StrOptions(OBJECTIVES.keys())],
        "random_state": ["random_state", np.random.Generator],
        "client": "no_validation",  # type: ignore[dict-item]
    }

    @validation.all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StreamingSummary:
        """Summarize all rows of X. X and sample_weight are as in `KMeans.fit`."""
        blocks = blocks_of(X, sample_weight)
        weights = blocks.weights or [None] * len(blocks.rows)
        size, k = int(self.n_synopses), int(self.n_clusters)
        between = self.synopsis, SummaryOptions(LARGER * size, k)
        seed = validation.generator(self.random_state).integers(2**32, size=8).tolist()
        leaf, node = delayed(_summarized, pure=False), delayed(_joined, pure=False)
        objective = objective_for(self.metric, None, None, None)
        parts = [
            leaf(block, weight, i, objective, *between, [*seed, 0, i])
            for i, (block, weight) in enumerate(zip(blocks.rows, weights, strict=True))
        ]
        level = 1
        while len(parts) > FAN_IN:
            groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [node(g, *between, [*seed, level, i]) for i, g in enumerate(groups)]
            level += 1
        last = node(parts, self.synopsis, SummaryOptions(size, k), [*seed, level, 0])
        with client_for(self.client) as client:
            counted: CountedPoints = client.compute(last).result()
        if counted.points is None:
            raise ValueError("X has no rows of positive weight.")
        self.synopses_, self.synopsis_weights_ = counted.points.points, counted.points.weights
        self.n_rows_seen_, self.n_features_in_ = counted.n, counted.points.points.shape[1]
        return self


# -- on a worker -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountedPoints:
    """The summary of `n` rows; None if none of them has a positive weight."""

    n: int
    points: WeightedPoints | None


def _summarized(
    block: Any, weight: Any, number: int, objective: Objective, synopsis: str,
    options: SummaryOptions, seed: list[int],
) -> CountedPoints:  # fmt: skip
    """Summarize one partition."""
    where = f"partition {number}"
    X = checked_block(block, where)
    Rows.of(X).check_squares()
    X = in_coordinates(X, objective, where)
    rows = WeightedPoints.of(X, checked_weight(weight, X, where))
    return CountedPoints(X.shape[0], _reduced(rows, synopsis, options, seed))


def _joined(
    parts: list[CountedPoints], synopsis: str, options: SummaryOptions, seed: list[int]
) -> CountedPoints:
    """Summarize several summaries."""
    points = [part.points for part in parts if part.points is not None]
    n = sum(part.n for part in parts)
    widths = {p.points.shape[1] for p in points}
    if len(widths) > 1:
        raise ValueError(f"partitions have {sorted(widths)} features; all need the same number.")
    if not points:
        return CountedPoints(n, None)
    return CountedPoints(n, _reduced(WeightedPoints.joined(points), synopsis, options, seed))


def _reduced(
    rows: WeightedPoints, synopsis: str, options: SummaryOptions, seed: list[int]
) -> WeightedPoints | None:
    if not rows.n:
        return None
    rng, summary = np.random.default_rng(seed), SYNOPSES[synopsis].run(options)
    with limited_threads():
        summary.add(rows, rng)
        return summary.points(rng).take(slice(None))
