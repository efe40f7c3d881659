"""What estimators answer about blocks: arrays, one for each block, computed when they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.blocks import Block, SourceBlocks, assign_blocks
from kvariates.data.rows import F64, Floats, Labels, Rows, joint_cost
from kvariates.objectives.objective import Objective


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
    objective: Objective
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


def cost_of_blocks(blocks: CoordinateBlocks, centers: F64) -> float:
    """The weighted cost of all rows at their nearest centres."""
    objective = blocks.objective
    parts = assign_blocks(blocks, centers, objective.nearest, objective.costs)
    return joint_cost((part.cost, part.weight) for part in parts)


def set_features(model: Any, source: Any, d: int) -> None:
    """Store what scikit-learn stores about the columns of a fit. `source` has `names`."""
    model.n_features_in_ = d
    if source.names is not None:
        model.feature_names_in_ = np.array(source.names, dtype=object)
    elif hasattr(model, "feature_names_in_"):  # of an earlier fit
        del model.feature_names_in_
