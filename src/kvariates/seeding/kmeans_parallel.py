"""k-means|| (Bahmani et al. 2012): many candidates per round, few rounds, then k of them.

    candidates = one row, drawn by weight
    in each of a few rounds:  phi = potential of the candidates
                              take every row x with probability 1 - exp(-l w(x) D^2(x) / phi)
    weigh every candidate by the rows nearest to it; choose k of them by greedy k-means++

with l = oversampling * k. The paper takes x with probability min(1, l w(x) D^2(x) / phi). The two
differ only for rows with a large share of the potential; with this one, a row of weight w has the
same chance as w equal rows. A round draws Poisson(l) rows by weight * D^2 with replacement, which
gives exactly these probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.seeding.euclidean_potential import euclidean_potential
from kvariates.seeding.sampler import CandidateRows, RowPotential, Seeds, greedy_trials
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows

ROUNDS = 5
OVERSAMPLING = 1.0


def kmeans_parallel(
    problem: SeedingProblem, *, rounds: int = ROUNDS, oversampling: float = OVERSAMPLING
) -> Seeds[F64]:
    """Seed k centres. Pre: 0 <= rounds, 0 < oversampling.

    What the rounds leave short of k different candidates is drawn by D^2, one by one.
    """
    p = problem.canonical()
    sizes = p.rng.poisson(oversampling * p.k, size=rounds)
    chosen = choose_rows(lambda room: euclidean_potential(p.data, room), sizes, p.k, p.rng)
    return Seeds(p.data.take(chosen), p.original(chosen))


def choose_rows(
    make_potential: Callable[[int], RowPotential],
    sizes: I64,
    k: int,
    rng: np.random.Generator,
) -> I64:
    """The numbers of k rows, by rounds of these sizes.

    `make_potential`: from room for so many centres to a potential without centres.
    """
    potential = make_potential(1 + int(sizes.sum()) + k)
    candidates = np.concatenate(draw_candidates(potential, sizes, k, rng))
    return recluster(potential.points, candidates, potential.masses(), k, rng)


def draw_candidates(
    potential: RowPotential, sizes: I64, k: int, rng: np.random.Generator
) -> list[I64]:
    """Add candidates, at least k different ones if there are; return the rows of each round."""
    taken = [_add_rows(potential, np.array([potential.draw(rng)]))]
    taken += [_add_rows(potential, draw_round(potential, size, rng)) for size in sizes]
    missing = k - np.count_nonzero(potential.masses())
    taken += [_add_rows(potential, np.array([potential.draw(rng)])) for _ in range(missing)]
    return taken


def draw_round(potential: RowPotential, size: int, rng: np.random.Generator) -> I64:
    """The different rows among `size` draws, in ascending order; none if the potential is zero."""
    drawn = np.unique(potential.draw_many(size, rng))
    return drawn if potential.total() > 0 else drawn[:0]


def _add_rows(potential: RowPotential, indices: I64) -> I64:
    potential.add(potential.points.take(indices))
    return indices


def recluster(
    points: CandidateRows, candidates: I64, mass: F64, k: int, rng: np.random.Generator
) -> I64:
    """Which k candidates to keep, by greedy k-means++ over them, each with its mass."""
    candidates, mass = candidates[mass > 0], mass[mass > 0]
    few = SeedingProblem(HostData(points.subset(candidates), mass), k, rng=rng)
    return candidates[sample_rows(few, trials=greedy_trials(k)).indices]
