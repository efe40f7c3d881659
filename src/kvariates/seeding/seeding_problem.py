"""What every seeding is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kvariates.data.host_data import Data, HostData
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64
from kvariates.refining.lloyd import LloydResult
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import euclidean_potential
from kvariates.seeding.sampler import Density, Potential, Seeds, sample

DIRAC = Dirac()
MakePotential = Callable[[Any, int], Potential[Any, F64]]  # from data, and room for centres
Lloyd = Callable[[HostData, F64], LloydResult]


@dataclass(frozen=True)
class SeedingProblem:
    """Rows to be seeded with k centres, under any objective.

    make_potential : a potential of the data, with room for so many centres.
    density : how a picked row becomes a centre.
    lloyd : from data in memory and centres to refined centres, for seedings that need it. The data
        may be a part of all rows.
    pointwise : whether potential and density know rows by their values, not by their indices.
    order : where the rows were before `canonical`; None if they did not move.

    Pre: 1 <= k <= n.
    """

    data: Data
    k: int
    make_potential: MakePotential = euclidean_potential
    density: Density[Rows, F64] = DIRAC
    lloyd: Lloyd | None = None
    pointwise: bool = True
    order: I64 | None = None
    rng: np.random.Generator = field(kw_only=True)

    @property
    def host(self) -> HostData:
        """The data; TypeError if it is not in memory."""
        if not isinstance(self.data, HostData):
            raise TypeError("this seeding needs rows in memory.")
        return self.data

    @property
    def rows(self) -> Rows:
        return self.host.rows

    @property
    def weight(self) -> F64 | None:
        return self.host.weight

    @property
    def needed_lloyd(self) -> Lloyd:
        """`lloyd`; TypeError if there is none."""
        if self.lloyd is None:
            raise TypeError("this seeding needs a problem with `lloyd`.")
        return self.lloyd

    def canonical(self) -> SeedingProblem:
        """The same problem with rows in canonical order, for draws that do not depend on theirs."""
        if not self.pointwise or self.order is not None or not isinstance(self.data, HostData):
            return self
        order = self.rows.canonical_order()
        return self if order is None else replace(self, data=self.data.part(order), order=order)

    def original(self, indices: I64) -> I64:
        """The indices of these rows before `canonical`."""
        return indices if self.order is None else self.order[indices]


def sample_rows(problem: SeedingProblem, *, trials: int = 1) -> Seeds[F64]:
    """Run the sampler on rows in canonical order. trials > 1: greedy seeding."""
    p = problem.canonical()
    seeds = sample(p.make_potential(p.data, p.k), p.density, p.k, p.rng, trials=trials)
    return Seeds(seeds.centers, p.original(seeds.indices))
