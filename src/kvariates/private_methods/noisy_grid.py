"""EUGkM (Su et al. 2016): noisy counts of a uniform grid over the domain, and k-means on its cells.

The number of cells balances their size and their noise: (n epsilon / 10)^(2d / (2 + d)). If that is
less than two cells per axis (many features), only the widest axes are cut, in two. If it is less
than two cells in all, there is one cell, and all centres but one are public points.

All cells get noise, empty ones too. A cell is kept if its noisy count is above a threshold that
noise alone passes in about one cell of the grid: empty cells are many, and far from the rows. If
the cells of a centre may have passed by noise alone, they are left out, and k-means runs again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import charge_of
from kvariates.privacy.query import Histogram, count_query, histogram_query
from kvariates.private_methods.domain import Domain, solve
from kvariates.private_methods.noisy_centers import CenterErrors, PassedCells, passed_by_noise
from kvariates.private_methods.task import PrivateMethod, PrivateResult, PrivateTask, Traits

ROWS_A_CELL = 10.0  # Su et al.'s constant
COUNT_SHARE = 0.05  # of the budget, if the number of rows is secret
PASSED = 3.0  # deviations of noise by which the cells of a centre pass the threshold, all in all
FALSE_CELLS = 1.0  # expected number of cells that pass by noise alone
MOST_CELLS = 2**40
BLOCK = 1 << 20  # values
OF_CELLS = CenterErrors(None, "centres are means of cells that were chosen by their noisy counts")


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid over the box of the domain, with so many cells along each axis. Public."""

    domain: Domain
    cuts: I64

    @property
    def number(self) -> int:
        return math.prod(self.cuts.tolist())

    def cells(self, rows: F64) -> I64:
        """The number of the cell of every row, each independently."""
        ids = np.empty(len(rows), dtype=np.int64)
        size = max(1, BLOCK // self.domain.d)
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            places = np.floor((block / self.domain.half + 1.0) * (self.cuts / 2.0)).astype(np.int64)
            np.clip(places, 0, self.cuts - 1, out=places)
            ids[start : start + size] = places @ self._strides
        return ids

    def histogram(self, rows: F64) -> Histogram:
        """The number of rows of every occupied cell."""
        return Histogram(*np.unique(self.cells(rows), return_counts=True), self.number)

    def middles(self, ids: I64) -> F64:
        places = ids[:, None] // self._strides % self.cuts
        return ((places + 0.5) * (2.0 / self.cuts) - 1.0) * self.domain.half

    @property
    def _strides(self) -> I64:
        return np.concatenate([[1], np.cumprod(self.cuts[:-1])]).astype(np.int64)


# proof: grid.md
@dataclass(frozen=True)
class GridMethod(PrivateMethod[PrivateTask]):
    """EUGkM. With delta > 0 noise is Gaussian, and epsilon is that of Laplace noise as wide."""

    traits = Traits(counts=True)

    rows_a_cell: float = ROWS_A_CELL

    def __post_init__(self) -> None:
        if not 1e-3 <= self.rows_a_cell <= 1e9:
            raise ValueError(
                f"Grid: rows_a_cell must be a number from 1e-3 to 1e9; got {self.rows_a_cell!r}."
            )

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task = task.without_charges()
        count = task.row_count(COUNT_SHARE)
        (cost,) = count.costs
        # The epsilon of Laplace noise with the variance that the cost allows.
        epsilon = cost.value if cost.pure else 2 * math.sqrt(cost.value)
        grid = make_grid(task.domain, count.n * epsilon / self.rows_a_cell)
        label = f"rows of {grid.number} cells"
        threshold = _threshold(task, grid, cost)
        query = task.rows.map(grid.histogram).map(
            lambda of: histogram_query(of, threshold, task.adjacency, label)
        )
        made = task.accountant.release(query, cost)
        points, counts = grid.middles(made.value.cells), made.value.counts.astype(np.float64)
        cells = PassedCells(points, counts, threshold, made.charge.deviation)
        return clear_centers(task, cells, np.random.default_rng())


def clear_centers(task: PrivateTask, cells: PassedCells, rng: np.random.Generator) -> PrivateResult:
    """k-means on the cells. Cells of a centre that may be noise alone are left out, while k remain.

    A cell far from all rows would get a centre of its own.
    """
    while True:
        centers = solve(task.domain, cells.points, cells.weights, task.k, rng)
        nearest = cells.nearest(centers)
        kept = ~cells.faint(nearest, task.k, PASSED)[nearest]
        if kept.all() or kept.sum() < task.k:
            counts, inside = cells.counts(centers), task.domain.clip(centers)
            return PrivateResult(inside, task.charges, counts, errors=OF_CELLS)
        cells = replace(cells, points=cells.points[kept], weights=cells.weights[kept])


def make_grid(domain: Domain, worth: float) -> Grid:
    """The grid with at most Su et al.'s number of cells, worth = n epsilon / 10."""
    d = domain.d
    number = min(max(worth, 1.0) ** (2 * d / (2 + d)), float(MOST_CELLS))
    cuts = np.full(d, math.floor(number ** (1 / d) + 1e-9), dtype=np.int64)
    if cuts[0] < 2:
        halved = np.argsort(-domain.half, kind="stable")[: math.floor(math.log2(number))]
        cuts[halved] = 2
    return Grid(domain, cuts)


def _threshold(task: PrivateTask, grid: Grid, cost: Cost) -> float:
    """Public: a function of the scale of the noise and the number of all cells."""
    charge = charge_of(count_query([], task.adjacency, ""), cost)
    share = min(0.5, FALSE_CELLS / grid.number)
    return passed_by_noise(share, laplace=cost.pure) * charge.scale
