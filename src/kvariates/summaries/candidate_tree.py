"""Candidate centres: a partition into cubes with a random shift (Balcan et al. 2017, Algorithm 1).

    a cube that contains all rows, shifted at random, is the first active cube
    level by level
        every active cube is cut in two along each axis
        a child is active if its measured count is above a threshold

The centres of all active cubes are the candidates. How children are counted is an argument
(`Measure`): with noise for every child, empty ones too, or exactly. Nothing else is known of the
rows, so the cubes are as private as the measure.

A row's cube follows from its own coordinates: they become integers once, whose leading bits are the
cubes of all levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.numerics.draws import F64, I64
from kvariates.privacy.empty_cells import Passing
from kvariates.privacy.query import Histogram
from kvariates.privacy.secret import Secret

SIDE = 4.0  # of the first cube, for rows in [-1, 1]^p: it contains them for every shift in [-1, 1]
WORD = 62  # cells up to 2^62 are int64, more are Python's integers

Measure = Callable[[Secret[Histogram], int, int], Passing]
"""From the occupied children, their level and how many children there are to the active ones."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """The first cube, with its lower corner, and the halvings of each level. Public."""

    low: F64
    halvings: tuple[int, ...]

    @classmethod
    def draw(cls, p: int, halvings: tuple[int, ...], rng: np.random.Generator) -> Shifted:
        return cls(rng.uniform(-1.0, 1.0, p) - SIDE / 2, halvings)

    @property
    def p(self) -> int:
        return len(self.low)

    def depth(self, level: int) -> int:
        """How often the first cube was halved after so many levels."""
        return sum(self.halvings[:level])

    def corners(self, rows: F64) -> I64:
        """The integer corner (n, p) of every row's smallest cube, in units of its side."""
        cells = 1 << self.depth(len(self.halvings))
        places = np.floor((rows - self.low) * (cells / SIDE)).astype(np.int64)
        return np.clip(places, 0, cells - 1)

    def middles(self, corners: I64, level: int) -> F64:
        """The centres of cubes of a level, by their corners in units of their side."""
        return np.asarray(self.low + (corners + 0.5) * self.side(level))

    def side(self, level: int) -> float:
        """The side of the cubes of a level."""
        return SIDE / (1 << self.depth(level))


class CubeRows:
    """The cube of every row. Nothing of it is returned but to a `Measure`."""

    def __init__(self, rows: F64, grid: Shifted) -> None:
        self.grid, self._corners = grid, grid.corners(rows)
        self._own: I64 = np.zeros(len(rows), dtype=np.int64)  # number of the active cube, or -1

    def children(self, level: int, active: int) -> Histogram:
        """The number of rows of every occupied child of the active cubes."""
        codes = self._codes(level, active)
        cells, counts = np.unique(codes, return_counts=True)
        return Histogram(cells, counts, active << (self.grid.p * self.grid.halvings[level]))

    def enter(self, level: int, active: int, chosen: NDArray[Any]) -> None:
        """Rows of the chosen children, ascending, go to them; other rows of active cubes leave."""
        inside, codes = np.flatnonzero(self._own >= 0), self._codes(level, active)
        places = np.searchsorted(chosen, codes)
        places = np.minimum(places, max(0, len(chosen) - 1))
        found = chosen[places] == codes if len(chosen) else np.zeros(len(codes), dtype=bool)
        self._own[inside] = np.where(found.astype(bool), places, -1)

    def _codes(self, level: int, active: int) -> NDArray[Any]:
        """The number of the child of every row of an active cube."""
        grid, inside = self.grid, np.flatnonzero(self._own >= 0)
        halvings = grid.halvings[level]
        after = grid.depth(len(grid.halvings)) - grid.depth(level + 1)
        digits = (self._corners[inside] >> after) & ((1 << halvings) - 1)
        own = self._own[inside]
        if (active << (grid.p * halvings)) >> WORD:
            digits, own = digits.astype(object), own.astype(object)
        codes = own
        for axis in range(grid.p):
            codes = (codes << halvings) | digits[:, axis]
        return np.asarray(codes)


@dataclass(frozen=True, eq=False)
class CandidatePoints:
    """Centres of active cubes, the sides of these, and their rows that are in no smaller one.

    The number of rows of the first cube is not measured: its weight is 0.
    """

    points: F64
    sides: F64
    weights: F64
    levels: int  # that were measured


def candidate_tree(
    rows: Secret[F64], grid: Shifted, most: int, measure: Measure
) -> CandidatePoints:
    """The candidates of rows in [-1, 1]^p; at most `most` cubes of a level are active.

    Ends early if no child is active.
    """
    cubes = rows.map(lambda of: CubeRows(of, grid))
    corners = np.zeros((1, grid.p), dtype=np.int64)
    points, weights = [grid.middles(corners, 0)], [np.zeros(1)]
    for level in range(len(grid.halvings)):
        active = len(corners)
        counted = cubes.map(partial(CubeRows.children, level=level, active=active))
        chosen = _largest(measure(counted, level, active), most)
        if not len(chosen.cells):
            break
        cubes.map(partial(CubeRows.enter, level=level, active=active, chosen=chosen.cells))
        parents, corners = _decoded(chosen.cells, corners, grid.halvings[level])
        inside = np.bincount(parents, chosen.counts, minlength=active)
        weights[-1] = np.maximum(weights[-1] - inside, 0.0)
        weights.append(np.maximum(chosen.counts, 0).astype(np.float64))
        points.append(grid.middles(corners, level + 1))
    sides = [np.full(len(one), grid.side(i)) for i, one in enumerate(points)]
    joined = (np.concatenate(points), np.concatenate(sides), np.concatenate(weights))
    return CandidatePoints(*joined, level + 1)


def _largest(passing: Passing, most: int) -> Passing:
    """At most `most` cells, those with the largest measured counts, ascending."""
    if len(passing.cells) <= most:
        return passing
    kept = np.sort(np.argsort(-passing.counts, kind="stable")[:most])
    return Passing(passing.cells[kept], passing.counts[kept])


def _decoded(cells: NDArray[Any], corners: I64, halvings: int) -> tuple[I64, I64]:
    """The parents of children, and the corners of the children."""
    p = corners.shape[1]
    digits = np.empty((len(cells), p), dtype=np.int64)
    rest = cells
    for axis in reversed(range(p)):
        digits[:, axis] = rest & ((1 << halvings) - 1)
        rest = rest >> halvings
    parents = rest.astype(np.int64)
    return parents, (corners[parents] << halvings) | digits
