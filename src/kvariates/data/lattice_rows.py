"""Rows on a lattice: rounding them to it, and exact sums of their clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Labels
from kvariates.numerics.lattice import Lattice, Norm

NORMS: dict[Norm, int] = {"linf": 0, "l1": 1, "l2": 2}  # the codes of the native functions


# proof: sums.md
def quantize(
    rows: NDArray[np.floating], lattice: Lattice, center: F64 | None = None, half: F64 | None = None
) -> F64:
    """Rows clipped to the lattice's ball and rounded towards zero, each independently.

    Before that `center` is subtracted and rows are clipped to the box of half sides `half`, if
    given. The result has the units of the rows, and every coordinate is a multiple of
    `lattice.step`. That a row stays in its ball is checked in integers.
    """
    _check_number(rows, lattice)
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64, copy=False)
    out = np.empty(rows.shape)
    rows = np.ascontiguousarray(rows)
    _native.to_lattice(rows, center, half, NORMS[lattice.norm], lattice.bound, lattice.step, out)
    return out


@dataclass(frozen=True, eq=False)
class Balls:
    """A ball for each label. A row x of it has the local coordinates (x - center) / radius.

    Balls are public, or were computed from releases.
    """

    centers: F64
    radii: F64  # > 0


@dataclass(frozen=True, eq=False)
class LatticeSums:
    """Exact sums, hence secret: for every label the sum, the number and the squares of its rows."""

    totals: F64
    counts: NDArray[np.int64]
    squares: F64  # empty unless requested


def lattice_sums(
    rows: F64,
    labels: Labels,
    k: int,
    lattice: Lattice,
    balls: Balls | None = None,
    *,
    squares: bool = False,
) -> LatticeSums:
    """Sums by label of rows (or of their local coordinates) that are first quantized.

    A row with a negative label is in no sum. Squares are those of local coordinates in the l2 unit
    ball, rounded down row by row; a row's squares are on `Lattice(1.0, d, "l1")`.
    """
    _check_number(rows, lattice)
    centers, radii = (balls.centers, balls.radii) if balls else (None, None)
    totals, counts = np.empty((k, lattice.d)), np.empty(k, dtype=np.int64)
    second = np.empty((k if squares else 0, lattice.d))
    _native.lattice_sums(
        rows, labels, centers, radii, NORMS[lattice.norm], lattice.bound, lattice.step,
        totals, counts, second if squares else None,
    )  # fmt: skip
    return LatticeSums(totals, counts, second)


def outside_radius(rows: F64, labels: Labels, balls: Balls) -> NDArray[np.bool_]:
    """Whether each row is outside the ball of its label; False if the label is negative."""
    out = np.empty(len(rows), dtype=np.uint8)
    _native.outside_radius(rows, labels, balls.centers, balls.radii, out)
    return out.view(np.bool_)


def _check_number(rows: NDArray[np.floating], lattice: Lattice) -> None:
    if len(rows) > lattice.n_max:
        raise ValueError(f"More rows than n_max = {lattice.n_max}: their sums might not be exact.")
