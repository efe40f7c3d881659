"""Draws a few rows whose weights stand for all rows (see native/cells.hpp)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Rows


class DrawnCells(NamedTuple):
    """One row of each cell, and the weight of the cell."""

    rows: NDArray[np.int64]
    weights: F64


def draw_cells(
    rows: Rows, weights: F64, centers: F64, size: int, rng: np.random.Generator
) -> DrawnCells:
    """Draw at most `size` rows by their scores around these centres.

    The weights of the drawn rows add up to those of all rows, and the expected new weight of a row
    is its weight. Pre: 2 * len(centers) < size < rows.n.
    """
    labels = rows.nearest(centers)
    cost = rows.costs(centers, labels)
    seed = int(rng.integers(2**64, dtype=np.uint64))
    return DrawnCells(*_native.draw_cells(labels, cost, weights, len(centers), size, seed))
