"""KMedian: k medoids in any metric, behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from kvariates import guarantees
from kvariates.certificates.certificate import certify
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import CallableMetric, MetricSpace, Vectors
from kvariates.data.rows import unit_rows
from kvariates.estimators import metric_input, validation
from kvariates.refining import medoid_search as searching
from kvariates.refining.swaps import MedoidSearchResult
from kvariates.seeding.hst import hst_seed
from kvariates.seeding.medoid_potential import kmedian_plusplus


class KMedian(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-median clustering: the centres are points of the data, the cost is the sum of distances.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of medoids.
    metric : {"euclidean", "manhattan", "cosine", "precomputed", "graph"} or callable, \
default="euclidean"
        "precomputed": X is a square matrix of distances. "graph": X is a sparse symmetric matrix
        of edge lengths, and distances are those of shortest paths, never all of them at once. A
        callable takes two rows of X (which may then be a list of anything) and returns a number.
    init : {"hst", "k-median++", "random"} or array-like of shape (n_clusters,), default="hst"
        Where the search starts: on a random tree over the points, at points drawn by their
        distance to those before, at points drawn uniformly; or at the points of these numbers.
    n_init : int, default=1
        Runs from different starts, of which the best is kept.
    n_restarts : "auto" or int, default="auto"
        Perturbations: after the search has settled, a few medoids are replaced at random and it
        goes on from there; what is worse is taken back. 0 is plain local search. "auto" is 3
        where all distances fit into memory (or those of a sample), and 0 on a graph, where every
        restart takes as long as the search itself.
    max_swaps : int, default=None
        The most swaps in one search.
    certify : bool, default=False
        Compute ``certificate_``, a lower bound on the cost of any k medoids. Takes longer than the
        fit itself.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.

    Attributes
    ----------
    medoid_indices_ : ndarray of shape (n_clusters,)
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The medoids' rows (a list if X is one); not for "precomputed" and "graph".
    labels_ : ndarray of shape (n_samples,)
        The number of every point's nearest medoid.
    inertia_ : float
        The sum of distances of the demand to their medoids.
    n_swaps_ : int
        Swaps that helped, in the best run, those that a restart took back included.
    guarantee_ : Guarantee or None
        Where no swap of a medoid for any other point helps: at most 5 times the optimum.
    guarantee_lost_ : str or None
        Why there is none: not all points were candidates, or the distances are no metric.
    certificate_ : Certificate
        "Within x % of optimal". Only with ``certify=True``.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({*metric_input.NAMES}), callable],
        "init": [StrOptions({"hst", "k-median++", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "max_swaps": [Interval(Integral, 0, None, closed="left"), None],
        "certify": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str | Callable[[Any, Any], float] = "euclidean",
        init: Any = "hst",
        n_init: int = 1,
        n_restarts: Any = "auto",
        max_swaps: int | None = None,
        certify: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.n_restarts = n_restarts
        self.max_swaps = max_swaps
        self.certify = certify
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, *, demand: Any = None, sample_weight: Any = None
    ) -> KMedian:
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
        for name in ("certificate_", "cluster_centers_"):  # of an earlier fit
            if hasattr(self, name):
                delattr(self, name)
        given = self._checked(X)
        X = given.X
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n < self.n_clusters:
            raise ValueError(f"n_samples={n} should be >= n_clusters={self.n_clusters}.")
        weight = metric_input.demand(demand, sample_weight, n)
        space = metric_input.space_of(X, self.metric)
        if isinstance(space, Graph):
            metric_input.check_components(space, weight, self.n_clusters)
        rng = validation.generator(self.random_state)
        found = self._best(space, weight, rng)
        near = found.near if len(found.near.labels) == n else space.two_nearest(found.medoids)
        if not np.isfinite(found.cost):
            node = int(np.argmax(~np.isfinite(near.cost) & (1 if weight is None else weight > 0)))
            raise ValueError(
                f"No centre reaches node {node}: its component has none. Allow more swaps, or "
                "start with a node of every component."
            )
        self.medoid_indices_ = found.medoids
        self.labels_ = near.labels
        self.inertia_ = found.cost
        self.n_swaps_ = found.n_swaps
        self._promise(found, given.proper)
        self._keep_centers(X)
        if self.certify:
            self.certificate_ = certify(space, found.medoids, near, weight, rng=rng)
        self._warn_of_duplicates(near.labels)
        return self

    def _promise(self, found: MedoidSearchResult, proper: bool) -> None:
        lost = None if found.settled else "unsettled"
        lost = lost if proper else "not a metric"
        self.guarantee_ = None if lost else guarantees.local_optimum(found.cost)
        self.guarantee_lost_ = guarantees.LOST[lost] if lost else None

    def _checked(self, X: Any) -> metric_input.ValidatedPoints:
        if self.metric in metric_input.VECTORS and not sparse.issparse(X):
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C")
        else:
            _check_feature_names(self, X, reset=True)
        given = metric_input.validated_points(X, self.metric)
        if getattr(given.X, "ndim", 1) == 2:
            self.n_features_in_ = given.X.shape[1]
        return given

    def _best(
        self, space: MetricSpace, weight: Any, rng: np.random.Generator
    ) -> MedoidSearchResult:
        most = 10**9 if self.max_swaps is None else int(self.max_swaps)
        restarts = self.n_restarts
        if restarts == "auto":
            restarts = 0 if isinstance(space, Graph) else 3
        task = searching.search_task(space, weight, restarts=int(restarts), max_swaps=most, rng=rng)
        start = self._start(space.n, rng)
        runs = (searching.refine(task, start) for _ in range(self.n_init))
        return min(runs, key=lambda run: run.cost)

    def _start(self, n: int, rng: np.random.Generator) -> searching.Start:
        k = int(self.n_clusters)
        if not isinstance(self.init, str):
            return metric_input.points(self.init, n, k)
        if self.init == "hst":
            return lambda space, weight: hst_seed(space, k, weight, 1, rng)
        if self.init == "k-median++":
            return lambda space, weight: kmedian_plusplus(space, k, weight, 1, rng)
        return lambda space, _: rng.permutation(space.n)[:k].astype(np.int64)

    def _keep_centers(self, X: Any) -> None:
        if self.metric in ("precomputed", "graph"):
            return
        rows = self.medoid_indices_
        self.cluster_centers_ = X[rows] if hasattr(X, "shape") else [X[i] for i in rows]

    def _warn_of_duplicates(self, labels: Any) -> None:
        found = len(np.unique(labels))
        if found < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({found}) found smaller than n_clusters "
                f"({self.n_clusters}): some medoids are at distance 0 of others.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The number of the nearest medoid of every row.

        Parameters
        ----------
        X : array-like
            New rows; with "precomputed", distances from new points to all points of the fit,
            shape (n_new, n_samples); with "graph", numbers of nodes.

        Returns
        -------
        labels : ndarray of shape (n_new,)
        """
        check_is_fitted(self)
        if self.metric == "graph":
            nodes = np.asarray(X)
            if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
                raise ValueError("With metric='graph', predict takes numbers of nodes (integers).")
            if nodes.size and not 0 <= nodes.min() <= nodes.max() < len(self.labels_):
                raise ValueError(f"Nodes have numbers from 0 to {len(self.labels_) - 1}.")
            labels: NDArray[np.int32] = self.labels_[nodes]
            return labels
        nearest: NDArray[np.int32] = np.argmin(self.transform(X), axis=1).astype(np.int32)
        return nearest

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances from every row to the medoids: ndarray of shape (n_new, n_clusters)."""
        check_is_fitted(self)
        if self.metric == "graph":
            raise ValueError("With metric='graph' there is no transform; see labels_ and predict.")
        if callable(self.metric):
            rows = metric_input.rows(X)
            if getattr(rows, "ndim", 0) == 2 and rows.shape[1] != getattr(
                self, "n_features_in_", 0
            ):
                raise ValueError(
                    f"X has {rows.shape[1]} features, the fit had {self.n_features_in_}."
                )
            called = CallableMetric(self.cluster_centers_, self.metric, rows)
            return called.distances(np.arange(len(self.medoid_indices_))).T
        X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
        if self.metric == "precomputed":
            return np.ascontiguousarray(X[:, self.medoid_indices_])
        centers = np.ascontiguousarray(self.cluster_centers_, dtype=X.dtype)
        if self.metric == "cosine":
            X, centers = unit_rows(X), unit_rows(centers)
        far = Vectors(centers, self.metric, X).distances(np.arange(len(centers)))
        return np.ascontiguousarray(far.T)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of distances of the rows to their nearest medoids."""
        return -float(self.transform(X).min(axis=1).sum(dtype=np.float64))

    @property
    def _n_features_out(self) -> int:
        return len(self.medoid_indices_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric == "graph"
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
