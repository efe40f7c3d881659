"""The seedings by the names they have in ``KMeans(init=...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvariates import guarantees
from kvariates.data.host_data import HOST_ROWS, PASSES, PEERS, ROUNDS
from kvariates.numerics.draws import F64, I64
from kvariates.seeding.global_kmeans import global_kmeans
from kvariates.seeding.hst import hst_seed
from kvariates.seeding.kmeans_parallel import kmeans_parallel
from kvariates.seeding.local_search import local_search, search_steps
from kvariates.seeding.sampler import greedy_trials
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows
from kvariates.tables import Entry, Table


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
    greedy = p.needed_lloyd(p.host, _greedy(p))
    grown = global_kmeans(p)[-1]
    best = min(grown, greedy, key=lambda solution: solution.inertia)
    return best.centers.astype(np.float64)


def _by_peers(p: SeedingProblem) -> F64:
    """Dk-means++ (Nock et al. 2016, Algorithm 1)."""
    peers: Any = p.data
    centers: F64 = peers.drawn_by_peers(p.k, p.rng)
    return centers


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
            _by_peers,
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
