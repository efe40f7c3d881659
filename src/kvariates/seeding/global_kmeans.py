"""Global k-means (Likas et al. 2003): a solution for every k up to K, each made from the last.

    one centre: the mean;  then, for k = 2..K:  add the row c that minimises
        sum_i w_i min(D_i^2, ||x_i - c||^2),   D_i the distance to the k - 1 centres,
    and run Lloyd from those k centres.

| candidates | full  | a step tries                                          | for         |
|------------|-------|-------------------------------------------------------|-------------|
| "all"      | False | every row, by the sum above: up to n^2 distances      | n to 50,000 |
| m          | False | m rows drawn by weight * D^2, by cuts of clusters     | any n       |
| either     | True  | these rows, by Lloyd from each; the best is kept      | small n     |

Unlike in the paper, a drawn row is not added to the centres. With many features it is far from all
other rows, and in text every one is nearer to the old centre than to it, so that the new cluster
would stay this single row. Instead, the best of the drawn rows of a cluster and another row of this
cluster are the start of Lloyd on this cluster alone. The cut that lowers the cost most is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from kvariates.data.exact_sums import unscaled
from kvariates.data.row_costs import RowCosts, choose_unit, stay_limit
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import LloydResult
from kvariates.seeding.sampler import SeedingProblem

CHUNK = 256  # candidates measured in one pass; fewer for few rows, to use less memory than X
EXHAUSTIVE = 10**9  # multiply-adds a step up to which every row is a candidate by default
Candidates = Literal["auto", "all"] | int


def sample_size(n: int) -> int:
    """How many candidates to draw a step: 2 log2 n.

    All of m draws miss a set that holds a share p of the potential with probability (1 - p)^m: for
    n = 100,000 that is 3 % at p = 1/10. So the best draw is nearly always among the best tenth,
    and Lloyd makes up for the rest; a pass over the rows for 33 candidates costs about as much as
    one iteration of Lloyd with 33 centres.
    """
    return max(1, math.ceil(2 * math.log2(n)))


def global_kmeans(
    problem: SeedingProblem, *, candidates: Candidates = "auto", full: bool = False,
    report: Report | None = None,
) -> list[LloydResult]:  # fmt: skip
    """Solutions for 1..k centres, by the problem's `lloyd`. "auto": all rows where that is quick.

    Nothing random is drawn if all rows are candidates.
    """
    rows, weight, lloyd = problem.rows, problem.weight, problem.lloyd
    if candidates == "auto":
        candidates = "all" if rows.n * rows.stored <= EXHAUSTIVE else sample_size(rows.n)
    order = rows.canonical_order()
    solutions = [lloyd(problem.data, rows.take(np.zeros(1, dtype=np.int64)))]  # to the mean
    while len(solutions) < problem.k:
        labels, centers = solutions[-1].labels, solutions[-1].centers.astype(np.float64)
        costs = RowCosts(rows, weight, rows.costs(centers, labels), labels)
        if candidates == "all":
            tried = np.arange(rows.n) if weight is None else np.flatnonzero(weight)
        else:
            tried = draw_candidates(_mass(costs), order, candidates, problem.rng)
        if full:
            starts: Iterable[F64] = (np.vstack([centers, rows.take(i)]) for i in tried[:, None])
        elif candidates == "all":
            best = tried[[np.argmax(_gains(costs, centers, tried))]]
            starts = [np.vstack([centers, rows.take(best)])]
        else:
            starts = [_best_cut(problem, costs, centers, tried)]
        ends = (lloyd(problem.data, start) for start in starts)
        solutions.append(min(ends, key=lambda solution: solution.inertia))
        if report is not None:
            report(Progress("inertia, k =", len(solutions), solutions[-1].inertia))
    return solutions


def _mass(costs: RowCosts) -> F64:
    return costs.cost if costs.weight is None else costs.cost * costs.weight


def draw_candidates(mass: F64, order: I64 | None, size: int, rng: np.random.Generator) -> I64:
    """The different rows among `size` draws by `mass`, in ascending order; one if all are zero."""
    drawn = np.unique(draw_proportional(mass if order is None else mass[order], size, rng))
    return drawn if order is None else np.sort(order[drawn])


def _best_cut(problem: SeedingProblem, costs: RowCosts, centers: F64, tried: I64) -> F64:
    """The centres with one replaced by two, where that lowers the cost of one cluster most."""
    gains, home = _gains(costs, centers, tried), costs.nearest[tried]
    total = np.bincount(costs.nearest, _mass(costs), minlength=len(centers))
    clusters = np.unique(home)
    most, best = -np.inf, centers
    for j in clusters[np.argsort(-total[clusters], kind="stable")]:
        if total[j] <= most:
            break  # no cut lowers the cost of a cluster by more than this cost
        row = tried[home == j][np.argmax(gains[home == j])]
        cut = _cut(problem, np.flatnonzero(costs.nearest == j), row)
        if total[j] - cut.inertia > most:
            most = total[j] - cut.inertia
            best = np.vstack([centers, cut.centers[1]])
            best[j] = cut.centers[0]
    return best


def _cut(problem: SeedingProblem, members: I64, row: int) -> LloydResult:
    """Lloyd on `members` from two of them: `row`, and one drawn by its distance from it."""
    part = problem.data.part(members)
    first = problem.rows.take(np.array([row]))
    away = part.rows.costs(first, np.zeros(part.n, dtype=np.int32))
    mass = away if part.weight is None else away * part.weight
    second = draw_candidates(mass, part.rows.canonical_order(), 1, problem.rng)
    cut: LloydResult = problem.lloyd(part, np.vstack([first, part.take(second)]))
    return cut


def _gains(costs: RowCosts, centers: F64, tried: I64) -> F64:
    """How much each of `tried` would lower the potential as one more centre."""
    rows, gain = costs.rows, np.empty(len(tried))
    exponent = choose_unit(costs)
    # Candidates of one cluster are measured together: rows far from all of them are not read.
    order = np.argsort(costs.nearest[tried], kind="stable")
    size = max(16, min(CHUNK, rows.n // 16))
    for at in range(0, len(tried), size):
        chunk = order[at : at + size]
        fresh = rows.take(tried[chunk])
        gains = costs.gains(fresh, stay_limit(centers, fresh))
        gain[chunk] = [unscaled(each, exponent) for each in gains]
    return gain
