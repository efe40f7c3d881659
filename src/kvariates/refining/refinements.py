"""Refinements: how seeded centres are improved, by the names of ``KMeans(algorithm=...)``."""

from __future__ import annotations

from collections.abc import Callable

from kvariates.data.protocol import HOST_ROWS
from kvariates.refining.center_swaps import SWAPS, lloyd_with_swaps
from kvariates.refining.hartigan import hartigan
from kvariates.refining.lloyd import LloydResult, RefineProblem
from kvariates.refining.minibatch import minibatch
from kvariates.tables import Entry, Table

Refinement = Callable[[RefineProblem], LloydResult]


def lloyd_with(scan: str) -> Refinement:
    """Lloyd with this scan of `data.scans`."""
    return lambda p: p.lloyd(p.data, p.centers, p.stop, scan)


DISTANCES = frozenset({"squared distances"}) | HOST_ROWS
FREE_CENTERS = frozenset({"free centers"}) | HOST_ROWS
SAME = "The same result as lloyd."

REFINEMENTS: Table[Refinement] = Table(
    "algorithm",
    {
        "auto": Entry(
            lloyd_with("auto"), f"Lloyd with or without bounds, whichever is faster. {SAME}"
        ),
        "lloyd": Entry(lloyd_with("lloyd"), "Lloyd: every row is compared with every centre."),
        "elkan": Entry(
            lloyd_with("elkan"),
            f"Lloyd with a bound for each row and centre, which takes memory. {SAME}",
            DISTANCES,
        ),
        "hamerly": Entry(
            lloyd_with("hamerly"), f"Lloyd with one bound for each row. {SAME}", DISTANCES
        ),
        "yinyang": Entry(
            lloyd_with("yinyang"), f"Lloyd with sixteen bounds for each row. {SAME}", DISTANCES
        ),
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
            FREE_CENTERS,
        ),
    },
)
