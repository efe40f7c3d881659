"""Columns of different units are brought to the same scale, and back.

| name | a column's offset | its unit |
|---|---|---|
| standard | mean | standard deviation |
| minmax | minimum | range |
| robust | median | interquartile range |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kvariates.data.blocks import Block, SourceBlocks

Matrix = npt.NDArray[np.floating]
Scaling = Literal["none", "standard", "minmax", "robust"]
SCALINGS: tuple[Scaling, ...] = ("none", "standard", "minmax", "robust")


@dataclass(frozen=True, eq=False)
class Scale:
    """An offset and a unit for each column, ``X = (raw - mean) / spread``, and the inverse."""

    mean: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]

    def undo(self, X: Matrix) -> npt.NDArray[np.float64]:
        """Return scaled rows in the units of the file."""
        return X * self.spread + self.mean

    def apply(self, X: Matrix) -> Matrix:
        """Return rows in these units, in the type of X."""
        return ((X - self.mean) / self.spread).astype(X.dtype)


def standardize(X: Matrix, weights: Matrix | None = None) -> tuple[Matrix, Scale]:
    """Centre each column on its (weighted) mean and divide it by its standard deviation.

    A constant column is centred only. Weights count as repeats of a row.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.average(X, axis=0, weights=weights).astype(np.float64)
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
        scale = scale_of(mean, spread)
        return scale.apply(X), scale


def within_box(
    X: Matrix, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Rows clipped to a box, each value by itself; NaN in place of values that are not finite."""
    return np.where(np.isfinite(X), np.clip(X, low, high), np.nan).astype(np.float64)


def scale_of(mean: npt.NDArray[np.float64], spread: npt.NDArray[np.float64]) -> Scale:
    """The scale of columns with this mean and deviation; constant columns are not divided.

    ValueError if numbers were too large to compute it.
    """
    if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
        raise ValueError("numbers are too large to be scaled: their squares are infinite")
    # A spread below the rounding error is noise; division by it would enlarge the noise.
    floor = 8 * np.finfo(np.float64).eps * np.abs(mean)
    return Scale(mean, np.where(spread > floor, spread, 1.0))


def radians_scale(X: Any, names: Sequence[str]) -> Scale:
    """The scale from degrees of latitude and longitude, the two columns of X, to radians."""
    if not isinstance(X, np.ndarray) or X.shape[1] != 2:
        raise ValueError(
            f"places are two columns, latitude and longitude in degrees, not {len(names)}; name "
            "them with --columns"
        )
    for j, (what, most) in enumerate((("latitude", 90), ("longitude", 360))):
        name, worst = names[j], X[np.abs(X[:, j]).argmax(), j]
        if abs(worst) > most:
            raise ValueError(
                f"column {name!r} holds {worst:g}, and a {what} is from -{most} to {most} degrees; "
                "the columns are latitude, then longitude, as named by --columns"
            )
    return Scale(np.zeros(2), np.full(2, 180 / np.pi))


def scale_for(X: Matrix, weights: Matrix | None, scaling: Scaling) -> Scale | None:
    """The scale of the columns of X; None for "none". Only "standard" takes weights into account.

    A column without spread is not divided.
    """
    if scaling == "none":
        return None
    if scaling == "standard":
        return standardize(X, weights)[1]
    if scaling == "minmax":
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        return scale_of(low, high - low)
    low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0).astype(np.float64)
    return scale_of(middle, high - low)


class StandardizedBlocks(SourceBlocks):
    """The blocks of a source, standardized when they are read. The scale needs one pass.

    The blocks must be dense.
    """

    def __init__(self, source: SourceBlocks) -> None:
        if not isinstance(source, SourceBlocks):
            raise TypeError(
                f"StandardizedBlocks takes what blocks(...) returns, not {type(source).__name__}"
            )
        self._source, self.scale = source, _scale(source)
        self.names, self.n_rows = source.names, source.n_rows
        self.description, self.repeatable = source.description, source.repeatable

    def __iter__(self) -> Iterator[Block]:
        for block in self._source:
            yield replace(block, X=self.scale.apply(block.X))
        self.rows_dropped, self.rows_read = self._source.rows_dropped, self._source.rows_read


def _scale(source: SourceBlocks) -> Scale:
    """Mean and deviation by one pass: those of blocks are combined (Chan et al. 1979)."""
    total, mean, squares = 0.0, np.zeros(1), np.zeros(1)
    for block in source:
        if not isinstance(block.X, np.ndarray):
            raise TypeError(
                f"{source.description}: is sparse, and standardized rows would not be; give dense "
                "blocks, or scale columns by sklearn.preprocessing.MaxAbsScaler"
            )
        weight = np.ones(block.X.shape[0]) if block.weight is None else block.weight
        mass = float(weight.sum())
        if mass == 0:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            own = weight @ block.X / mass
            apart, both = own - mean, total + mass
            squares = squares + weight @ (block.X - own) ** 2 + apart**2 * (total * mass / both)
            total, mean = both, mean + apart * (mass / both)
    return scale_of(mean, np.sqrt(squares / total))
