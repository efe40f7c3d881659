"""What a model of a stream knows of the rows so far: synopses, and k-means on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from kvariates import guarantees
from kvariates.data.rows import F64, Floats
from kvariates.estimators.fit_record import FitRecord
from kvariates.estimators.fitted_centers import FittedCenters
from kvariates.estimators.names import Init, KMeansMetric, SynopsisName
from kvariates.fitting.kmeans import FitOptions, fit_kmeans
from kvariates.guarantees import Guarantee
from kvariates.refining.lloyd import LloydResult
from kvariates.seeding.seedings import SEEDINGS
from kvariates.summaries.merge_reduce import SYNOPSES
from kvariates.summaries.stream_state import SpreadEstimate, StreamState


class StreamSolution(NamedTuple):
    """k-means on the synopses, and the parameters it was made with."""

    result: LloydResult
    options: tuple[Any, ...]


class StreamedCenters(FittedCenters):
    """Centres of the synopses, computed when they are asked for and kept until the next batch."""

    _in_words = "k-means of a stream"
    n_clusters: int
    synopsis: SynopsisName
    init: Init
    n_init: int
    max_iter: int
    tol: float
    metric: KMeansMetric
    _state: StreamState | None = None
    _solution: StreamSolution | None = None
    _dtype: np.dtype[Any]  # of all batches
    _is_sparse: bool  # all batches

    @property
    def cluster_centers_(self) -> Floats:  # type: ignore[override]
        return self._solved.centers

    @property
    def inertia_(self) -> float:
        return self._solved.inertia

    @property
    def n_iter_(self) -> int:
        return self._solved.n_iter

    @property
    def guarantee_(self) -> Guarantee | None:
        self._seen()
        return None if self._lost else guarantees.streamed_seeding(int(self.n_clusters))

    @property
    def guarantee_lost_(self) -> str | None:
        self._seen()
        return self._lost

    @property
    def synopses_(self) -> Floats:
        points: Floats = self._seen().synopses().points
        return points

    @property
    def synopsis_weights_(self) -> F64:
        return self._seen().synopses().weights

    @property
    def spread_(self) -> SpreadEstimate:
        spread, cost = self._seen().spread(), self._objective.cost
        return SpreadEstimate(cost(spread.value), cost(spread.standard_error))

    @property
    def n_rows_seen_(self) -> int:
        return self._seen().rows_seen

    @property
    def weight_seen_(self) -> float:
        return self._seen().weight_seen

    def _fit_record(self) -> FitRecord:
        return replace(
            super()._fit_record(), metric=self.metric, inertia=self.inertia_, n_iter=self.n_iter_,
            in_batches=True, guarantee=self.guarantee_, lost=self.guarantee_lost_,
            synopses=self.synopses_, synopsis_weights=self.synopsis_weights_,
            spread=self.spread_, rows_seen=self.n_rows_seen_, rows_dropped=self._rows_dropped,
        )  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return self._rows_seen > 0

    @property
    def _rows_seen(self) -> int:
        return 0 if self._state is None else self._state.rows_seen

    @property
    def _rows_dropped(self) -> int:
        """Rows can be dropped before one is kept."""
        return int(getattr(self, "n_rows_dropped_", 0))

    @property
    def _lost(self) -> str | None:
        self._validate_params()  # they may have been set since the last batch
        return SEEDINGS[self.init].lost or SYNOPSES[self.synopsis].lost

    def _seen(self) -> StreamState:
        """The state of the stream; NotFittedError before the first row."""
        if self._state is None or not self._state.rows_seen:
            raise NotFittedError("This StreamingKMeans has seen no rows; call partial_fit first.")
        return self._state

    @property
    def _solved(self) -> LloydResult:
        options = self.n_clusters, self.init, self.n_init, self.max_iter, self.tol
        if self._solution is None or self._solution.options != options:
            self._solution = StreamSolution(self._solve(self._seen()), options)
        return self._solution.result

    def _solve(self, state: StreamState) -> LloydResult:
        """k-means on the synopses. The draws are others than those of the stream."""
        self._validate_params()  # they may have been set since the last batch
        synopses, k = state.synopses(), int(self.n_clusters)
        if synopses.n < k:
            raise NotFittedError(
                f"{state.rows_seen} rows were seen so far, summarized by {synopses.n} synopses; "
                f"n_clusters={k} needs at least {k}."
            )
        options = FitOptions(
            k, self.init, n_init=int(self.n_init), max_iter=self.max_iter, tol=self.tol,
            variance=synopses.variance(), looser=1.0,
        )  # fmt: skip
        return fit_kmeans(synopses.data, self._objective, options, state.solving_rng())
