"""The private partition of Balcan et al. 2017 (Algorithms 1 and 2), with its numbers and budget.

Rows are projected at random into the unit ball of few dimensions, row by row. Rows are on a lattice
of 22 bits and the matrix has 12 bits after the point, so products and their sums are exact in
float64: a row's projection depends on that row alone, dense or sparse. Cubes with a random shift
are cut where their noisy counts are large, and their centres are the candidates.

`candidates` (k-means) and `demand_candidates` (k-median) use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kvariates.data.lattice_rows import on_unit_lattice
from kvariates.data.rows import F64
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import Cost
from kvariates.privacy.empty_cells import Passing
from kvariates.privacy.mechanisms import Accountant, charge_of
from kvariates.privacy.query import Histogram, count_query, histogram_query
from kvariates.privacy.rounding import down
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain
from kvariates.private_methods.noisy_centers import passed_by_few
from kvariates.private_methods.principal_axes import coarse
from kvariates.summaries.candidate_tree import CandidatePoints, Shifted, candidate_tree

BLOCK = 1 << 22  # values
FALSE_CUBES = 1.0  # expected number of empty cubes of a level that pass
MOST_FALSE_CUBES = 1e5  # for any threshold that is given: a smaller one is raised
FEW_ROWS = 100  # a threshold above this and above the number of rows is warned of


@dataclass(frozen=True, eq=False)
class Projection:
    """x -> G'x / radius, clipped to the unit ball. Public. None: the rows themselves."""

    matrix: F64 | None  # (d, p)
    radius: float

    @classmethod
    def draw(cls, d: int, p: int, radius: float, rng: np.random.Generator) -> Projection:
        """A Gaussian matrix that keeps squared lengths on average."""
        if p == d:
            return cls(None, radius)
        return cls(coarse(rng.normal(size=(d, p)) / np.sqrt(p)), radius)

    def __call__(self, rows: Any) -> F64:
        """The projected rows on the unit lattice. `rows` may be CSR."""
        n, d = rows.shape
        p = d if self.matrix is None else self.matrix.shape[1]
        out, step = np.empty((n, p)), max(1, BLOCK // d)
        if not isinstance(rows, np.ndarray):
            step = max(1, n)
        for start in range(0, n, step):
            part = rows[start : start + step]
            if self.matrix is not None:
                part = part @ self.matrix
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            out[start : start + step] = on_unit_lattice(dense / self.radius)
        return out

    def lift(self, points: F64, mean: F64) -> F64:
        """The rows nearest to `mean` that have these projections, before clipping."""
        if self.matrix is None:
            return points * self.radius
        back = np.linalg.pinv(self.matrix.T)
        return np.asarray(mean + (points * self.radius - mean @ self.matrix) @ back.T)


class RemainingCost:
    """A cost of which weighted parts are taken.

    Parts of equal weights are equal. What was skipped goes to later parts by `share_skipped`.
    """

    def __init__(self, cost: Cost, weight: Fraction) -> None:
        self._pure, self._rest, self._left = cost.pure, Fraction(cost.value), weight
        self._unit = self._rest / weight

    def take(self, weight: Fraction) -> Cost:
        """A part of this weight."""
        part = down(self._unit * weight)
        self._rest -= Fraction(part)
        self._left -= weight
        return self._cost(part)

    def skip(self, weight: Fraction) -> None:
        """Leave out a part of this weight."""
        self._left -= weight

    def share_skipped(self) -> None:
        """Parts that are taken from now on become larger by what was skipped."""
        self._unit = self._rest / self._left

    @property
    def rest(self) -> Cost:
        """All that is left."""
        return self._cost(down(self._rest))

    def _cost(self, value: float) -> Cost:
        return Cost(epsilon=value) if self._pure else Cost(rho=value)


@dataclass(frozen=True)
class CubesPlan:
    """The numbers of a partition, and the weight of a level in the budget. Public or released."""

    dimension: int
    repeats: int
    halvings: tuple[int, ...]  # of the levels of a partition
    threshold: float | None  # rows; None: what noise alone passes in about one cube of a level
    widths: float | None  # the threshold in scales of the noise, if it is not given in rows
    most: int
    level: Fraction

    @property
    def weight(self) -> Fraction:
        """Of all releases of the partition."""
        return self.level * self.repeats * len(self.halvings)

    def cut_above(self, adjacency: Adjacency, cost: Cost, children: int) -> float:
        """The threshold for a level with so many children and such a cost."""
        scale = charge_of(count_query([], adjacency, ""), cost).scale
        if self.threshold is not None:
            few = passed_by_few(MOST_FALSE_CUBES, children, laplace=cost.pure)
            return max(self.threshold, scale * few)
        if self.widths is not None:
            return self.widths * scale
        return scale * passed_by_few(FALSE_CUBES, children, laplace=cost.pure)

    def notes(self, adjacency: Adjacency, least: float, cost: Cost, rows: str) -> tuple[str, ...]:
        """What to say if no cube can be told from noise; `least`: how many rows there are.

        `rows`: what they are called.
        """
        above = self.cut_above(adjacency, cost, 1 << (self.dimension * self.halvings[0]))
        if above <= max(least, FEW_ROWS):
            return ()
        many = f"a cube is cut if it has more than {above:,.0f} {rows}. If all of them have fewer, "
        many += "there are no candidates, and the answer is close to a random one."
        if above == self.threshold:
            words = f"The threshold may be too large: {many} Give a smaller threshold, or None."
            return (words,)
        words = f"The budget may be too small for the partition: {many} Use a larger epsilon, or "
        return (f"{words}fewer repeats, levels, trials or swaps.",)


def find_candidates(
    rows: Secret[F64], adjacency: Adjacency, plan: CubesPlan, remaining: RemainingCost,
    accountant: Accountant, rng: np.random.Generator,
) -> CandidatePoints:  # fmt: skip
    """Candidates of all repeats (Algorithm 2), on the unit lattice."""
    found: list[CandidatePoints] = []
    for repeat in range(1, plan.repeats + 1):

        def measure(counted: Secret[Histogram], level: int, active: int) -> Passing:
            cost = remaining.take(plan.level)
            children = active << (plan.dimension * plan.halvings[level])
            above = plan.cut_above(adjacency, cost, children)
            label = f"partition {repeat}, level {level + 1}: cubes"  # noqa: B023
            query = counted.map(lambda of: histogram_query(of, above, adjacency, label))
            return accountant.release(query, cost).value

        grid = Shifted.draw(plan.dimension, plan.halvings, rng)
        one = candidate_tree(rows, grid, plan.most, measure)
        remaining.skip(plan.level * (len(plan.halvings) - one.levels))
        found.append(one)
    remaining.share_skipped()
    points = on_unit_lattice(np.concatenate([f.points for f in found]))
    sides = np.concatenate([f.sides for f in found])
    weights = np.concatenate([f.weights for f in found]) / plan.repeats
    return CandidatePoints(points, sides, weights, max(f.levels for f in found))


def unit_ball(p: int) -> Domain:
    """The unit ball of p dimensions."""
    return Domain.around(np.zeros(p), 1.0)
