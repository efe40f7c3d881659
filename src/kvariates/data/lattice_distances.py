"""Squared distances of points on a coarse lattice of the unit ball: exact in float32.

Coordinates are multiples of 2^-10, so squared distances are multiples of 2^-20 and at most 4: they
have 22 bits. Every partial sum of a product of two such points is at most 1 (Cauchy and Schwarz),
so a matrix product has no rounding error, however it is blocked; nor have float64 sums over 2^31
points.
"""

from __future__ import annotations

import numpy as np

from kvariates.data.lattice_rows import quantize
from kvariates.data.metric_spaces import KEPT_BYTES, DistanceRows, Ints
from kvariates.data.rows import F64, Floats
from kvariates.numerics.lattice import Lattice

FARTHEST = 4.0  # squared distance of two points of the unit ball


def unit_lattice(p: int) -> Lattice:
    """The lattice of step 2^-10 in the unit ball."""
    return Lattice(1.0, p, "l2", n_max=2**42)


def on_unit_lattice(points: F64) -> F64:
    """Points clipped to the unit ball and rounded towards zero, each by itself."""
    return quantize(points, unit_lattice(points.shape[1]))


class SquaredDistances(DistanceRows):
    """From points of the unit lattice that may become centres to others, `at`."""

    def __init__(self, points: F64, at: F64) -> None:
        self.X, self.at = points.astype(np.float32), at.astype(np.float32)
        self.n_candidates, self.n, self.dtype = len(points), len(at), np.dtype(np.float32)
        self._squares = _squares(self.X)
        self._at_squares = _squares(self.at)

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        at, squares = self.at, self._at_squares
        if columns is not None:
            at, squares = at[columns], squares[columns]
        out = self.X[points] @ (np.float32(-2) * at).T
        out += squares
        out += self._squares[points, None]
        return np.asarray(out)

    def measured_at(self, demand: Ints) -> SquaredDistances:
        return SquaredDistances(self.X.astype(np.float64), self.at[demand].astype(np.float64))


def squared_distances(points: F64, at: F64) -> DistanceRows:
    """The same, all computed at once if they are few: a long search asks for them many times."""
    space = SquaredDistances(points, at)
    kept = space.dtype.itemsize * space.n_candidates * space.n <= KEPT_BYTES
    return space.matrix() if kept else space


def _squares(points: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", points, points))
