"""Refinements: how seeded centres are improved, by the names of ``KMeans(algorithm=...)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvariates.data.host_data import HOST_ROWS
from kvariates.data.rows import F64
from kvariates.numerics.draws import draw_proportional
from kvariates.refining.hartigan import hartigan
from kvariates.refining.lloyd import LloydResult, RefineProblem, Step, StopRule
from kvariates.refining.minibatch import minibatch
from kvariates.tables import Entry, Table

# ---- Random swaps of centres: Lloyd ends at a local optimum, and a swap can leave it -------------
#
# A swap moves a random centre to a row drawn in proportion to its cost; Lloyd follows, and the
# better of the two results is kept (Franti 2018, "Efficiency of random swap clustering"). A
# trial ends early when `OUTLOOK` more iterations like its last one would not reach the best
# cost.


SWAPS = 7
OUTLOOK = 3


@dataclass
class SwapTrial:
    """The callback of one run of Lloyd. `asked`: the user's callback said stop."""

    rule: StopRule
    best: float
    cost: float = math.inf  # of the iteration before
    asked: bool = False

    def __call__(self, step: Step) -> bool:
        self.asked = self.rule.callback is not None and self.rule.callback(step)
        before, self.cost = self.cost, step.statistics.cost
        hopeless = self.cost - OUTLOOK * (before - self.cost) > self.best
        return self.asked or hopeless


def lloyd_with_swaps(p: RefineProblem) -> LloydResult:
    """Lloyd, then `SWAPS` swaps, each with Lloyd. The cost never ends above Lloyd's.

    `n_iter` is that of the result that is kept.
    """
    best, centers, limit = None, p.centers, math.inf
    for _ in range(1 + SWAPS):
        trial = SwapTrial(p.stop, limit)
        found = p.lloyd(p.data, centers, replace(p.stop, callback=trial), "auto")
        if best is None or found.inertia < best.inertia:
            best, limit = found, found.inertia
        if trial.asked or limit == 0:
            break
        centers = swapped(p, best)
    assert best is not None  # noqa: S101
    return best


def swapped(p: RefineProblem, end: LloydResult) -> F64:
    """The centres of a result, a random one of them replaced by a row."""
    centers = end.centers.astype(np.float64)
    cost = p.data.rows.costs(centers, end.labels)
    mass = cost if p.data.weight is None else cost * p.data.weight
    centers[p.rng.integers(len(centers))] = p.data.rows.take(draw_proportional(mass, 1, p.rng))[0]
    return centers


# ---- The table of refinements ------------------------------------------------------------------


Refinement = str | Callable[[RefineProblem], LloydResult]
"""The scan (see `data.assigners`) with which Lloyd is all of it, or a function."""

DISTANCES = frozenset({"squared distances"}) | HOST_ROWS
FREE_CENTERS = frozenset({"free centers"}) | HOST_ROWS
SAME = "The same result as lloyd."

REFINEMENTS: Table[Refinement] = Table(
    "algorithm",
    {
        "auto": Entry("auto", f"Lloyd with or without bounds, whichever is faster. {SAME}"),
        "lloyd": Entry("lloyd", "Lloyd: every row is compared with every centre."),
        "elkan": Entry(
            "elkan",
            f"Lloyd with a bound for each row and centre, which takes memory. {SAME}",
            DISTANCES,
        ),
        "hamerly": Entry("hamerly", f"Lloyd with one bound for each row. {SAME}", DISTANCES),
        "yinyang": Entry("yinyang", f"Lloyd with sixteen bounds for each row. {SAME}", DISTANCES),
        "hartigan": Entry(
            hartigan, "Lloyd, then moves of single rows that lower the cost.", FREE_CENTERS
        ),
        "swap": Entry(
            lloyd_with_swaps,
            f"Lloyd, then {SWAPS} times: a random centre moves to another row, Lloyd again, and "
            "the better result is kept.",
            DISTANCES,
        ),
        "minibatch": Entry(
            minibatch,
            "Samples of 1024 rows, for large X; the cost is somewhat higher.",
            DISTANCES,
        ),
    },
)
