"""What fitted models of k-median have in common: input checks, predict, transform and score."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_array
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from kvariates.certificates.certificate import Certificate
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import Ints
from kvariates.data.metrics import (
    DISTANCES,
    EDGES,
    OBJECTS,
    PLACES,
    ROWS,
    SPARSE_ROWS,
    WITH_CENTERS,
    check_name,
    metric_entry,
)
from kvariates.estimators import input_errors, metric_input
from kvariates.estimators.fit_record import FitRecord, FittedHtml
from kvariates.estimators.metric_input import ValidatedPoints


class FittedMedoids(
    FittedHtml, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """A model with `metric`, `n_clusters`, `medoid_indices_` and, for rows, `cluster_centers_`."""

    _in_words = "k-median"  # what it does, for reports
    metric: Any
    n_clusters: int
    medoid_indices_: Ints
    cluster_centers_: Any
    labels_: NDArray[np.int32]
    certificate_: Certificate
    _graph: Any  # edge lengths

    def _fit_record(self) -> FitRecord:
        found = vars(self)
        return FitRecord(
            type(self).__name__, self._in_words, int(self.n_clusters),
            found.get("cluster_centers_"), self.metric, self.medoid_indices_,
            found.get("_graph"), self._labels_of_points,
        )  # fmt: skip

    def _validate_params(self) -> None:
        check_name(self.metric)
        super()._validate_params()

    @property
    def _labels_of_points(self) -> NDArray[np.int32]:
        """The labels of the points of the fit."""
        return self.labels_

    def _validate(self, X: Any, demand: Any = None, sample_weight: Any = None) -> ValidatedPoints:
        """X as its metric wants it; `n_features_in_` is set."""
        check: Callable[..., Any] = check_array
        if metric_entry(self.metric).needs in (ROWS, PLACES):
            check = partial(validate_data, self, reset=True)
        else:
            # A callable takes anything.
            with nullcontext() if callable(self.metric) else input_errors.one_line(X):
                _check_feature_names(self, X, reset=True)
        points = metric_input.validated_points(
            X, self.metric, self.n_clusters, demand, sample_weight, check
        )
        if getattr(points.X, "ndim", 1) == 2:
            self.n_features_in_ = points.X.shape[1]
        return points

    @property
    def _takes_sparse(self) -> bool:
        return not callable(self.metric) and self.metric in SPARSE_ROWS

    def _store_medoids(self, points: ValidatedPoints, medoids: Ints) -> None:
        """Keep the medoids, and their rows or the graph, for `predict` and `transform`."""
        for name in ("cluster_centers_", "_graph"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.medoid_indices_ = medoids
        needs = metric_entry(self.metric).needs
        if needs in WITH_CENTERS:
            self.cluster_centers_ = taken(points.X, medoids)
        elif needs == EDGES:
            self._graph = points.X

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The number of the nearest medoid of every row.

        Parameters
        ----------
        X : array-like
            New rows; with "precomputed", distances from new points to the medoids, shape
            (n_new, n_clusters), or to all points of the fit, shape (n_new, n_samples); with
            "graph", numbers of nodes.

        Returns
        -------
        labels : ndarray of shape (n_new,)
        """
        check_is_fitted(self)
        if metric_entry(self.metric).needs == EDGES:
            return np.asarray(self._labels_of_points[self._checked_nodes(X)])
        nearest: NDArray[np.int32] = np.argmin(self.transform(X), axis=1).astype(np.int32)
        return nearest

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances from every row of X to the medoids: ndarray of shape (n_new, n_clusters).

        X is as in `predict`. On a graph the distance to a medoid that cannot be reached is
        infinite.
        """
        check_is_fitted(self)
        entry = metric_entry(self.metric)
        if entry.needs == EDGES:
            return self._graph_distances(self._checked_nodes(X))
        if entry.needs == DISTANCES:
            return self._given_distances(X)
        if entry.needs == OBJECTS:
            X, centers = metric_input.objects(X), self.cluster_centers_
            wanted = vars(self).get("n_features_in_", 0)
            if getattr(X, "ndim", 0) == 2 and X.shape[1] != wanted:
                raise ValueError(f"X has {X.shape[1]} features, the fit had {wanted}.")
        else:
            check = partial(validate_data, self, reset=False)
            X = metric_input.checked_rows(X, check, sparse_allowed=self._takes_sparse)
            centers = np.ascontiguousarray(self.cluster_centers_, dtype=X.dtype)
        space = entry.run(centers, X)
        far = space.distances(np.arange(len(self.medoid_indices_))).T
        return np.ascontiguousarray(far, dtype=X.dtype if entry.needs == PLACES else far.dtype)

    def _checked_nodes(self, X: Any) -> Ints:
        nodes, count = np.asarray(X), len(self._labels_of_points)
        if sparse.issparse(X) or nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise ValueError(
                "With metric='graph', predict and transform take numbers of nodes (integers): for "
                f"all nodes, np.arange({count})."
            )
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < count:
            raise ValueError(f"Nodes have numbers from 0 to {count - 1}.")
        return nodes.astype(np.int64)

    def _graph_distances(self, nodes: Ints) -> NDArray[np.float64]:
        different, place = np.unique(nodes, return_inverse=True)
        far = Graph(self._graph).distances(self.medoid_indices_, different)
        return np.ascontiguousarray(far.T[place])

    def _given_distances(self, X: Any) -> NDArray[Any]:
        """The columns of the medoids, of a matrix of distances from new points."""
        X = metric_input.checked_rows(X, check_array, sparse_allowed=False)
        k, n = len(self.medoid_indices_), int(self.n_features_in_)
        if X.shape[1] == n:
            return np.ascontiguousarray(X[:, self.medoid_indices_])
        if X.shape[1] == k:
            return np.asarray(X)
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {n} features as "
            f"input, or {k}: with metric='precomputed', X holds distances from new points to all "
            f"{n} points of the fit, or to the {k} medoids alone, in the order of medoid_indices_."
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of distances of the rows to their nearest medoids."""
        return -float(self.transform(X).min(axis=1).sum(dtype=np.float64))

    @property
    def _n_features_out(self) -> int:
        return len(self.medoid_indices_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        needs = metric_entry(self.metric).needs
        tags.input_tags.sparse = needs == EDGES or self._takes_sparse
        tags.input_tags.pairwise = needs == DISTANCES
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def taken(X: Any, rows: Ints) -> Any:
    """Rows of an array, as a dense array, or entries of a list."""
    if sparse.issparse(X):
        return X[rows].toarray()
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]
