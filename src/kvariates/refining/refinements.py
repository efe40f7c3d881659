"""Refinements: how seeded centres are improved, by the names of ``KMeans(algorithm=...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.refining.hartigan import hartigan
from kvariates.refining.lloyd import LloydResult, Stop, StopRule
from kvariates.refining.minibatch import minibatch
from kvariates.tables import Entry, Table


@dataclass(frozen=True, eq=False)
class RefineProblem:
    """Centres to improve. `lloyd` is the objective's, with a scan given by name."""

    rows: Rows
    weight: F64 | None
    centers: F64
    stop: StopRule
    lloyd: Callable[[Rows, F64, F64 | None, Stop, str], LloydResult]
    rng: np.random.Generator


Refinement = Callable[[RefineProblem], LloydResult]


def lloyd_with(scan: str) -> Refinement:
    """Lloyd with this scan of `data.scans`."""
    return lambda p: p.lloyd(p.rows, p.centers, p.weight, p.stop, scan)


def _hartigan(p: RefineProblem) -> LloydResult:
    first = lloyd_with("auto")(p)
    stop = p.stop
    then = hartigan(p.rows, first, p.weight, max_iter=stop.max_iter, callback=stop.callback)
    return replace(then, n_iter=first.n_iter + then.n_iter)


def _minibatch(p: RefineProblem) -> LloydResult:
    # Its steps shrink by themselves, so the cost says when to stop, not the shift.
    return minibatch(p.rows, p.centers, p.weight, max_iter=p.stop.max_iter, rng=p.rng)


DISTANCES, FREE_CENTERS = frozenset({"squared distances"}), frozenset({"free centers"})
SAME = "The result is that of Lloyd without bounds."

REFINEMENTS: Table[Refinement] = Table(
    "algorithm",
    {
        "auto": Entry(
            lloyd_with("auto"), f"Lloyd with or without bounds, whichever is faster. {SAME}"
        ),
        "lloyd": Entry(lloyd_with("lloyd"), "Lloyd: every row is compared with every centre."),
        "elkan": Entry(
            lloyd_with("elkan"), f"n_samples * n_clusters float32 bounds. {SAME}", DISTANCES
        ),
        "hamerly": Entry(lloyd_with("hamerly"), f"One bound per row. {SAME}", DISTANCES),
        "yinyang": Entry(lloyd_with("yinyang"), f"Sixteen bounds per row. {SAME}", DISTANCES),
        "hartigan": Entry(
            _hartigan, "Lloyd, then moves of single rows that lower the cost.", FREE_CENTERS
        ),
        "minibatch": Entry(
            _minibatch,
            "Samples of 1024 rows, for large X; the cost is somewhat higher.",
            FREE_CENTERS,
        ),
    },
)
