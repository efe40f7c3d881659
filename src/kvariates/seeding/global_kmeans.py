"""Global k-means (Likas et al. 2003): a solution for every k up to K, each made from the last.

    one centre: the mean;  then, for k = 2..K:  add the row c that minimises
        sum_i w_i min(D_i^2, ||x_i - c||^2),   D_i the distance to the k - 1 centres,
    and run Lloyd from those k centres.

| candidates | full  | a step tries                                          | for         |
|------------|-------|-------------------------------------------------------|-------------|
| "all"      | False | every row, by the sum above: up to n^2 distances      | n to 50,000 |
| m          | False | m rows drawn by weight * D^2, by the sum above        | any n       |
| either     | True  | these rows, by Lloyd from each; the best is kept   | small n     |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows
from kvariates.refining.lloyd import StopRule, refine

I64 = NDArray[np.int64]

CHUNK = 256  # candidates measured in one pass; for few rows fewer, so that they weigh less than X


@dataclass(frozen=True)
class Solution:
    centers: F64
    labels: Labels  # the nearest centres
    cost: float


RunLloyd = Callable[[F64], Solution]


def lloyd_on(rows: Rows, weight: F64 | None, stop: StopRule, *, unit: bool = False) -> RunLloyd:
    """Lloyd on these rows, as a function of the centres to start from."""

    def run(centers: F64) -> Solution:
        end = refine(rows, centers, weight, stop, unit=unit)
        return Solution(end.centers.astype(np.float64), end.labels, end.inertia)

    return run


def sample_size(n: int) -> int:
    """How many candidates to draw a step: 2 log2 n.

    All of m draws miss a set that holds a share p of the potential with probability (1 - p)^m: for
    n = 100,000 that is 3 % at p = 1/10. So the best draw is nearly always among the best tenth,
    and what is left between it and the very best row, Lloyd does; a pass over the rows for 33
    candidates costs about as much as one iteration of Lloyd with 33 centres.
    """
    return max(1, math.ceil(2 * math.log2(n)))


def global_kmeans(
    space: Rows,
    k: int,
    weight: F64 | None,
    lloyd: RunLloyd,
    *,
    candidates: Literal["all"] | int,
    full: bool = False,
    rng: np.random.Generator,
) -> list[Solution]:
    """Solutions for 1..k centres. `lloyd` takes centres and returns where Lloyd ends.

    `rng` is not used if all rows are candidates. Pre: 1 <= k; weight is None or float64.
    """
    order = space.canonical_order()  # draws do not depend on how rows are shuffled
    solutions = [lloyd(space.take(np.zeros(1, dtype=np.int64)))]  # from any row to the mean
    while len(solutions) < k:
        last = solutions[-1]
        cost = space.costs(last.centers, last.labels)
        if candidates == "all":
            rows = np.arange(space.n) if weight is None else np.flatnonzero(weight)
        else:
            rows = _drawn(cost if weight is None else cost * weight, order, candidates, rng)
        if not full:
            rows = rows[[np.argmax(_gains(space, weight, last, cost, rows))]]
        starts = (np.vstack([last.centers, space.take(row)]) for row in rows[:, None])
        trials = (lloyd(start) for start in starts)
        solutions.append(min(trials, key=lambda solution: solution.cost))
    return solutions


def _drawn(mass: F64, order: I64 | None, size: int, rng: np.random.Generator) -> I64:
    """Different rows among `size` draws in proportion to `mass`; one row if there is none."""
    sums = np.cumsum(mass if order is None else mass[order])
    # Rounding can carry a draw past the end: the last row that adds anything is the last place.
    last = int(np.searchsorted(sums, sums[-1]))
    places = np.searchsorted(sums, rng.random(size) * sums[-1], side="right")
    places = np.unique(np.minimum(places, last))
    return places if order is None else np.sort(order[places])


def _gains(space: Rows, weight: F64 | None, last: Solution, cost: F64, rows: I64) -> F64:
    """How much each of `rows` would lower the potential as one more centre."""
    gain = np.empty(len(rows))
    sums = np.empty(-(-space.n // _native.DRAW_TILE))
    hits = _native.Hits()
    old = Rows.of(last.centers)
    # Candidates of one cluster go together: rows far from all of them are not read.
    order = np.argsort(last.labels[rows], kind="stable")
    size = max(16, min(CHUNK, space.n // 16))
    for at in range(0, len(rows), size):
        chunk = order[at : at + size]
        fresh = space.take(rows[chunk])
        # ||c - c(x)|| >= 2 ||x - c(x)||: x stays with c(x). Rounded towards looking.
        limit = old.distances(fresh, squared=True).min(axis=1) * (1 - 1e-6) / 4
        part = np.empty(len(chunk))
        _native.gains(space.view, None, fresh, limit, cost, last.labels, weight, sums, part, hits)
        gain[chunk] = part
    return gain
