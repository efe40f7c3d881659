"""What estimators with fitted centres share: predict, transform and score.

About blocks of rows they answer with arrays, one for each block, computed when they are read; about
an array on a GPU, if the estimator takes it, with arrays of the same library there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from kvariates.cuda.rows import CardRows, upload
from kvariates.data.blocks import Block, SourceBlocks, assign_blocks
from kvariates.data.rows import F64, Floats, Labels, Rows, check_sparse, joint_cost, total_cost
from kvariates.estimators import input_errors, validation
from kvariates.estimators.array_input import checked_small, gpu_of, is_small
from kvariates.estimators.callbacks import CallbackSupportMixin
from kvariates.estimators.device_input import (
    ON_CPU,
    OnCard,
    UserRows,
    check_squares,
    check_table,
    has_kernels,
    host_copy,
    nearest_on_card,
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
    cluster_centers_: Any  # a NumPy array, or one of the library of the X of the fit, on a GPU
    labels_: Any = NoLabels()

    def __getstate__(self) -> dict[str, Any]:
        """With NumPy arrays in place of those on a GPU, where a copy may find none.

        Without labels that are computed when they are read: they hold the rows of the fit.
        """
        state: dict[str, Any] = super().__getstate__()
        for name in ("cluster_centers_", "labels_"):
            if name in state:
                state[name] = host_copy(state[name])
        kept = isinstance(state.get("labels_"), np.ndarray)
        return {name: value for name, value in state.items() if kept or name != "labels_"}

    def _fit_record(self) -> FitRecord:
        labels = host_copy(vars(self).get("labels_"))
        return FitRecord(
            type(self).__name__, self._in_words, int(self.n_clusters),
            host_copy(self.cluster_centers_),
            labels=labels if isinstance(labels, np.ndarray) else None,
        )  # fmt: skip

    def _validated(self, X: Any, *, reset: bool, small: bool = False) -> Any:
        """X, checked and converted. `small`: arrays of SMALL_TYPES stay as they are."""
        check_sparse(X)
        with input_errors.one_line(X, small=small) as X:
            if small and is_small(X):
                return checked_small(X, partial(validate_data, self, reset=reset))
            X = validate_data(self, X, reset=reset, **validation.row_options(X))
        return validation.canonical(X)

    def _fitted_rows(self, X: Any) -> Rows:
        """New rows, checked, in the objective's coordinates."""
        check_is_fitted(self)
        if hasattr(self, "feature_names_in_") or not validation.is_plain(X, self.n_features_in_):
            X = self._validated(X, reset=False, small=self._objective == SquaredEuclidean())
        rows = self._objective.rows(X)
        rows.check_squares()
        return rows

    def _card_for(self, X: Any) -> Any:
        """The card on which a call about X runs; None: the processors, as in most estimators."""
        return None

    def _rows_on(self, card: Any, X: Any, *, reset: bool, small: bool) -> UserRows:
        """X, checked and converted, on a card. `small`: as in `_validated`."""
        if gpu_of(X) is None:
            return UserRows.of_host(self._validated(X, reset=reset, small=small), card)
        check_table(X, type(self).__name__)
        # The number of features is checked of zeros of this shape, which take no memory:
        # scikit-learn's validators would copy X to host memory.
        zeros = np.broadcast_to(0.0, tuple(X.shape))
        validate_data(self, zeros, reset=reset, skip_check_array=True)
        return UserRows.of_card(X, card, small=small)

    def _fitted_rows_on(self, card: Any, X: Any) -> tuple[UserRows, CardRows]:
        """New rows, checked; and in the objective's coordinates. ValueError without kernels."""
        check_is_fitted(self)
        self._check_kernels()
        small = self._objective == SquaredEuclidean()
        given = self._rows_on(card, X, reset=False, small=small)
        rows = given.coordinates(self._objective)
        check_squares(rows)
        return given, rows

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
        if (card := self._card_for(X)) is not None:
            given, rows = self._fitted_rows_on(card, X)
            return given.results(nearest_on_card(rows, self._float64_centers))
        return self._objective.nearest(self._fitted_rows(X), self._float_centers)

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
        if (card := self._card_for(X)) is not None:
            return self._distances_on(card, X)
        return self._objective.distances(self._fitted_rows(X), self._float_centers)

    def _distances_on(self, card: Any, X: Any) -> Any:
        (given, rows), unit = self._fitted_rows_on(card, X), self._objective.unit
        found = rows.distances(card.put(self._float64_centers), squared=unit)
        # A data frame, if the user has asked for one, is in host memory.
        frame = _get_output_config("transform", self)["dense"] != "default"
        out = given.results(found, on_host=frame)
        if unit:
            out /= 2  # ||x - c||^2 = 2 (1 - cos)
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted cost of the rows of X at their nearest centres."""
        if isinstance(X, SourceBlocks):
            validation.no_weights(sample_weight)
            blocks = self._fitted_blocks(X)
            nearest, costs = blocks.objective.nearest, blocks.objective.costs
            parts = assign_blocks(blocks, self._float64_centers, nearest, costs)
            return -joint_cost((part.cost, part.weight) for part in parts)
        if (card := self._card_for(X)) is not None:
            given, on_card = self._fitted_rows_on(card, X)
            weights, centers = given.weights(sample_weight), self._float64_centers
            cost = on_card.costs(card.put(centers), nearest_on_card(on_card, centers))
            total = on_card.total_cost(cost, upload(card, weights))
            return -self._objective.cost(total)
        rows, centers = self._fitted_rows(X), self._float64_centers
        weight = validation.weights(sample_weight, rows.X)
        labels = self._objective.nearest(rows, centers)
        return -total_cost(self._objective.costs(rows, centers, labels), weight)

    def _fitted_blocks(self, source: SourceBlocks) -> CoordinateBlocks:
        check_is_fitted(self)
        columns = FittedColumns.of(self)
        columns.check_names(source)
        measured: Any = self._objective
        if (card := self._card_for(source)) is not None:
            self._check_kernels()
            measured = OnCard(measured, card)
        return CoordinateBlocks(source, measured, columns)

    def _check_kernels(self) -> None:
        if not has_kernels(self._objective):
            raise ValueError(f"{self._objective.name} has no kernels for a GPU. {ON_CPU}")

    @property
    def _float_centers(self) -> Floats:
        """In float32 or float64. Nothing is kept of them: a user may write into the array."""
        centers = np.ascontiguousarray(host_copy(self.cluster_centers_))
        return centers if centers.dtype == np.float32 else centers.astype(np.float64, copy=False)

    @property
    def _float64_centers(self) -> F64:
        return np.ascontiguousarray(host_copy(self.cluster_centers_), dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class CentersOfRows(CallbackSupportMixin, FittedCenters):
    """An estimator that fits rows in memory, or blocks, with their weights."""

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self: ...

    def _labels_of_fit(self, X: Any) -> Any:
        return self.labels_

    @overload
    def fit_predict(
        self, X: SourceBlocks, y: Any = None, sample_weight: Any = None
    ) -> BlockLabels: ...

    @overload
    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Labels: ...

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """The labels of X after ``fit(X)``; X and its weights are as in `fit`.

        X is a table of rows, or blocks that can be read again (but `OnlineKMeans` has no labels of
        blocks).
        """
        return self.fit(X, sample_weight=sample_weight)._labels_of_fit(X)

    @overload
    def fit_transform(
        self, X: SourceBlocks, y: Any = None, sample_weight: Any = None
    ) -> BlockDistances: ...

    @overload
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Floats: ...

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """``fit(X).transform(X)``; X and its weights are as in `fit`.

        X is a table of rows, or blocks that can be read again.
        """
        return self.fit(X, sample_weight=sample_weight).transform(X)


def set_features(model: Any, source: Any, d: int) -> None:
    """Store what scikit-learn stores about the columns of a fit. `source` has `names`."""
    vars(model).pop("feature_names_in_", None)  # of an earlier fit
    model.n_features_in_ = d
    if source.names is not None:
        model.feature_names_in_ = np.array(source.names, dtype=object)


# ---- Blocks -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """The columns that a fitted model expects. `names`: None if it was fitted without them."""

    d: int
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, model: Any) -> FittedColumns:
        names = getattr(model, "feature_names_in_", None)
        return cls(model.n_features_in_, None if names is None else tuple(names))

    def check_names(self, source: SourceBlocks) -> None:
        """ValueError if both have names and these differ."""
        pairs = zip(source.names or (), self.names or (), strict=False)
        for place, (own, expected) in enumerate(pairs, start=1):
            if own != expected:
                raise ValueError(
                    f"Column {place} of {source.description} is {own!r}, but the model was fitted "
                    f"with {expected!r} there. Give blocks(..., columns=model.feature_names_in_)."
                )

    def check(self, source: SourceBlocks, block: Block) -> None:
        """ValueError if the model cannot be asked about these rows."""
        self.check_names(source)  # some sources know their names only now
        if block.X.shape[1] != self.d:
            raise ValueError(
                f"{source.description} has {block.X.shape[1]} features, but the model expects "
                f"{self.d}."
            )
        block.rows.check_squares()


@dataclass(frozen=True, eq=False)
class CoordinateBlocks:
    """Blocks in the objective's coordinates. `columns`: those of a fitted model; None in a fit."""

    source: SourceBlocks
    objective: Objective | OnCard
    columns: FittedColumns | None = None

    def __iter__(self) -> Iterator[Block]:
        for block in self.source:
            if self.columns is not None:
                self.columns.check(self.source, block)
            yield replace(block, X=self.objective.rows(block.X, block.row_numbers).X)


@dataclass(frozen=True, eq=False, repr=False)
class BlockArrays(ABC):
    """One array for each block. Every iteration reads the blocks anew.

    ``numpy.asarray(...)`` joins the arrays of all blocks.
    """

    blocks: CoordinateBlocks
    centers: F64

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self.of_rows(block.rows) for block in self.blocks)

    @abstractmethod
    def of_rows(self, rows: Rows) -> NDArray[Any]:
        """The array of the rows of one block."""

    def __len__(self) -> int:
        """The number of rows."""
        source = self.blocks.source
        if source.rows_read is None:
            raise TypeError(
                f"The rows of {source.description} are counted when they are read for the first "
                "time; use len(numpy.asarray(...))."
            )
        return source.rows_read

    def __eq__(self, other: object) -> bool:
        raise TypeError(
            f"{self!r} is computed when it is read; compare numpy.asarray(...) of it instead."
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.blocks.source.description})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        joined = np.concatenate(list(self))
        return joined if dtype is None else joined.astype(dtype, copy=False)


class BlockLabels(BlockArrays):
    """The nearest centre of every row."""

    def of_rows(self, rows: Rows) -> Labels:
        return self.blocks.objective.nearest(rows, self.centers)


class BlockDistances(BlockArrays):
    """The distances of every row to all centres."""

    def of_rows(self, rows: Rows) -> Floats:
        return self.blocks.objective.distances(rows, self.centers)
