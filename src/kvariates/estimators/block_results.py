"""What estimators answer about blocks: arrays, one for each block, computed when they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.data.rows import F64, Floats, Labels, Rows, joint_cost, unit_rows
from kvariates.estimators import validation
from kvariates.objectives.objective import Objective, SquaredEuclidean


@dataclass(frozen=True, eq=False)
class CoordinateBlocks:
    """Blocks in the objective's coordinates.

    `n_features`: how many a fitted model expects; None in a fit.
    """

    source: SourceBlocks
    objective: Objective
    n_features: int | None = None

    def __iter__(self) -> Iterator[Block]:
        for block in self.source:
            yield replace(block, X=self._prepared(block))

    def _prepared(self, block: Block) -> Any:
        d, expected = block.X.shape[1], self.n_features
        if expected is not None:
            if d != expected:
                raise ValueError(
                    f"{self.source.description} has {d} features, but the model expects {expected}."
                )
            block.rows.check_squares()
        if isinstance(self.objective, SquaredEuclidean) and self.objective.unit:
            return unit_rows(block.X, block.first)
        return self.objective.rows(block.X).X


@dataclass(frozen=True, eq=False)
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.concatenate(list(self)).astype(dtype, copy=False)


class BlockLabels(BlockArrays):
    """The nearest centre of every row."""

    def of_rows(self, rows: Rows) -> Labels:
        return self.blocks.objective.nearest(rows, self.centers)


class BlockDistances(BlockArrays):
    """The distances of every row to all centres."""

    def of_rows(self, rows: Rows) -> Floats:
        return self.blocks.objective.distances(rows, self.centers)


def cost_of_blocks(blocks: CoordinateBlocks, centers: F64) -> float:
    """The weighted cost of all rows at their nearest centres."""

    def parts() -> Iterator[tuple[F64, F64 | None]]:
        objective = blocks.objective
        for block in blocks:
            labels = objective.nearest(block.rows, centers)
            yield objective.costs(block.rows, centers, labels), block.weight

    return joint_cost(parts())


def check_no_weights(sample_weight: Any) -> None:
    """ValueError if there are weights beside those of the blocks."""
    if sample_weight is not None:
        raise ValueError(
            "sample_weight is for rows in memory. Give the weights of blocks by "
            "blocks(..., weights=...)."
        )


def check_names(model: Any, source: SourceBlocks) -> None:
    """ValueError if the columns are not those of the fit; a warning if only one has names."""
    fitted = getattr(model, "feature_names_in_", None)
    name = type(model).__name__
    if fitted is None or source.names is None:
        if fitted is not None:
            validation.warn(
                f"{source.description} does not have valid feature names, but {name} was fitted "
                "with feature names"
            )
        elif source.names is not None:
            validation.warn(
                f"{source.description} has feature names, but {name} was fitted without feature "
                "names"
            )
        return
    for place, (own, other) in enumerate(zip(source.names, fitted, strict=False), start=1):
        if own != other:
            raise ValueError(
                f"Column {place} of {source.description} is {own!r}, but {name} was fitted with "
                f"{other!r} there. Give blocks(..., columns=model.feature_names_in_)."
            )


def set_features(model: Any, source: SourceBlocks, d: int) -> None:
    """Store what scikit-learn stores about the columns of a fit."""
    model.n_features_in_ = d
    if source.names is not None:
        model.feature_names_in_ = np.array(source.names, dtype=object)
    elif hasattr(model, "feature_names_in_"):  # of an earlier fit
        del model.feature_names_in_
