"""What fitted models of k-median have in common: input checks, predict, transform and score."""

from __future__ import annotations

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
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from kvariates.data.metric_spaces import Ints
from kvariates.data.metrics import DISTANCES, EDGES, OBJECTS, ROWS, metric_entry
from kvariates.estimators import metric_input
from kvariates.estimators.metric_input import ValidatedPoints


class FittedMedoids(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """A model with `metric`, `n_clusters`, `medoid_indices_` and, for rows, `cluster_centers_`."""

    metric: Any
    n_clusters: int
    medoid_indices_: Ints
    cluster_centers_: Any
    labels_: NDArray[np.int32]

    @property
    def _labels_of_points(self) -> NDArray[np.int32]:
        """The labels of the points of the fit."""
        return self.labels_

    def _validate(self, X: Any, demand: Any = None, sample_weight: Any = None) -> ValidatedPoints:
        """X as its metric wants it; `n_features_in_` is set."""
        if metric_entry(self.metric).needs == ROWS and not sparse.issparse(X):
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C")
        else:
            _check_feature_names(self, X, reset=True)
        points = metric_input.validated_points(
            X, self.metric, self.n_clusters, demand, sample_weight
        )
        if getattr(points.X, "ndim", 1) == 2:
            self.n_features_in_ = points.X.shape[1]
        return points

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
        if metric_entry(self.metric).needs == EDGES:
            nodes = np.asarray(X)
            if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
                raise ValueError("With metric='graph', predict takes numbers of nodes (integers).")
            of_points = self._labels_of_points
            if nodes.size and not 0 <= nodes.min() <= nodes.max() < len(of_points):
                raise ValueError(f"Nodes have numbers from 0 to {len(of_points) - 1}.")
            return np.asarray(of_points[nodes])
        nearest: NDArray[np.int32] = np.argmin(self.transform(X), axis=1).astype(np.int32)
        return nearest

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances from every row to the medoids: ndarray of shape (n_new, n_clusters)."""
        check_is_fitted(self)
        entry = metric_entry(self.metric)
        if entry.needs == EDGES:
            raise ValueError("With metric='graph' there is no transform; see predict.")
        if entry.needs == OBJECTS:
            X, centers = metric_input.objects(X), self.cluster_centers_
            wanted = getattr(self, "n_features_in_", 0)
            if getattr(X, "ndim", 0) == 2 and X.shape[1] != wanted:
                raise ValueError(f"X has {X.shape[1]} features, the fit had {wanted}.")
        else:
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
            if entry.needs == DISTANCES:
                return np.ascontiguousarray(X[:, self.medoid_indices_])
            centers = np.ascontiguousarray(self.cluster_centers_, dtype=X.dtype)
        space = entry.run(centers, X)
        return np.ascontiguousarray(space.distances(np.arange(len(self.medoid_indices_))).T)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of distances of the rows to their nearest medoids."""
        return -float(self.transform(X).min(axis=1).sum(dtype=np.float64))

    @property
    def _n_features_out(self) -> int:
        return len(self.medoid_indices_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        needs = metric_entry(self.metric).needs
        tags.input_tags.sparse = needs == EDGES
        tags.input_tags.pairwise = needs == DISTANCES
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def taken(X: Any, rows: Ints) -> Any:
    """Rows of an array, or entries of a list."""
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]
