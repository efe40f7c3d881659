"""The private methods of k-median by the names of ``PrivateKMedian(method=...)``.

A method with other choices is an object: ``PrivateKMedian(..., method=DemandCells(first=40))``.
`theorem` is the proof page in `privacy/proofs`. `docs/kmedian.md` has the figures: "cells" had the
least cost in every row, so "auto" is "cells".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.demand_candidates import DemandCandidates
from kvariates.private_methods.demand_cells import DemandCells
from kvariates.private_methods.demand_swaps import private_search, public_candidates
from kvariates.private_methods.demand_task import (
    DemandMethod,
    DemandResult,
    DemandTask,
    check_count,
    check_number,
)
from kvariates.private_methods.demand_tree import LeveledTree, level_costs, noisy_tree
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.tables import Entry, Table


@dataclass(frozen=True)
class DemandLocalSearch:
    """DP local search from public points (Gupta et al. 2010).

    Parameters
    ----------
    n_swaps : int, default=20
        T. Every swap and the last choice have equal parts of the budget.
    start : {"random", "k-median++", "hst"}, default="random"
        A seeding of medoids, on all points.
    n_candidates : int or None, default=None
        How many points may become medoids. None: all, or of many points 2,048.
    """

    n_swaps: int = 20
    start: str = "random"
    n_candidates: int | None = None

    def __post_init__(self) -> None:
        check_count("n_swaps", self.n_swaps, least=1)
        check_count("n_candidates", self.n_candidates, least=1)
        if self.start not in MEDOID_SEEDINGS:
            raise ValueError(f"start must be one of {sorted(MEDOID_SEEDINGS)}; got {self.start!r}.")

    def __call__(self, task: DemandTask) -> DemandResult:
        medoids = MEDOID_SEEDINGS[self.start].run(task.space, task.k, None, task.rng)
        candidates = public_candidates(task, medoids, self.n_candidates)
        accountant = Accountant()
        costs = task.cost.split([1.0] * (self.n_swaps + 1))
        path = private_search(task, medoids, candidates, costs, accountant)
        charges = tuple(accountant.charges)
        return DemandResult(path.medoids, charges, path.sets, reach=path.reach)

    def with_theory(self, n: int, k: int) -> DemandLocalSearch:
        """With T = 6 k ln n swaps among all points (Gupta et al. 2010)."""
        return replace(self, n_swaps=max(1, math.ceil(6 * k * math.log(n))), n_candidates=n)


@dataclass(frozen=True)
class DemandHst:
    """DP-HST (Fan et al. 2023, Algorithms 6 and 7): noisy counts on a tree, then DP local search.

    Parameters
    ----------
    levels : int, default=8
        L, the levels of the tree below its root that are counted; more, if they have too few
        leaves.
    decay : float, default=0.5
        The budget of a level divided by that of the level above. It is 1/2 as printed; but the
        parts add up to the budget.
    seed_share : float, default=0.5
        The share of the budget of the counts.
    n_swaps : int, default=20
        T. 0 is no local search, and all of the budget goes to the counts.
    n_candidates : int or None, default=None
        As in `DemandLocalSearch`.
    """

    levels: int = 8
    decay: float = 0.5
    seed_share: float = 0.5
    n_swaps: int = 20
    n_candidates: int | None = None

    def __post_init__(self) -> None:
        check_count("levels", self.levels, least=1)
        check_count("n_swaps", self.n_swaps, least=0)
        check_count("n_candidates", self.n_candidates, least=1)
        check_number("decay", self.decay, 1e-3, 1e3)
        check_number("seed_share", self.seed_share, 0.0, 1.0)

    def __call__(self, task: DemandTask) -> DemandResult:
        accountant, leveled = Accountant(), LeveledTree.grown(task, self.levels)
        if not leveled.levels:  # all points are at the same place: there is nothing to count
            swaps = max(1, self.n_swaps)
            return DemandLocalSearch(n_swaps=swaps, n_candidates=self.n_candidates)(task)
        seeding, searching = task.cost, []
        if self.n_swaps:
            each = (1 - self.seed_share) / (self.n_swaps + 1)
            seeding, *searching = task.cost.split([self.seed_share, *[each] * (self.n_swaps + 1)])
        costs = level_costs(seeding, len(leveled.levels), self.decay)
        noisy = noisy_tree(task, leveled, costs, accountant)
        medoids, path, reach = noisy.seeds(task), [], 0.0
        if searching:
            candidates = public_candidates(task, medoids, self.n_candidates, leveled.tree)
            found = private_search(task, medoids, candidates, searching, accountant)
            medoids, path, reach = found.medoids, found.sets, found.reach
        charges = tuple(accountant.charges)
        return DemandResult(medoids, charges, path, reach=reach, warning=noisy.warning)

    def with_theory(self, n: int, k: int) -> DemandHst:
        """All levels of the tree, and T = k ln ln n swaps among all points (Theorem 4.3)."""
        swaps = max(1, math.ceil(k * math.log(max(math.log(n), 1.0))))
        return replace(self, levels=ALL_LEVELS, n_swaps=swaps, n_candidates=n)


ALL_LEVELS = 10**6


PRIVATE_KMEDIAN_METHODS: Table[DemandMethod] = Table(
    "method",
    {
        "auto": Entry(
            DemandCells(),
            'The method with the least cost in tests: "cells".',
            theorem="demand_cells.md",
        ),
        "cells": Entry(
            DemandCells(),
            "Noisy demand of public cells, then of cells where the demand is; k-median on the "
            "estimated demand.",
            theorem="demand_cells.md",
        ),
        "hst": Entry(
            DemandHst(),
            "DP-HST (Fan et al. 2023): noisy counts on a random tree, then private swaps.",
            theorem="hst_counts.md",
        ),
        "local-search": Entry(
            DemandLocalSearch(),
            "Private swaps from random points (Gupta et al. 2010).",
            theorem="local_search.md",
        ),
        "candidates": Entry(
            DemandCandidates(),
            "Candidates of noisy cubes in few dimensions, then a private 1-median of each cell "
            "(Balcan et al. 2017, section 6.2). Euclidean distances only.",
            theorem="demand_candidates.md",
        ),
    },
)
