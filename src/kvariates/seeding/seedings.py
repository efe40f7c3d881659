"""Seedings: where a fit starts, by the names of ``KMeans(init=...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.seeding.forgy import forgy
from kvariates.seeding.global_kmeans import Solution, global_kmeans, sample_size
from kvariates.seeding.hst import hst_seed
from kvariates.seeding.kmeans_parallel import kmeans_parallel
from kvariates.seeding.local_search import local_search, search_steps
from kvariates.seeding.sampler import Recipe, greedy_trials, kvariates
from kvariates.tables import Entry, Table

EXHAUSTIVE = 10**9  # multiply-adds a step up to which global k-means tries every row


@dataclass(frozen=True, eq=False)
class SeedingProblem:
    """Rows to seed, in the coordinates of an objective.

    recipe : the objective's probe and density.
    lloyd : Lloyd from given centres to a tolerance that is enough on the way to more centres.
    """

    rows: Rows
    weight: F64 | None
    k: int
    recipe: Recipe
    lloyd: Callable[[F64], Solution]
    rng: np.random.Generator


def candidates(rows: Rows) -> Literal["all"] | int:
    """The rows global k-means tries in each step: all where that is fast."""
    return "all" if rows.n**2 * rows.d <= EXHAUSTIVE else sample_size(rows.n)


def _greedy(p: SeedingProblem) -> F64:
    return kvariates(p.rows, p.k, p.weight, p.recipe, greedy_trials(p.k), p.rng).centers


def _plain(p: SeedingProblem) -> F64:
    return kvariates(p.rows, p.k, p.weight, p.recipe, 1, p.rng).centers


def _random(p: SeedingProblem) -> F64:
    picked = forgy(p.rows, p.k, p.weight, p.rng).indices
    return p.recipe.density.sample(p.rows, picked, p.weight, p.rng)


def _parallel(p: SeedingProblem) -> F64:
    return kmeans_parallel(p.rows, p.k, p.weight, rng=p.rng).centers


def _local_search(p: SeedingProblem) -> F64:
    return local_search(p.rows, _greedy(p), p.weight, steps=search_steps(p.k), rng=p.rng).centers


def _global(p: SeedingProblem) -> F64:
    tried = candidates(p.rows)
    return global_kmeans(p.rows, p.k, p.weight, p.lloyd, candidates=tried, rng=p.rng)[-1].centers


def _tree(p: SeedingProblem) -> F64:
    return p.rows.take(hst_seed(p.rows, p.k, p.weight, 2, p.rng))


DISTANCES = frozenset({"squared distances"})

SEEDINGS: Table[Callable[[SeedingProblem], F64]] = Table(
    "init",
    {
        "k-means++": Entry(
            _greedy,
            "k-means++ with several draws for each centre, of which the best is kept (greedy), as "
            "in scikit-learn.",
            lost="greedy trials change the law Theorem 2 is about; the expected cost is then at "
            "most O(l^3 log^3 k) times the optimum for l trials (Grunau, Ozudogru, Rozhon, Tetek "
            "2023), without explicit constants, and can be worse than the plain one's. init='d2' "
            "is plain.",
        ),
        "d2": Entry(
            _plain,
            "Plain k-means++: one draw for each centre. It carries a guarantee.",
            theorem="Theorem 2",
        ),
        "k-means||": Entry(
            _parallel,
            "Draws many rows in few rounds, and then k of them; for many clusters.",
            DISTANCES,
            lost="k-means|| is within a constant of the seeding it reclusters with, in expectation "
            "(Bahmani et al. 2012), but the constant depends on the rounds and is not explicit. "
            "init='d2' has a bound in numbers.",
        ),
        "ls++": Entry(
            _local_search,
            'Improves "k-means++" by swaps of a centre for a row; slower, with a lower cost.',
            DISTANCES | {"free centers"},
            lost="LS++ is within a constant of the optimum, in expectation, after 100000 k log log "
            "k steps from plain k-means++ (Lattanzi and Sohler 2019); here the steps are fewer and "
            "the start is greedy. init='d2' has a bound in numbers.",
        ),
        "global": Entry(
            _global,
            "Adds one centre at a time where it lowers the cost most; slower, with a lower cost.",
            DISTANCES,
            lost="global k-means is the best in practice, but no bound on it is known.",
        ),
        "hst": Entry(
            _tree,
            "Embeds the rows in a random tree and solves the problem there; its time hardly "
            "depends on n_clusters.",
            DISTANCES,
            lost="for k-median, seeds on a random tree are within O(log n) of the optimum in "
            "expectation (Fan et al. 2023); for k-means no such bound holds, since the expected "
            "squares of distances in the tree have none. init='d2' has a bound in numbers.",
        ),
        "random": Entry(
            _random,
            "Rows picked uniformly, all different.",
            lost="rows picked uniformly can miss a far cluster: no bound holds. init='d2' has one.",
        ),
    },
)
