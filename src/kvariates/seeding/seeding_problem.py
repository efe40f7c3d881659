"""What every seeding is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64
from kvariates.refining.lloyd import LloydResult
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.sampler import Density, Potential, Seeds, sample

DIRAC = Dirac()
MakePotential = Callable[[Rows, F64 | None, int], Potential[Rows, F64]]
Lloyd = Callable[[Rows, F64 | None, F64], LloydResult]


@dataclass(frozen=True)
class SeedingProblem:
    """Rows to be seeded with k centres, under any objective.

    make_potential : a potential of (rows, weight, room for so many centres).
    density : how a picked row becomes a centre.
    lloyd : from (rows, weight, centers) to refined centres, for seedings that need it. These rows
        may be a part of all rows.
    pointwise : whether potential and density know rows by their values, not by their indices.
    order : where the rows were before `canonical`; None if they did not move.

    Pre: 1 <= k <= n; weight is None (all ones) or float64, non-negative, not all zero.
    """

    rows: Rows
    weight: F64 | None
    k: int
    make_potential: MakePotential = EuclideanPotential
    density: Density[Rows, F64] = DIRAC
    lloyd: Lloyd | None = None
    pointwise: bool = True
    order: I64 | None = None
    rng: np.random.Generator = field(kw_only=True)

    @property
    def needed_lloyd(self) -> Lloyd:
        """`lloyd`; TypeError if there is none."""
        if self.lloyd is None:
            raise TypeError("this seeding needs a problem with `lloyd`.")
        return self.lloyd

    def canonical(self) -> SeedingProblem:
        """The same problem with rows in canonical order, for draws that do not depend on theirs."""
        if not self.pointwise or self.order is not None:
            return self
        order = self.rows.canonical_order()
        if order is None:
            return self
        weight = None if self.weight is None else self.weight[order]
        return replace(self, rows=self.rows.subset(order), weight=weight, order=order)

    def original(self, indices: I64) -> I64:
        """The indices of these rows before `canonical`."""
        return indices if self.order is None else self.order[indices]


def sample_rows(problem: SeedingProblem, *, trials: int = 1) -> Seeds[F64]:
    """Run the sampler on rows in canonical order. trials > 1: greedy seeding."""
    p = problem.canonical()
    potential = p.make_potential(p.rows, p.weight, p.k)
    seeds = sample(potential, p.density, p.k, p.rng, trials=trials)
    return Seeds(seeds.centers, p.original(seeds.indices))
