"""VerticalKMeans: k-means over parties that hold different columns of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from kvariates import guarantees
from kvariates.data.rows import Labels
from kvariates.estimators import input_errors, validation
from kvariates.estimators.callbacks import CallbackSupportMixin, FitReport
from kvariates.estimators.cluster_kmeans import CalledBack
from kvariates.estimators.fit_record import FitRecord, FittedHtml
from kvariates.estimators.validation import RandomState
from kvariates.fitting import NOBODY, FitOptions
from kvariates.peers.vertical import Aggregator, InProcessParties, VerticalSession
from kvariates.peers.vertical_party import VerticalParty
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import LloydResult, Step


@dataclass(eq=False, repr=False)
class VerticalKMeans(CallbackSupportMixin, FittedHtml, ClusterMixin, BaseEstimator):
    """k-means over parties that hold different columns of the same rows.

    All parties and the aggregator are in this process, to study the protocol. They exchange the
    messages that they would exchange over a network: the aggregator is given the sums of the
    parties' squared distances under fresh masks, and no distance of a single party. The clustering
    is that of the pooled columns, up to the error of the encoding (``transcript_.error``). The
    first centres are drawn by plain k-means++ and refined by Lloyd.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    n_init : int, default=1
        Runs, of which the one of lowest inertia is kept.
    max_iter : int, default=300
        The most iterations of a run.
    tol : float, default=1e-4
        A run stops when the centres' squared shift is at most `tol` times the mean variance of
        all columns.
    verbose : int, default=0
        Whether to print a line for every iteration.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the drawn rows. Keys and masks are always new.
    block_bytes : int, default=2**22
        Masked matrices are sent in blocks of rows with at most so many bytes.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The nearest centre of every row; ties go to the lowest index.
    cluster_centers_ : list of ndarray of shape (n_clusters, n_columns)
        Each party's part of the centres. In a real setting, each is known to its party only.
    inertia_ : float
        The sum of squared distances to the nearest centre.
    n_iter_ : int
        Iterations of the best run.
    seed_rows_ : ndarray of shape (n_clusters,)
        The rows that the first centres of the best run were.
    transcript_ : Transcript
        Rounds, messages, bytes, and what each side learns.
    guarantee_ : Guarantee
        The theorem that holds for this fit.

    Examples
    --------
    >>> import numpy as np
    >>> from kvariates import VerticalKMeans
    >>> ages = np.array([[31.0], [30.0], [62.0], [60.0]])
    >>> blood = np.array([[5.1, 0.9], [5.0, 1.0], [7.9, 2.1], [8.1, 2.0]])
    >>> model = VerticalKMeans(n_clusters=2, random_state=0).fit([ages, blood])
    >>> model.labels_[0] == model.labels_[1], model.labels_[0] == model.labels_[2]
    (np.True_, np.False_)
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_init: int = 1
    max_iter: int = 300
    tol: float = 1e-4
    verbose: int = 0
    random_state: RandomState = None
    block_bytes: int = 2**22

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = validation.constraints(
        "n_clusters n_init max_iter tol verbose random_state",
        block_bytes=[Interval(Integral, 8, None, closed="left")],
    )

    @validation.all_or_nothing
    @validation.checked_fit
    def fit(self, X: Any, ids: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : sequence of array-like of shape (n_samples, n_columns)
            The columns of each party, two parties at least. All have the same rows in the same
            order.
        ids : sequence of array-like of shape (n_samples,) or None
            For each party a key of each row, to check that the rows are the same.

        Returns
        -------
        self
        """
        columns = _columns(X)
        ids = [None] * len(columns) if ids is None else list(ids)
        if len(ids) != len(columns):
            raise ValueError(
                f"ids are given for {len(ids)} parties and X for {len(columns)}; give ids of the "
                "rows for every party."
            )
        parties = [_party(i, *own) for i, own in enumerate(zip(columns, ids, strict=True))]
        aggregator = self._aggregator(parties)
        report = FitReport(self, 1)
        with report.phase("iterations") as told:
            options = FitOptions(
                int(self.n_clusters), "d2", n_init=int(self.n_init), max_iter=int(self.max_iter),
                tol=float(self.tol),
            )  # fmt: skip
            watch = NOBODY if told is None else CalledBack(partial(_tell, told))
            result = aggregator.fit(options, validation.generator(self.random_state), watch)
        self._store(result)
        self.cluster_centers_ = [party.centers for party in parties]
        self.transcript_ = aggregator.session.transcript
        report.end()
        return self

    def predict(self, X: Any) -> Labels:
        """The index of the nearest centre of every row: ndarray of shape (n_samples,).

        X : the columns of each party, as in `fit`. The messages are those of one iteration.
        """
        check_is_fitted(self)
        columns = _columns(X)
        expected = [centers.shape[1] for centers in self.cluster_centers_]
        found = [own.shape[1] for own in columns]
        if found != expected:
            raise ValueError(
                f"The parties have {found} columns, but the model was fitted on {expected}; give "
                "the same columns in the same order."
            )
        pairs = zip(columns, self.cluster_centers_, strict=True)
        parties = [VerticalParty(own, centers=centers) for own, centers in pairs]
        aggregator = self._aggregator(parties)
        return aggregator.predict(len(self.cluster_centers_[0]))

    def _aggregator(self, parties: list[VerticalParty]) -> Aggregator:
        return Aggregator(VerticalSession(InProcessParties(parties), self.block_bytes))

    def _store(self, result: LloydResult) -> None:
        self.labels_, self.inertia_, self.n_iter_ = result.labels, result.inertia, result.n_iter
        self.seed_rows_ = result.centers
        self.guarantee_ = guarantees.plain_seeding(int(self.n_clusters), certifiable=False)
        validation.warn_of_few_clusters(len(np.unique(result.labels)), self.n_clusters)

    def _fit_record(self) -> FitRecord:
        return FitRecord(
            type(self).__name__, "k-means over several holders of columns", int(self.n_clusters),
            self.cluster_centers_, labels=self.labels_, inertia=self.inertia_, n_iter=self.n_iter_,
            guarantee=self.guarantee_, transcript=self.transcript_,
        )  # fmt: skip


def _tell(report: Report, step: Step) -> bool:
    """Report an iteration and its cost."""
    return report(Progress("iteration", step.iteration + 1, step.statistics.cost))


def _columns(X: Any) -> list[Any]:
    """The columns of each party, checked and converted."""
    if not isinstance(X, Sequence):
        raise ValueError(
            f"X must be a list with the columns of each party; got {type(X).__name__}. "
            "Write fit([X_1, X_2])."
        )
    if len(X) < 2:
        raise ValueError(
            f"X holds the columns of {len(X)} party; two at least are needed, since the values of "
            "a single party would not be hidden."
        )
    return [_checked_columns(i, own) for i, own in enumerate(X)]


def _checked_columns(number: int, columns: Any) -> Any:
    name = f"X[{number}]"
    try:
        with input_errors.one_line(columns):
            return check_array(columns, dtype=np.float64, order="C", input_name=name)
    except (TypeError, ValueError) as error:
        if name in str(error):
            raise
        raise type(error)(f"Party {number}: {error}") from None


def _party(number: int, columns: Any, ids: Any) -> VerticalParty:
    try:
        return VerticalParty(columns, ids)
    except ValueError as error:
        raise ValueError(f"Party {number}: {error}") from None
