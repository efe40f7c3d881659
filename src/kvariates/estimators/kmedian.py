"""KMedian: k medoids in any metric, behind scikit-learn's interface."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from kvariates import guarantees
from kvariates.certificates.certificate import Certificate
from kvariates.certificates.kmedian_certificate import certify
from kvariates.data.metric_spaces import CallableMetric, DistanceMatrix, MedoidSearchResult
from kvariates.data.metrics import EDGES, METRICS, metric_entry
from kvariates.estimators import metric_input, validation
from kvariates.estimators.callbacks import CallbackSupportMixin, FitReport
from kvariates.estimators.fit_record import FitRecord
from kvariates.estimators.fitted_medoids import FittedMedoids
from kvariates.estimators.metric_input import TriangleCheck, ValidatedPoints
from kvariates.estimators.validation import (
    Auto,
    DistanceFunction,
    Integers,
    MedianInit,
    MedianMetric,
    RandomState,
)
from kvariates.refining.medoid_search import SearchTask, Start, find_medoids, search_task
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.tables import documented


@documented(METRICS=METRICS, MEDOID_SEEDINGS=MEDOID_SEEDINGS)
@dataclass(eq=False, repr=False)
class KMedian(CallbackSupportMixin, FittedMedoids):
    """k-median clustering: the centres are points of the data, the cost is the sum of distances.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of medoids.
    metric : {<names of METRICS>} or callable, default="euclidean"
        The distance. A callable takes two rows of X, which may then be a list of anything, and
        returns a number.

        <list of METRICS>
    init : {<names of MEDOID_SEEDINGS>} or array-like of shape (n_clusters,), default="hst"
        Where the search starts. An array holds the numbers of the points to start from.

        <list of MEDOID_SEEDINGS>
    n_init : int, default=1
        Runs from different starts, of which the best is kept.
    n_restarts : "auto" or int, default="auto"
        Perturbations: when no swap lowers the cost, a few medoids are replaced at random and the
        search goes on from there; a worse result is dropped. 0 is plain local search. "auto" is 3
        where all distances fit into memory (or those of a sample), and 0 on a graph, where every
        restart takes as long as the search itself.
    max_swaps : int, default=None
        The most swaps in one search.
    certify : bool, default=False
        Compute ``certificate_``, a lower bound on the cost of any k medoids. Takes longer than the
        fit itself.
    verbose : int, default=0
        Print a line for every run, and for swaps and steps of the certificate. Where all distances
        fit into memory, the swaps of a run are made by one call and not reported.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.

    Attributes
    ----------
    medoid_indices_ : ndarray of shape (n_clusters,)
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The medoids' rows (a list if X is one); not for "precomputed" and "graph".
    labels_ : ndarray of shape (n_samples,)
        The number of every point's nearest medoid; -1 for a node of a graph that no medoid reaches.
    cluster_demand_ : ndarray of shape (n_clusters,) or None
        The sum of the demand of each cluster; None if all points count once.
    inertia_ : float
        The sum of distances of the demand to their medoids.
    n_swaps_ : int
        Swaps that helped, in the best run, including those of restarts that were dropped.
    guarantee_ : Guarantee or None
        Where no swap of a medoid for any other point helps: what follows from that, and what it
        assumes about the distances.
    guarantee_lost_ : str or None
        Why there is none: not all points were candidates, or the distances are no metric.
    certificate_ : Certificate
        "Within x % of optimal". Only with ``certify=True``.
    """

    n_clusters: int = 8
    _: KW_ONLY
    metric: MedianMetric | DistanceFunction = "euclidean"
    init: MedianInit | Integers = "hst"
    n_init: int = 1
    n_restarts: int | Auto = "auto"
    max_swaps: int | None = None
    certify: bool = False
    verbose: int = 0
    random_state: RandomState = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = validation.constraints(
        "n_clusters n_init certify verbose random_state",
        metric=[StrOptions(METRICS.keys()), callable],
        init=[StrOptions(MEDOID_SEEDINGS.keys()), "array-like"],
        n_restarts=[Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        max_swaps=[Interval(Integral, 0, None, closed="left"), None],
    )

    @validation.all_or_nothing
    @validation.checked_fit
    def fit(self, X: Any, y: Any = None, *, demand: Any = None, sample_weight: Any = None) -> Self:
        """Find the medoids.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), distances, sparse graph or sequence
            The points, as the metric wants them; medoids are chosen among all of them.
        y : ignored
        demand : array-like, default=None
            The points that count: their numbers (integers; one that is named twice counts twice),
            a mask, or a weight for every point (floats). None: all points, once.
        sample_weight : array-like of shape (n_samples,), default=None
            The demand as weights, by scikit-learn's name for them.

        Returns
        -------
        self : KMedian
        """
        points = self._validate(X, demand, sample_weight)
        space, weight = points.space, points.weight
        rng = validation.generator(self.random_state)
        report = FitReport(self, int(self.n_init) + bool(self.certify))
        task = self._task(points, rng)
        found = self._search(task, rng, report)
        if len(found.near.labels) < space.n:  # costs were measured at the demand only
            found = replace(found, near=space.two_nearest(found.medoids))
        labels, triangles = _reached_labels(points, found), _checked_triangles(points, task)
        certificate = None
        if self.certify:
            with report.phase("certify") as told:
                k = int(self.n_clusters)
                certificate = certify(space, k, found.near, weight, rng, report=told)
        self._store(points, found, labels, certificate)
        self._store_guarantee(points, found, triangles)
        report.end()
        return self

    def fit_predict(
        self, X: Any, y: Any = None, *, demand: Any = None, sample_weight: Any = None
    ) -> NDArray[np.int32]:
        """``fit(X).labels_``, with the parameters of `fit`."""
        return self.fit(X, demand=demand, sample_weight=sample_weight).labels_

    def fit_transform(
        self, X: Any, y: Any = None, *, demand: Any = None, sample_weight: Any = None
    ) -> NDArray[Any]:
        """Fit, and the distances of all points of X to the medoids."""
        self.fit(X, demand=demand, sample_weight=sample_weight)
        graph = metric_entry(self.metric).needs == EDGES
        return self.transform(np.arange(X.shape[0]) if graph else X)

    def _task(self, points: ValidatedPoints, rng: np.random.Generator) -> SearchTask:
        most = 10**9 if self.max_swaps is None else int(self.max_swaps)
        restarts = self.n_restarts
        if restarts == "auto":
            restarts = 3 if points.space.quick_swaps else 0
        return search_task(
            points.space, points.weight, int(self.n_clusters), restarts=int(restarts),
            max_swaps=most, rng=rng,
        )  # fmt: skip

    def _search(
        self, task: SearchTask, rng: np.random.Generator, report: FitReport
    ) -> MedoidSearchResult:
        start = self._start(task.space.n, rng)

        def run() -> MedoidSearchResult:
            with report.phase("run") as told:
                found = find_medoids(replace(task, report=told), start)
            report.say(f"cost {found.cost:.6g} after {found.n_swaps} swaps")
            return found

        return min((run() for _ in range(self.n_init)), key=lambda run: run.cost)

    def _start(self, n: int, rng: np.random.Generator) -> Start:
        k = int(self.n_clusters)
        if not isinstance(self.init, str):
            return metric_input.given_medoids(self.init, n, k)
        seed = MEDOID_SEEDINGS[self.init].run
        return lambda space, weight: seed(space, k, weight, rng)

    def _fit_record(self) -> FitRecord:
        return replace(
            super()._fit_record(), inertia=self.inertia_, n_iter=self.n_swaps_, steps="swaps",
            demand=self.cluster_demand_, certificate=vars(self).get("certificate_"),
            certifiable=True, guarantee=self.guarantee_, lost=self.guarantee_lost_,
        )  # fmt: skip

    def _store(
        self, points: ValidatedPoints, found: MedoidSearchResult, labels: NDArray[np.int32],
        certificate: Certificate | None,
    ) -> None:  # fmt: skip
        self.__dict__.pop("certificate_", None)  # of an earlier fit
        if certificate is not None:
            self.certificate_ = certificate
        self.labels_ = labels
        self.cluster_demand_ = _demand_of_clusters(points, labels, len(found.medoids))
        self.inertia_, self.n_swaps_ = found.cost, found.n_swaps
        self._store_medoids(points, found.medoids)
        distinct = len(np.unique(labels[labels >= 0]))
        reason = "Some medoids are at distance 0 of others."
        validation.warn_of_few_clusters(distinct, self.n_clusters, reason)

    def _store_guarantee(
        self, points: ValidatedPoints, found: MedoidSearchResult, triangles: TriangleCheck
    ) -> None:
        lost = None if found.local_optimum else guarantees.LOST["not a local optimum"]
        self.guarantee_lost_, self.guarantee_ = triangles.lost or lost, None
        if self.guarantee_lost_ is None:
            total = float(points.space.n if points.weight is None else points.weight.sum())
            self.guarantee_ = guarantees.local_optimum(
                found.cost, len(found.medoids), slack=4 * total * triangles.error,
                assumes=triangles.assumed, certificate=vars(self).get("certificate_"),
            )  # fmt: skip


def _demand_of_clusters(
    points: ValidatedPoints, labels: NDArray[np.int32], k: int
) -> NDArray[np.float64] | None:
    if points.weight is None:
        return None
    reached = labels >= 0
    return np.bincount(labels[reached], points.weight[reached], k).astype(np.float64)


def _checked_triangles(points: ValidatedPoints, task: SearchTask) -> TriangleCheck:
    """What is known about the triangles of the metric, once the search has computed distances."""
    known, matrix = points.triangles, task.problem.space
    if not isinstance(points.space, CallableMetric) or not isinstance(matrix, DistanceMatrix):
        return known
    if known.lost or not task.problem.all_measured:
        return known
    return metric_input.check_triangles(matrix, "metric", known)


def _reached_labels(points: ValidatedPoints, found: MedoidSearchResult) -> NDArray[np.int32]:
    """The labels, with a warning and -1 for nodes that no medoid reaches, if they have no demand.

    ValueError if one of them has: the search ended before every component had a medoid.
    """
    unreached = ~np.isfinite(found.near.cost)
    if not unreached.any():
        return found.near.labels
    demand = unreached if points.weight is None else unreached & (points.weight > 0)
    if demand.any():
        raise ValueError(
            f"No medoid reaches node {int(np.argmax(demand))}: its component has none. Allow more "
            "swaps, or start with a node of every component."
        )
    count = int(np.count_nonzero(unreached))
    validation.warn(
        f"{count} of {len(unreached)} nodes are not connected to any medoid; their label is -1. "
        "None of them has demand."
    )
    return np.where(unreached, np.int32(-1), found.near.labels)
