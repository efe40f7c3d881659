"""OnlineKMeans: OLk-means++ for rows that arrive in batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from kvariates import guarantees
from kvariates.data.rows import F64, Rows
from kvariates.estimators import batch_input, validation
from kvariates.estimators.fitted_centers import FittedCenters
from kvariates.streaming.online import OnlineRule, OnlineState

NOTE = (
    "opt and varsigma are those of all rows of the stream, rows after the last drawn centre "
    "included. Nobody can know them before the stream ends. Large batches, each with rows of every "
    "cluster, make varsigma large."
)


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Clean rows, their weights, and how many rows were dropped."""

    X: Any
    weight: F64 | None
    dropped: int = 0

    def of_positive_weight(self) -> CheckedRows:
        """Without the rows of weight zero, which count as no rows."""
        if self.weight is None or self.weight.all():
            return self
        kept = np.flatnonzero(self.weight)
        return CheckedRows(self.X[kept], self.weight[kept])


class OnlineKMeans(FittedCenters):
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
    missing : {"error", "drop"}, default="error"
        What to do with rows that contain NaN when learning: raise an error, or leave them out and
        count them.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from. It is used from the first batch on, until `fit` starts
        again.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_centers, n_features)
        Fewer than `n_clusters` centres while fewer batches were seen. float32 if all batches were.
    labels_ : ndarray of shape (n_samples,)
        The nearest centre of every row. Only after `fit` of one table.
    guarantee_ : Guarantee or None
        Theorem 6 of the paper, in whose bound opt and varsigma are not known.
    guarantee_lost_ : str or None
        Why it does not hold.
    n_samples_seen_ : int
        The rows learned so far, dropped ones not included.
    n_samples_dropped_ : int
        The rows left out because of NaN.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "update": ["boolean"],
        "missing": [StrOptions(set(batch_input.MISSING))],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        update: bool = True,
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.update = update
        self.missing = missing
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineKMeans:
        """Forget everything and learn from a whole stream.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or iterable of them
            Batches, or ``sources.blocks(...)``. A table is cut into batches of consecutive rows,
            about equally large: `n_clusters` of them, and as many again if centres move. If a later
            batch fails, the model keeps what it learned before, and the error says so.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows of a table. Batches of an iterable have none; blocks have their own.

        Returns
        -------
        self
        """
        if batch_input.is_table(X):
            self._fit_table(X, sample_weight)
        elif sample_weight is None:
            self._fit_batches(X)
        else:
            raise ValueError(
                "sample_weight belongs to the rows of a table, and X is an iterable of batches; "
                "call partial_fit(batch, sample_weight=...) for each batch."
            )
        return self

    @validation.all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineKMeans:
        """Learn from the next batch: draw a centre from it, or move the centres.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A batch without rows is ignored.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows.

        Returns
        -------
        self
        """
        self._learn(batch_input.Batch(X, sample_weight), first=not hasattr(self, "n_features_in_"))
        return self

    @validation.all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_table(self, X: Any, sample_weight: Any) -> None:
        rows = self._checked(X, sample_weight, reset=True)
        counted = rows.of_positive_weight()
        n, k = counted.X.shape[0], int(self.n_clusters)
        if n < k:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}.")
        self._start()
        for part in batch_input.parts(
            counted.X, counted.weight, min(n, 2 * k if self.update else k)
        ):
            self._step(CheckedRows(part.X, part.sample_weight))
        self.n_samples_seen_, self.n_samples_dropped_ = rows.X.shape[0], rows.dropped
        self.labels_ = Rows.of(rows.X).nearest(self._float64_centers)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_batches(self, source: Iterable[Any]) -> None:
        first = True
        try:
            for batch in batch_input.batches(source):
                if not batch_input.is_empty(batch.X):
                    self._learn_or_nothing(batch, first)
                    first = False
        except Exception as error:
            if not first:
                error.add_note(
                    f"OnlineKMeans keeps what it learned from the {self.n_samples_seen_} rows "
                    "before; partial_fit goes on from there."
                )
            raise
        if first:
            raise ValueError("The iterable has no batch with rows; give at least one.")
        if self._state.t < self.n_clusters:
            raise ValueError(
                f"The stream had rows for {self._state.t} centres only, one batch for each, and "
                f"n_clusters={self.n_clusters}. Give more batches, or lower n_clusters."
            )

    @validation.all_or_nothing
    def _learn_or_nothing(self, batch: batch_input.Batch, first: bool) -> None:
        self._learn(batch, first=first)

    # -- one batch ---------------------------------------------------------------------------------

    def _learn(self, batch: batch_input.Batch, *, first: bool) -> None:
        if batch_input.is_empty(batch.X):
            return
        rows = self._checked(batch.X, batch.sample_weight, reset=first)
        if first:
            self._start()
        self._forget("labels_")  # of the rows of an earlier fit
        self._step(rows)

    def _start(self) -> None:
        self._forget("labels_", "cluster_centers_")
        self._state = OnlineState.empty(self.n_features_in_)
        self._rng = validation.generator(self.random_state)
        self._dtype = np.dtype(np.float32)
        self.n_samples_seen_ = self.n_samples_dropped_ = 0

    def _forget(self, *names: str) -> None:
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _step(self, rows: CheckedRows) -> None:
        self.n_samples_dropped_ += rows.dropped
        if rows.X.shape[0] == 0:
            return
        self.n_samples_seen_ += rows.X.shape[0]
        self._dtype = np.result_type(self._dtype, rows.X.dtype)
        rule = OnlineRule(int(self.n_clusters), bool(self.update))
        self._store(rule.learn(self._state, Rows.of(rows.X), rows.weight, self._rng))

    def _store(self, state: OnlineState) -> None:
        self._state = state
        self.cluster_centers_ = state.centers.astype(self._dtype)
        self.guarantee_, self.guarantee_lost_ = None, self._lost(state)
        if self.guarantee_lost_ is None:
            k = int(self.n_clusters)
            self.guarantee_ = guarantees.theorem_6(k, opt=None, varsigma=None, notes=(NOTE,))

    def _lost(self, state: OnlineState) -> str | None:
        if state.moved:
            return guarantees.LOST["moved"]
        return guarantees.LOST["not all drawn"] if state.t < self.n_clusters else None

    # -- validation --------------------------------------------------------------------------------

    def _checked(self, X: Any, sample_weight: Any, *, reset: bool) -> CheckedRows:
        X = self._validated(X, reset=reset, nan=self.missing == "drop")
        weight = validation.weights(sample_weight, X)
        given = X.shape[0]
        if self.missing == "drop":
            kept = batch_input.complete_rows(X)
            if len(kept) < given:
                X, weight = X[kept], None if weight is None else weight[kept]
                weight = validation.weights(weight, X) if len(kept) else None
        Rows.of(X).check_squares()
        return CheckedRows(X, weight, given - X.shape[0])

    def _validated(self, X: Any, *, reset: bool, nan: bool = False) -> Any:
        validation.check_sparse(X)
        finite = "allow-nan" if nan else True
        options = {**validation.CSR_OR_DENSE, "ensure_all_finite": finite}
        return validation.canonical(validate_data(self, X, reset=reset, **options))

    def _fitted_rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        rows = Rows.of(self._validated(X, reset=False))
        rows.check_squares()
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cluster_centers_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
