"""OnlineKMeans: OLk-means++ for rows that arrive in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from kvariates import guarantees
from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import Rows, nearest_centers
from kvariates.estimators import validation
from kvariates.estimators.batches import (
    Batch,
    LearnsFromBatches,
    batches_of,
    is_table,
    keeping_rows_seen,
)
from kvariates.estimators.callbacks import FitReport
from kvariates.estimators.fitted_centers import set_features
from kvariates.estimators.validation import KMeansMetric, MissingRows, RandomState
from kvariates.objectives.objective import OBJECTIVES
from kvariates.progress import Report
from kvariates.summaries.stream_state import OnlineRule, OnlineState
from kvariates.tables import documented

NOTE = (
    "opt and varsigma are those of all rows of the stream, rows after the last drawn centre "
    "included. Nobody can know them before the stream ends. Large batches, each with rows of every "
    "cluster, make varsigma large."
)


@documented(OBJECTIVES=OBJECTIVES)
@dataclass(eq=False, repr=False)
class OnlineKMeans(LearnsFromBatches):
    """k-means on-line: one centre from every batch, and predictions at any time.

    OLk-means++ (Nock et al. 2016, Algorithm 3): each of the first `n_clusters` batches gives one
    centre, one of its rows, drawn in proportion to weight and squared distance to the centres so
    far. A row is read once, and only the centres are kept. `StreamingKMeans` keeps more and finds
    better centres.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of centres, and of the batches that they are drawn from.
    update : bool, default=True
        Whether each centre moves to the mean of the rows assigned to it, as soon as there are
        `n_clusters` centres. This usually lowers the cost, but Theorem 6 no longer holds.
    metric : {<names of OBJECTIVES>}, default="euclidean"
        The distance between a row and a centre.

        <list of OBJECTIVES>
    missing : {"error", "drop"}, default="error"
        What to do with rows that hold NaN or infinity. "drop" leaves them out and counts them.
    verbose : int, default=0
        Whether `fit` prints a line for every batch.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from. It is used from the first batch on, until `fit` starts
        again.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_centers, n_features)
        Fewer than `n_clusters` centres while fewer batches were seen. Of the first batch's dtype.
    labels_ : ndarray of shape (n_samples,)
        The nearest centre of every row. Only after `fit` of one table.
    guarantee_ : Guarantee or None
        Theorem 6 of the paper, in whose bound opt and varsigma are not known.
    guarantee_lost_ : str or None
        Why it does not hold.
    n_rows_seen_, n_rows_dropped_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        When the first batch has column names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from kvariates import OnlineKMeans
    >>> model = OnlineKMeans(n_clusters=2, random_state=0)
    >>> for batch in ([[1, 2], [1, 4], [10, 0]], [[10, 4], [1, 0], [10, 2]], [[9, 2], [0, 2]]):
    ...     model = model.partial_fit(batch)
    >>> bool(model.predict([[0, 1]]) != model.predict([[11, 3]]))
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    update: bool = True
    metric: KMeansMetric = "euclidean"
    missing: MissingRows = "error"
    verbose: int = 0
    random_state: RandomState = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = validation.constraints(
        "n_clusters metric missing verbose random_state", update=["boolean"]
    )

    @validation.checked_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything and learn from a whole stream.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or iterable of them
            A single table is cut into batches of consecutive rows, about equally large: for each
            cluster one, or two if centres move. `kvariates.sources.blocks` makes batches of files.
            If reading a batch fails, the batches before it are kept, and the error says how many
            rows they have.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            For a single table. A row of weight w counts as w rows.

        Returns
        -------
        self
        """
        report = FitReport(self, 1)
        fit_all = self._fit_table if is_table(X) else self._fit_batches
        with report.phase("batches") as told:
            fit_all(X, sample_weight, told)
        report.end()
        return self

    @validation.all_or_nothing
    def _take_in(self, X: Any, sample_weight: Any) -> None:
        self._learn(self._checked(X, sample_weight, begun=self._state is not None))

    @validation.all_or_nothing
    def _fit_table(self, X: Any, sample_weight: Any, report: Report | None) -> None:
        table = self._checked(X, sample_weight, begun=False)
        X, weight = table.X, table.weight
        if weight is not None:  # rows of weight zero count as no rows
            X, weight = X[weight > 0], weight[weight > 0]
        n, k = X.shape[0], int(self.n_clusters)
        validation.enough_rows(n, k)
        self._forget()
        parts = min(n, 2 * k if self.update else k)
        edges = np.linspace(0, n, parts + 1).round().astype(int).tolist()
        for number, (first, stop) in enumerate(pairwise(edges), 1):
            part = None if weight is None else weight[first:stop]
            self._learn(Batch(X[first:stop], part))
            self._tell(report, "rows after batch", number)
        self.n_rows_seen_, self.n_rows_dropped_ = table.X.shape[0], table.dropped
        self.labels_ = nearest_centers(table.X, self._float64_centers)

    def _fit_batches(self, X: Any, sample_weight: Any, report: Report | None) -> None:
        with keeping_rows_seen(self):
            self._forget()
            self._take_in_all(self._batches(X, sample_weight), report)
            if isinstance(X, SourceBlocks) and self._state is not None:
                set_features(self, X, self.n_features_in_)
                self.n_rows_dropped_ += X.rows_dropped
            drawn = 0 if self._state is None else self._state.t
            if not drawn and isinstance(X, SourceBlocks):
                raise ValueError(validation.NO_WEIGHT)
            if drawn < self.n_clusters:
                raise ValueError(
                    f"The stream had rows for {drawn} centres only, one batch for each, and "
                    f"n_clusters={self.n_clusters}. Give more batches (of a source: a smaller "
                    "block_bytes), or lower n_clusters."
                )

    @property
    def _rows_seen(self) -> int:
        return 0 if self._state is None else int(self.n_rows_seen_)

    def _batches(self, X: Any, sample_weight: Any) -> Iterator[tuple[Any, Any]]:
        """Batches; the blocks of a source are cut, so that there are enough of them."""
        if not isinstance(X, SourceBlocks) or X.n_rows is None:
            yield from batches_of(X, sample_weight)
            return
        validation.no_weights(sample_weight)
        rows = max(1, X.n_rows // (2 * int(self.n_clusters)))
        for block in X:
            for first in range(0, block.X.shape[0], rows):
                part = slice(first, first + rows)
                weight = None if block.weight is None else block.weight[part]
                if weight is None or weight.any():  # rows without weight teach nothing
                    yield block.X[part], weight

    # -- one batch ---------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._state = None
        for name in ("labels_", "cluster_centers_"):
            self.__dict__.pop(name, None)

    def _learn(self, batch: Batch) -> None:
        if self._state is None:
            self._state = OnlineState.empty(self.n_features_in_)
            self._dtype, self._rng = batch.X.dtype, validation.generator(self.random_state)
            self.n_rows_seen_ = self.n_rows_dropped_ = 0
        self.n_rows_dropped_ += batch.dropped
        if batch.X.shape[0] == 0:
            return
        self.n_rows_seen_ += batch.X.shape[0]
        rule = OnlineRule(int(self.n_clusters), bool(self.update), self._objective.unit)
        self._store(rule.learn(self._state, Rows.of(batch.X), batch.weight, self._rng))

    def _store(self, state: OnlineState) -> None:
        self._state = state
        self.cluster_centers_ = state.centers.astype(self._dtype)
        self.__dict__.pop("labels_", None)  # of the rows of an earlier fit
        self.guarantee_, self.guarantee_lost_ = None, self._lost(state)
        if self.guarantee_lost_ is None:
            k = int(self.n_clusters)
            self.guarantee_ = guarantees.theorem_6(k, opt=None, varsigma=None, notes=(NOTE,))

    def _lost(self, state: OnlineState) -> str | None:
        if state.moved:
            return guarantees.LOST["moved"]
        return guarantees.LOST["not all drawn"] if state.t < self.n_clusters else None

    def __sklearn_is_fitted__(self) -> bool:
        return "cluster_centers_" in vars(self)
