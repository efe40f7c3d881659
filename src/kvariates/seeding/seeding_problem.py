"""What every seeding is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import euclidean_potential
from kvariates.seeding.sampler import Density, Potential, Seeds, sample

DIRAC = Dirac()
MakePotential = Callable[[Any, int], Potential]  # from data, and room for centres


@dataclass(frozen=True)
class SeedingProblem:
    """Rows to be seeded with k centres, under any objective. Pre: 1 <= k <= n."""

    data: Any  # `Data`; HostData where a seeding needs "host rows"
    k: int
    make_potential: MakePotential = euclidean_potential
    density: Density = DIRAC
    lloyd: Any = None  # from some of the data and centres to a `LloydResult`, for seedings with it
    pointwise: bool = True  # whether potential and density know rows by values, not by indices
    order: I64 | None = None  # where the rows were before `canonical`; None if they did not move
    rng: np.random.Generator = field(kw_only=True)

    @property
    def rows(self) -> Rows:
        return cast("Rows", self.data.rows)

    @property
    def weight(self) -> F64 | None:
        return cast("F64 | None", self.data.weight)

    def canonical(self) -> SeedingProblem:
        """The same problem with rows in canonical order, for draws that do not depend on theirs."""
        if not self.pointwise or self.order is not None or not isinstance(self.data, HostData):
            return self
        order = self.rows.canonical_order()
        return self if order is None else replace(self, data=self.data.part(order), order=order)

    def original(self, indices: I64) -> I64:
        """The indices of these rows before `canonical`."""
        return indices if self.order is None else self.order[indices]


def sample_rows(problem: SeedingProblem, *, trials: int = 1) -> Seeds:
    """Run the sampler on rows in canonical order. trials > 1: greedy seeding."""
    p = problem.canonical()
    seeds = sample(p.make_potential(p.data, p.k), p.density, p.k, p.rng, trials=trials)
    return Seeds(seeds.centers, p.original(seeds.indices))
