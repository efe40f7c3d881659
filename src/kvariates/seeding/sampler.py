"""k-variates++ (Nock et al. 2016, Algorithm 0): the one sampler behind every seeding of its family.

    for t = 1..k:  pick a row a with probability proportional to  weight(a) * D_t(probe(a))
                   draw the centre c_t from density(a)

D_t is the squared distance to the nearest of c_1..c_{t-1} (constant for t = 1). A setting is a
choice of probe (where the potential is measured) and density (how a picked row becomes a centre):
`RECIPES`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows
from kvariates.seeding.densities import Density, Dirac, Laplace, UniformOver
from kvariates.seeding.probes import EveryPoint, MiniBatches, Probe, Synopses


@dataclass(frozen=True)
class Recipe:
    """Choices to run the sampler with."""

    probe: Probe
    density: Density

    @property
    def pointwise(self) -> bool:
        """Nothing but a row's values and weight decides what happens to it."""
        return all(getattr(part, "pointwise", False) for part in (self.probe, self.density))


@dataclass(frozen=True)
class Setting:
    """One line of the family's table: the kinds of probe and density that make an algorithm."""

    algorithm: str
    probe: type
    density: type
    then: type | None = None  # what follows a density that only picks another row
    theorem: str = "2"


RECIPES: dict[str, Setting] = {
    "batch": Setting("k-means++", EveryPoint, Dirac),
    "peers": Setting("Dk-means++", EveryPoint, UniformOver, theorem="4"),
    "private peers": Setting("PDk-means++", EveryPoint, UniformOver, then=Laplace, theorem="4"),
    "stream": Setting("Sk-means++", Synopses, Dirac, theorem="5"),
    "on-line": Setting("OLk-means++", MiniBatches, Dirac, theorem="6"),
    "private": Setting("DP k-variates++", EveryPoint, Laplace),
}

PLAIN = Recipe(probe=EveryPoint(), density=Dirac())


@dataclass(frozen=True)
class Seeds:
    centers: F64
    indices: NDArray[np.int64]  # the rows (with Synopses: the synopses) they were picked by


def greedy_trials(k: int) -> int:
    """scikit-learn's number of candidates a step."""
    return 2 + int(math.log(k))


def kvariates(
    space: Rows,
    k: int,
    weight: F64 | None,
    recipe: Recipe,
    trials: int,
    rng: np.random.Generator,
) -> Seeds:
    """Seed k centres. With trials > 1 every step but the first keeps the best of several draws.

    Pre: 1 <= k; weight as `Potential` wants it. Greedy seeding has another law than Algorithm 0,
    and not its guarantee.
    """
    order = space.canonical_order() if recipe.pointwise else None
    if order is not None:
        space = Rows.of(space.X[order])
        weight = None if weight is None else weight[order]
    potential = recipe.probe.potential(space, weight, k)
    indices = np.empty(k, dtype=np.int64)
    for t in range(k):
        size = 1 if t == 0 else trials
        if size > 1:
            potential.settle()
        picked = np.array([potential.draw(rng) for _ in range(size)], dtype=np.int64)
        centers = recipe.density.sample(potential.around, picked, potential.weight, rng)
        best = 0
        if size > 1:
            best = potential.add_best(centers)
        else:
            potential.add(centers[0])
        indices[t] = picked[best]
    return Seeds(potential.centers, indices if order is None else order[indices])
