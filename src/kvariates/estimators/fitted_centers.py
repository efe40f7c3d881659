"""What estimators with fitted centres share: predict, transform and score."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)

from kvariates.data.rows import Labels, Rows, total_cost
from kvariates.estimators import validation
from kvariates.objectives.objective import Objective, SquaredEuclidean


class FittedCenters(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """An estimator with `cluster_centers_` under an objective."""

    _objective: Objective = SquaredEuclidean()
    cluster_centers_: NDArray[Any]

    @abstractmethod
    def _fitted_rows(self, X: Any) -> Rows:
        """New rows, checked, in the objective's coordinates."""

    def predict(self, X: Any) -> Labels:
        """The index of the nearest centre of every row of X: ndarray of shape (n_samples,)."""
        return self._objective.nearest(self._fitted_rows(X), self._float64_centers)

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances of every row to all centres: ndarray of shape (n_samples, n_clusters)."""
        return self._objective.distances(self._fitted_rows(X), self._float64_centers)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted cost of the rows of X at their nearest centres."""
        rows, centers = self._fitted_rows(X), self._float64_centers
        weight = validation.weights(sample_weight, rows.X)
        labels = self._objective.nearest(rows, centers)
        return -total_cost(self._objective.costs(rows, centers, labels), weight)

    @property
    def _float64_centers(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
