"""k-variates++ (Nock et al. 2016, Algorithm 0): the one sampler behind every seeding of its family.

    for t = 1..k:  pick a row x with probability proportional to  weight(x) * D_t(probe(x))
                   draw the centre c_t from density(x)

D_t is the squared distance to the nearest of c_1..c_{t-1} (constant for t = 1). A setting is a
choice of probe (where the potential is measured) and density (how a picked row becomes a centre).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.geometry.euclidean import F64, Space
from kvariates.seeding.potential import Potential


class Probe(Protocol):
    def potential(self, space: Space, weight: F64 | None, k: int) -> Potential:
        """What rows are drawn from."""


class Density(Protocol):
    def sample(self, space: Space, rows: NDArray[np.int64], rng: np.random.Generator) -> F64:
        """One centre for each picked row."""


@dataclass(frozen=True)
class EveryPoint:
    """The potential is measured at every row."""

    skip: bool = True

    def potential(self, space: Space, weight: F64 | None, k: int) -> Potential:
        return Potential(space, weight, k, skip=self.skip)


@dataclass(frozen=True)
class Dirac:
    """The picked row is the centre."""

    def sample(self, space: Space, rows: NDArray[np.int64], rng: np.random.Generator) -> F64:
        return space.take(rows)


@dataclass(frozen=True)
class Recipe:
    """One line of the family's table."""

    probe: Probe
    density: Density


RECIPES: dict[str, Recipe] = {
    "k-means++": Recipe(probe=EveryPoint(), density=Dirac()),
}


@dataclass(frozen=True)
class Seeds:
    centers: F64
    indices: NDArray[np.int64]  # the rows they were picked by


def greedy_trials(k: int) -> int:
    """scikit-learn's number of candidates a step."""
    return 2 + int(math.log(k))


def kvariates(
    space: Space,
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
    order = space.canonical_order()
    if order is not None:
        space = Space.of(space.X[order])
        weight = None if weight is None else weight[order]
    potential = recipe.probe.potential(space, weight, k)
    indices = np.empty(k, dtype=np.int64)
    for t in range(k):
        size = 1 if t == 0 else trials
        if size > 1:
            potential.settle()
        picked = np.array([potential.draw(rng) for _ in range(size)], dtype=np.int64)
        centers = recipe.density.sample(space, picked, rng)
        best = 0
        if size > 1:
            best = potential.add_best(centers)
        else:
            potential.add(centers[0])
        indices[t] = picked[best]
    return Seeds(potential.centers, indices if order is None else order[indices])
