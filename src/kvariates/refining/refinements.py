"""Refinements: how seeded centres are improved, by the names of ``KMeans(algorithm=...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.refining.hartigan import hartigan
from kvariates.refining.lloyd import LloydResult, Step
from kvariates.refining.minibatch import minibatch
from kvariates.tables import Entry, Table


@dataclass(frozen=True, eq=False)
class RefineProblem:
    """Centres to improve. `lloyd` runs Lloyd for the objective, with a scan given by name."""

    rows: Rows
    weight: F64 | None
    centers: F64
    max_iter: int
    tol: float
    callback: Callable[[Step], bool] | None
    lloyd: Callable[[RefineProblem, str], LloydResult]
    rng: np.random.Generator


Refinement = Callable[[RefineProblem], LloydResult]


def lloyd_with(scan: str) -> Refinement:
    """Lloyd with this scan of `data.scans`."""
    return lambda problem: problem.lloyd(problem, scan)


def _hartigan(p: RefineProblem) -> LloydResult:
    first = p.lloyd(p, "auto")
    then = hartigan(p.rows, first, p.weight, max_iter=p.max_iter, callback=p.callback)
    return replace(then, n_iter=first.n_iter + then.n_iter)


def _minibatch(p: RefineProblem) -> LloydResult:
    # Its steps shrink by themselves, so the cost says when to stop, not the shift.
    return minibatch(p.rows, p.centers, p.weight, max_iter=p.max_iter, rng=p.rng)


DISTANCES = frozenset({"squared distances"})
FREE_CENTERS = frozenset({"free centers"})

REFINEMENTS: Table[Refinement] = Table(
    "algorithm",
    {
        "auto": Entry(
            lloyd_with("auto"),
            "Lloyd with or without bounds, whichever is faster just now; the result is the same.",
        ),
        "lloyd": Entry(
            lloyd_with("lloyd"), "Lloyd without bounds: every row is compared with every centre."
        ),
        "elkan": Entry(
            lloyd_with("elkan"),
            "Lloyd with n_samples * n_clusters float32 bounds; the result is the same.",
            DISTANCES,
        ),
        "hamerly": Entry(
            lloyd_with("hamerly"), "Lloyd with one bound a row; the result is the same.", DISTANCES
        ),
        "yinyang": Entry(
            lloyd_with("yinyang"),
            "Lloyd with sixteen bounds a row; the result is the same.",
            DISTANCES,
        ),
        "hartigan": Entry(
            _hartigan,
            "Lloyd, and then moves of single rows as long as they lower the cost.",
            FREE_CENTERS,
        ),
        "minibatch": Entry(
            _minibatch,
            "Samples of 1024 rows, for large X; the cost is somewhat higher.",
            FREE_CENTERS,
        ),
    },
)
