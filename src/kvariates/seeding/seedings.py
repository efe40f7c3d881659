"""The seedings by the names they have in ``KMeans(init=...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvariates import guarantees
from kvariates.data.host_data import HOST_ROWS, PASSES, PEERS, ROUNDS, HostData
from kvariates.data.hst_tree import hst_seed
from kvariates.data.rows import F64, Rows, total_cost
from kvariates.numerics.draws import I64, CumulativeMass
from kvariates.refining.lloyd import LloydResult
from kvariates.seeding.global_kmeans import global_kmeans
from kvariates.seeding.sampler import (
    EuclideanPotential,
    SeedingProblem,
    Seeds,
    euclidean_potential,
    greedy_trials,
    sample_rows,
)
from kvariates.tables import Entry, Table

# ---- k-means|| (Bahmani et al. 2012): many candidates per round, few rounds, then k of them ------
#
#     candidates = one row, drawn by weight
#     in each of a few rounds:  phi = potential of the candidates
#                               take every row x with probability 1 - exp(-l w(x) D^2(x) / phi)
#     weigh every candidate by the rows nearest to it; choose k of them by greedy k-means++
#
# with l = oversampling * k. The paper takes x with probability min(1, l w(x) D^2(x) / phi). The two
# differ only for rows with a large share of the potential; with this one, a row of weight w has the
# same chance as w equal rows. A round draws Poisson(l) rows by weight * D^2 with replacement, which
# gives exactly these probabilities.


N_ROUNDS = 5
OVERSAMPLING = 1.0


def kmeans_parallel(
    problem: SeedingProblem, *, rounds: int = N_ROUNDS, oversampling: float = OVERSAMPLING
) -> Seeds:
    """Seed k centres. Pre: 0 <= rounds, 0 < oversampling.

    What the rounds leave short of k different candidates is drawn by D^2, one by one.
    """
    p = problem.canonical()
    sizes = p.rng.poisson(oversampling * p.k, size=rounds)
    potential = euclidean_potential(p.data, 1 + int(sizes.sum()) + p.k)
    candidates = np.concatenate(draw_candidates(potential, sizes, p.k, p.rng))
    mass = potential.masses()
    candidates, mass = candidates[mass > 0], mass[mass > 0]
    few = SeedingProblem(HostData(p.data.subset(candidates), mass), p.k, rng=p.rng)
    chosen = candidates[sample_rows(few, trials=greedy_trials(p.k)).indices]
    return Seeds(p.data.take(chosen), p.original(chosen))


def draw_candidates(
    potential: EuclideanPotential, sizes: I64, k: int, rng: np.random.Generator
) -> list[I64]:
    """Add candidates, at least k different ones if there are; return the rows of each round."""
    taken = [_add_rows(potential, np.array([potential.draw(rng)]))]
    taken += [_add_rows(potential, draw_round(potential, size, rng)) for size in sizes]
    missing = k - np.count_nonzero(potential.masses())
    taken += [_add_rows(potential, np.array([potential.draw(rng)])) for _ in range(missing)]
    return taken


def draw_round(potential: EuclideanPotential, size: int, rng: np.random.Generator) -> I64:
    """The different rows among `size` draws, in ascending order; none if the potential is zero."""
    drawn = np.unique(potential.draw_many(size, rng))
    return drawn if potential.total() > 0 else drawn[:0]


def _add_rows(potential: EuclideanPotential, indices: I64) -> I64:
    potential.add(potential.points.take(indices))
    return indices


# ---- LS++ (Lattanzi & Sohler 2019): swap a centre for a row while that lowers the cost -----------
#
#     repeat:  draw a row p with probability proportional to w D^2
#              find the centre whose replacement by p leaves the least cost
#              replace it if that helps
#
# With d1 <= d2 a row's squared distances to its two nearest centres and dp to p, a swap of centre j
# for p leaves the row min(dp, d2) if j is its nearest centre and min(dp, d1) if not. So all k swaps
# are weighed in one pass over three numbers a row, and only d1, d2 and whose they are need be kept.


EPS = float(np.finfo(np.float64).eps)


def search_steps(k: int) -> int:
    """Steps after which the planted centres of the usual benchmark sets are found."""
    return max(25, 4 * k)


@dataclass(frozen=True)
class Swap:
    center: int  # the centre that is given up
    cost: float  # of all rows afterwards


class LocalSearchState:
    """The centres and, exactly, every row's two nearest: ties go to the lowest index.

    `cost`: of all rows; `swaps`: how many were made.
    """

    def __init__(self, rows: Rows, weight: F64 | None, centers: F64) -> None:
        self.points, self.weight = rows, weight
        self.centers, self.swaps = centers.copy(), 0
        self.two = rows.two_nearest(centers)
        self._measure()

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a row in proportion to weight * cost."""
        return int(self._mass.draw(1, rng)[0])

    def best_swap(self, to_p: F64) -> Swap:
        """The swap for p, at these costs from all rows, that leaves the least cost."""
        kept = np.minimum(to_p, self.two.cost)
        more = np.minimum(to_p, self.two.second_cost)
        more -= kept
        if self.weight is not None:
            more *= self.weight
        loss = np.bincount(self.two.labels, more, minlength=len(self.centers))
        j = int(np.argmin(loss))
        return Swap(j, total_cost(kept, self.weight) + float(loss[j]))

    def swap(self, j: int, p: F64, to_p: F64) -> None:
        """Put p in the place of centre j and update every row's two nearest."""
        two = self.two
        loses = (two.labels == j) | (two.second == j)
        rows = np.flatnonzero(loses | (to_p <= two.second_cost))
        # Where p is nearer than the second was, the third nearest need not be known.
        lost = rows[loses[rows] & (to_p[rows] >= two.second_cost[rows])]
        self.centers[j] = p
        self.swaps += 1
        self._exchange(j, rows, to_p[rows])
        if len(lost):
            found = self.points.subset(lost).two_nearest(self.centers)
            two.labels[lost], two.second[lost] = found.labels, found.second
            two.cost[lost], two.second_cost[lost] = found.cost, found.second_cost
        self._measure()

    def _exchange(self, j: int, rows: I64, to_p: F64) -> None:
        """In these rows' two nearest, replace the old centre j by the new one."""
        first, cost = self.two.labels[rows], self.two.cost[rows]
        second, second_cost = self.two.second[rows], self.two.second_cost[rows]
        second_cost[(first == j) | (second == j)] = np.inf
        cost = np.where(first == j, self.two.second_cost[rows], cost)
        first = np.where(first == j, second, first)
        wins = (to_p < cost) | ((to_p == cost) & (j < first))
        places = (to_p < second_cost) | ((to_p == second_cost) & (j < second))
        self.two.labels[rows] = np.where(wins, j, first)
        self.two.cost[rows] = np.where(wins, to_p, cost)
        self.two.second[rows] = np.where(wins, first, np.where(places, j, second))
        self.two.second_cost[rows] = np.where(wins, cost, np.where(places, to_p, second_cost))

    def _measure(self) -> None:
        self.cost = total_cost(self.two.cost, self.weight)
        costs = self.two.cost if self.weight is None else self.weight * self.two.cost
        self._mass = CumulativeMass(costs)


def local_search(problem: SeedingProblem, centers: F64, *, steps: int) -> LocalSearchState:
    """Try `steps` swaps; fewer if every row comes to lie on a centre. `centers` are not changed."""
    p = problem.canonical()
    state = LocalSearchState(p.rows, p.weight, centers)
    zeros = np.zeros(p.rows.n, dtype=np.int32)
    for _ in range(steps):
        row = state.draw(p.rng)
        if not state.cost > 0:
            break
        candidate = p.rows.take(np.array([row]))
        to_candidate = p.rows.costs(candidate, zeros)
        swap = state.best_swap(to_candidate)
        if swap.cost < state.cost * (1 - p.rows.n * EPS):  # more than a sum of n terms is off
            state.swap(swap.center, candidate[0], to_candidate)
    return state


# ---- The table of seedings -----------------------------------------------------------------------


def forgy(n: int, k: int, weight: F64 | None, rng: np.random.Generator) -> I64:
    """K different rows, picked one after the other in proportion to their weights.

    Pre: k <= n. Raises ValueError when fewer than k rows have a positive weight.
    """
    arrival = rng.exponential(size=n)
    if weight is not None:
        if np.count_nonzero(weight) < k:
            some = int(np.count_nonzero(weight))
            raise ValueError(
                f"init='random' needs {k} rows of positive weight, but only {some} "
                f"{'row has' if some == 1 else 'rows have'} one; lower n_clusters or give more "
                "rows a positive weight."
            )
        # The k first of independent exponential times of rate w are a weighted draw without
        # replacement.
        with np.errstate(divide="ignore"):
            arrival /= weight
    first = np.argpartition(arrival, k - 1)[:k]
    return first[np.argsort(arrival[first])]


def _greedy(p: SeedingProblem) -> F64:
    return sample_rows(p, trials=greedy_trials(p.k)).centers


def _random(p: SeedingProblem) -> F64:
    return p.density.sample(p.rows, forgy(p.rows.n, p.k, p.weight, p.rng), p.weight, p.rng)


def _local_search(p: SeedingProblem) -> F64:
    return local_search(p, _greedy(p), steps=search_steps(p.k)).centers


def _global(p: SeedingProblem) -> F64:
    """The better of k-means++ and of global k-means, both refined.

    k-means++ draws first, so its rows are those of init="k-means++" with the same generator.
    """
    greedy = p.lloyd(p.data, _greedy(p))
    grown = global_kmeans(p)[-1]
    best: LloydResult = min(grown, greedy, key=lambda solution: solution.inertia)
    return best.centers.astype(np.float64)


POTENTIAL = frozenset({"potential"})
DISTANCES = POTENTIAL | {"squared distances"}

SEEDINGS: Table[Callable[[SeedingProblem], F64]] = Table(
    "init",
    {
        "k-means++": Entry(
            _greedy,
            "k-means++ with several draws for each centre, of which the best is kept (greedy), as "
            "in scikit-learn.",
            POTENTIAL | PASSES,
            lost="with l draws for each centre, the cost is on average at most a constant times "
            "(l ln k)^3 times the lowest, and the constant is not given (Grunau et al. 2023).",
        ),
        "d2": Entry(
            lambda p: sample_rows(p).centers,
            "Plain k-means++: one draw for each centre. It carries a guarantee.",
            POTENTIAL | PASSES,
            theorem="Theorem 2",
        ),
        "k-means||": Entry(
            lambda p: kmeans_parallel(p).centers,
            "Draws many rows in few rounds, and then k of them; for many clusters.",
            DISTANCES | ROUNDS,
            # With k-means++ for the last step: O(log k), after enough rounds; five are made here.
            lost="the published bound needs a number of rounds that grows with the data, and has a "
            "constant that is not given (Bahmani et al. 2012).",
        ),
        "ls++": Entry(
            _local_search,
            'Improves "k-means++" by swaps of a centre for a row; slower, with a lower cost.',
            DISTANCES | HOST_ROWS | {"free centers"},
            # 100000 k log log k steps, from plain k-means++; here the start is greedy, too.
            lost="the published bound needs far more steps than are made here (Lattanzi and Sohler "
            "2019).",
        ),
        "global": Entry(
            _global,
            "Adds one centre at a time where it lowers the cost most; the result of "
            '"k-means++" is kept if it is better. Slower, with a lower cost.',
            DISTANCES | HOST_ROWS,
            lost="no bound on global k-means is known. With Lloyd, one run and the same "
            "random_state its cost is at most that of init='k-means++'.",
        ),
        "hst": Entry(
            lambda p: p.rows.take(hst_seed(p.rows, p.k, p.weight, 2, p.rng)),
            "Embeds the rows in a random tree and solves the problem there; its time hardly "
            "depends on n_clusters.",
            DISTANCES | HOST_ROWS,
            lost="the published bound is for k-median, not for k-means (Fan et al. 2023).",
        ),
        "random": Entry(
            _random,
            "Rows picked uniformly, all different.",
            POTENTIAL | HOST_ROWS,
            lost="rows that are drawn uniformly can miss a far cluster, so no bound holds.",
        ),
        "dk-means++": Entry(
            lambda p: p.data.drawn_by_peers(p.k, p.rng),  # Nock et al. 2016, Algorithm 1
            "Draws a peer by its potential, and a row of this peer uniformly. Peers show k rows "
            "in all, and their potentials.",
            DISTANCES | PEERS,
            theorem="Theorem 4",
        ),
    },
)
# Of rows in memory, and of peers: who shows the rows of "k-means++" and "k-means||" shows all
# candidates.
HOST_SEEDINGS, PEER_SEEDINGS = SEEDINGS.without(PEERS), SEEDINGS.without(HOST_ROWS)


def explain_guarantees() -> str:
    """Say in plain words what is promised for which init, and why not for the others."""
    promise = (
        "on average over the random draws, the cost is at most 8 (2 + ln k) times the lowest cost "
        "of any k centres; a worst case, for all data"
    )
    return "\n".join(
        f"init={name!r}: {entry.lost or f'{promise} ({entry.theorem}; {guarantees.PAPER}).'}"
        for name, entry in HOST_SEEDINGS.items()
    )
