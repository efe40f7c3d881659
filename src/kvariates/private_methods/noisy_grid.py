"""EUGkM (Su et al. 2016): a uniform grid over the domain, noisy counts, ordinary k-means on cells.

The number of cells balances how coarse they are against how noisy: (n epsilon / 10)^(2d / (2 + d)).
Where that is less than two cells an axis (many features), only the widest axes are cut, in two;
where it is less than two in all, the grid is one cell, and all centres but one are public places.

Cells are noised as a public set: all of them, the empty ones by number. Only those are kept whose
counts are so high that noise alone would bring about one of all cells there: empty cells are many,
and far from where the rows are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kvariates.privacy import mechanisms
from kvariates.private_methods.row_count import public_size
from kvariates.private_methods.task import F64, Accountant, Cost, Domain, PrivateResult, PrivateTask
from kvariates.private_methods.weighted_kmeans import solve

I64 = NDArray[np.int64]

ROWS_A_CELL = 10.0  # Su et al.'s constant
COUNTING = 0.05  # of the budget, where the number of rows is secret
FALSE = 1.0  # cells that pass by noise alone, expected
MOST_CELLS = 2**40
BLOCK = 1 << 20  # values


@dataclass(frozen=True, eq=False)
class Cells:
    """A grid over the domain's box, cut so often along each axis. Public."""

    domain: Domain
    cuts: I64

    @property
    def number(self) -> int:
        return math.prod(self.cuts.tolist())

    def of(self, rows: F64) -> I64:
        """The number of every row's cell, each row by itself."""
        ids = np.empty(len(rows), dtype=np.int64)
        size = max(1, BLOCK // self.domain.d)
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            along = np.floor((block / self.domain.half + 1.0) * (self.cuts / 2.0)).astype(np.int64)
            np.clip(along, 0, self.cuts - 1, out=along)
            ids[start : start + size] = along @ self._strides
        return ids

    def middles(self, ids: I64) -> F64:
        along = ids[:, None] // self._strides % self.cuts
        return ((along + 0.5) * (2.0 / self.cuts) - 1.0) * self.domain.half

    @property
    def _strides(self) -> I64:
        return np.concatenate([[1], np.cumprod(self.cuts[:-1])]).astype(np.int64)


@dataclass(frozen=True)
class GridMethod:
    """EUGkM. With delta > 0 noise is Gaussian, and epsilon that of Laplace noise as wide."""

    rows_a_cell: float = ROWS_A_CELL

    def __post_init__(self) -> None:
        if not 0 < self.rows_a_cell < math.inf:
            raise ValueError(f"Grid: rows_a_cell must be a number > 0; got {self.rows_a_cell!r}.")

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant = Accountant()
        size = public_size(task, COUNTING, accountant)
        (cost,) = size.rest
        cells = cut(task.domain, size.n * _epsilon(cost) / self.rows_a_cell)
        points, weight = _histogram(task, cells, cost, accountant)
        centers = solve(task.domain, points, weight, task.k, np.random.default_rng())
        return PrivateResult(task.domain.inside(centers), tuple(accountant.charges))


def cut(domain: Domain, worth: float) -> Cells:
    """Su et al.'s number of cells, at most: as many along each axis, or two along the widest."""
    d = domain.d
    number = min(max(worth, 1.0) ** (2 * d / (2 + d)), float(MOST_CELLS))
    cuts = np.full(d, math.floor(number ** (1 / d) + 1e-9), dtype=np.int64)
    if cuts[0] < 2:
        halved = np.argsort(-domain.half, kind="stable")[: math.floor(math.log2(number))]
        cuts[halved] = 2
    return Cells(domain, cuts)


def _epsilon(cost: Cost) -> float:
    """Of Laplace noise with the variance that the cost buys."""
    return cost["epsilon"] if "epsilon" in cost else 2 * math.sqrt(cost["rho"])


def _histogram(
    task: PrivateTask, cells: Cells, cost: Cost, accountant: Accountant
) -> tuple[F64, F64]:
    """Middles of the cells that pass, and their noisy counts."""
    occupied, exact = np.unique(cells.of(task.rows), return_counts=True)
    empty = cells.number - len(occupied)
    found, charge = mechanisms.cells_above(
        exact, empty, _threshold(task, cells, cost), adjacency=task.adjacency,
        label=f"rows of {cells.number} cells", **cost,
    )  # fmt: skip
    accountant.record((None, charge))
    # Empty cell i is the i-th number that is not an occupied cell's.
    before = np.searchsorted(occupied - np.arange(len(occupied)), found.empty.cells, side="right")
    ids = np.concatenate([occupied[found.occupied], found.empty.cells + before])
    counts = np.concatenate([found.occupied_counts, found.empty.counts])
    order = np.argsort(ids)
    return cells.middles(ids[order]), counts[order].astype(np.float64)


def _threshold(task: PrivateTask, cells: Cells, cost: Cost) -> float:
    """Public: from the noise's scale and the number of all cells."""
    # The same call on nothing tells the scale.
    charge = mechanisms.counts([], adjacency=task.adjacency, label="", **cost)[1]
    share = min(0.5, FALSE / cells.number)
    far = -math.log(2 * share) if charge.mechanism == "laplace" else -float(ndtri(share))
    return far * charge.scale
