"""What estimators with fitted centres share: predict, transform and score."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import Floats, Labels, Rows, check_sparse, total_cost
from kvariates.estimators import input_errors, validation
from kvariates.estimators.block_results import (
    BlockDistances,
    BlockLabels,
    CoordinateBlocks,
    FittedColumns,
    cost_of_blocks,
)
from kvariates.estimators.fit_record import FitRecord, FittedHtml
from kvariates.objectives.objective import Objective, SquaredEuclidean


class NoLabels:
    """`labels_` of a model that holds none: AttributeError in one line."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        raise AttributeError(
            f"this {type(model).__name__} holds no labels; predict(X) computes them. Labels of "
            "blocks and of Dask collections are not copied or saved with a model.",
            name="labels_", obj=model,
        )  # fmt: skip


class FittedCenters(
    FittedHtml, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """An estimator with `cluster_centers_` under an objective."""

    _in_words = "k-means"  # what it does, for reports
    _objective: Objective = SquaredEuclidean()
    n_clusters: int
    cluster_centers_: NDArray[Any]
    labels_: Any = NoLabels()

    def __getstate__(self) -> dict[str, Any]:
        """Without labels that are computed when they are read: they hold the rows of the fit."""
        state: dict[str, Any] = super().__getstate__()
        kept = isinstance(state.get("labels_"), np.ndarray)
        return {name: value for name, value in state.items() if kept or name != "labels_"}

    def _fit_record(self) -> FitRecord:
        labels = vars(self).get("labels_")
        return FitRecord(
            type(self).__name__, self._in_words, int(self.n_clusters), self.cluster_centers_,
            labels=labels if isinstance(labels, np.ndarray) else None,
        )  # fmt: skip

    def _validated(self, X: Any, *, reset: bool) -> Any:
        check_sparse(X)
        with input_errors.one_line(X):
            X = validate_data(self, X, reset=reset, **validation.row_options(X))
        return validation.canonical(X)

    def _fitted_rows(self, X: Any) -> Rows:
        """New rows, checked, in the objective's coordinates."""
        check_is_fitted(self)
        rows = self._objective.rows(self._validated(X, reset=False))
        rows.check_squares()
        return rows

    @overload
    def predict(self, X: SourceBlocks) -> BlockLabels: ...

    @overload
    def predict(self, X: Any) -> Labels: ...

    def predict(self, X: Any) -> Any:
        """The index of the nearest centre of every row of X: ndarray of shape (n_samples,).

        Limits on the sizes of clusters, ``KMeans(size_max=...)``, do not apply. Of blocks: an
        iterable with such an array for each block.
        """
        if isinstance(X, SourceBlocks):
            return BlockLabels(self._fitted_blocks(X), self._float64_centers)
        return self._objective.nearest(self._fitted_rows(X), self._float64_centers)

    @overload
    def transform(self, X: SourceBlocks) -> BlockDistances: ...

    @overload
    def transform(self, X: Any) -> Floats: ...

    def transform(self, X: Any) -> Any:
        """Distances of every row to all centres: ndarray of shape (n_samples, n_clusters).

        Of blocks: an iterable with such an array for each block.
        """
        if isinstance(X, SourceBlocks):
            return BlockDistances(self._fitted_blocks(X), self._float64_centers)
        return self._objective.distances(self._fitted_rows(X), self._float64_centers)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted cost of the rows of X at their nearest centres."""
        if isinstance(X, SourceBlocks):
            validation.no_weights(sample_weight)
            return -cost_of_blocks(self._fitted_blocks(X), self._float64_centers)
        rows, centers = self._fitted_rows(X), self._float64_centers
        weight = validation.weights(sample_weight, rows.X)
        labels = self._objective.nearest(rows, centers)
        return -total_cost(self._objective.costs(rows, centers, labels), weight)

    def _fitted_blocks(self, source: SourceBlocks) -> CoordinateBlocks:
        check_is_fitted(self)
        columns = FittedColumns.of(self)
        columns.check_names(source)
        return CoordinateBlocks(source, self._objective, columns)

    @property
    def _float64_centers(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
