"""k-means|| (Bahmani et al. 2012): many centres a round, few rounds, then k of them.

    candidates = one row, drawn by weight
    in each of a few rounds:  phi = potential of the candidates
                              take every row x whose clock, of rate l w(x) D^2(x) / phi, rings
    weigh every candidate by the rows nearest to it; choose k of them by greedy k-means++

with l = oversampling * k. The paper takes x with probability min(1, rate); here a Poisson clock
rings with probability 1 - exp(-rate), independently for every row. The two differ only for rows
that hold a share of 1/l of the potential, and only the clocks make a row of weight w what w equal
rows are, at any scale of the weights. All clocks together ring Poisson(l) times, each time for a
row drawn in proportion to its share: that is how a round is drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows
from kvariates.seeding.potential import EuclideanPotential
from kvariates.seeding.sampler import PLAIN, Seeds, greedy_trials, kvariates

ROUNDS = 5
OVERSAMPLING = 1.0


def kmeans_parallel(
    space: Rows,
    k: int,
    weight: F64 | None,
    *,
    rounds: int = ROUNDS,
    oversampling: float = OVERSAMPLING,
    rng: np.random.Generator,
) -> Seeds:
    """Seed k centres. Pre: 1 <= k, 0 <= rounds, 0 < oversampling.

    What the rounds leave short of k different candidates is drawn by D^2, one by one.
    """
    order = space.canonical_order()
    if order is not None:
        space = Rows.of(space.X[order])
        weight = None if weight is None else weight[order]
    rings = rng.poisson(oversampling * k, size=rounds)
    potential = EuclideanPotential(space, weight, 1 + int(rings.sum()) + k)
    rows = take(potential, np.array([potential.draw(rng)]))
    for count in rings:
        potential.settle()
        rows += take(potential, sample_candidates(potential.costs, weight, count, rng))
    missing = k - np.count_nonzero(masses(potential))
    for _ in range(missing):
        rows += take(potential, np.array([potential.draw(rng)]))
    chosen = recluster(space, np.array(rows), masses(potential), k, rng)
    return Seeds(space.take(chosen), chosen if order is None else order[chosen])


def sample_candidates(
    costs: F64, weight: F64 | None, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The rows for which `count` rings of the clocks sound, each once, in ascending order."""
    ends = np.cumsum(costs if weight is None else weight * costs)
    places = rng.random(count) * ends[-1]
    if not ends[-1] > 0:
        return np.empty(0, dtype=np.int64)
    rows = np.searchsorted(ends, places, side="right")
    last = np.searchsorted(ends, ends[-1])  # rounding may carry a place past the end
    return np.unique(np.minimum(rows, last)).astype(np.int64, copy=False)


def take(potential: EuclideanPotential, rows: NDArray[np.int64]) -> list[int]:
    """Make candidates of these rows."""
    for center in potential.space.take(rows):
        potential.add(center)
    taken: list[int] = rows.tolist()
    return taken


def masses(potential: EuclideanPotential) -> F64:
    """The weight of the rows nearest to each candidate; zero for one that repeats another."""
    potential.settle()
    found = np.bincount(potential.nearest, potential.weight, minlength=potential.known)
    return found.astype(np.float64, copy=False)


def recluster(
    space: Rows, rows: NDArray[np.int64], mass: F64, k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Which k of `rows` to keep, by greedy k-means++ over them, each with its mass."""
    rows, mass = rows[mass > 0], mass[mass > 0]
    few = Rows.of(space.X[rows])
    seeds = kvariates(few, k, mass, PLAIN, greedy_trials(k), rng)
    return rows[seeds.indices]
