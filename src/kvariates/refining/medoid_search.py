"""Which search for medoids runs on which points.

| points | search |
|---|---|
| all distances fit into MATRIX_BYTES | eager swaps over the matrix, to a local optimum |
| a graph of up to EXHAUSTIVE nodes | eager swaps by truncated searches, to a local optimum |
| more vectors | the same over a sample of up to SAMPLE (or 2 k) points; then, over all, medoids \
are moved within their clusters (`alternate`) and swapped with sampled candidates |
| a larger graph, a slow callable | swaps with sampled candidates |

A search over a sample also seeds on the sample. So a start is either a seeding, a function from a
space and weights to k different points, or such points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvariates.data import metric_spaces as spaces
from kvariates.data.metric_spaces import Ints, MedoidSearchResult, MetricSpace
from kvariates.data.metrics import Vectors
from kvariates.data.rows import F64, Floats
from kvariates.numerics.draws import priority_sample
from kvariates.progress import Report
from kvariates.refining import swaps
from kvariates.refining.swaps import MedoidProblem, SwapSearch

MATRIX_BYTES = 2**30
EXHAUSTIVE = 50_000  # nodes of a graph up to which all are candidates
SAMPLE = 8_192
PATIENCE = 256  # plus k: sampled candidates in a row without a swap that end a search
ALPHA = 1e-3  # a swap with a sampled candidate must save ALPHA / k of the cost
ROWS = 1024  # of a cluster, drawn to compute its median
TRIED = 4  # points closest to the median
WEISZFELD = 8  # steps
ROUNDS = 10
GAIN = 1e-4  # a round that saves less than this part of the cost is the last

Start = Callable[[MetricSpace, F64 | None], Ints] | Ints


@dataclass(frozen=True)
class SearchTask:
    """`problem` measures costs at points of positive weight only, by a matrix if it fits."""

    problem: MedoidProblem
    space: MetricSpace  # all points, for seeding
    weight: F64 | None  # of all points
    k: int
    restarts: int
    max_swaps: int
    rng: np.random.Generator
    report: Report | None = None


def search_task(
    space: MetricSpace, weight: F64 | None, k: int, *, restarts: int, max_swaps: int,
    rng: np.random.Generator, report: Report | None = None,
) -> SearchTask:  # fmt: skip
    """Leave out points of weight zero, and compute the matrix of distances if it fits."""
    measured, mass, points = space, weight, np.arange(space.n)
    if mass is not None and isinstance(measured, spaces.DistanceRows) and not mass.all():
        points = np.flatnonzero(mass)
        measured, mass = measured.measured_at(points), mass[points]
    if isinstance(measured, spaces.DistanceRows) and _matrix_fits(measured):
        measured = measured.matrix().as_float32()
        # Seeding can use the matrix too, except that a cosine tree needs the chords.
        space = measured if measured.n == space.n and not space.half_squares else space
    if mass is not None and (mass == 1).all():
        mass = None
    problem = MedoidProblem(measured, mass, points)
    return SearchTask(problem, space, weight, k, restarts, max_swaps, rng, report)


def _matrix_fits(space: spaces.DistanceRows) -> bool:
    cells = space.n_candidates * space.n
    return cells * space.dtype.itemsize <= MATRIX_BYTES and cells <= space.most_cells


def find_medoids(task: SearchTask, start: Start) -> MedoidSearchResult:
    """Seed, then search by the method that fits the space."""
    problem, rng = task.problem, task.rng
    space = problem.space
    if isinstance(space, Vectors) and space.n > max(SAMPLE, 2 * task.k):
        return _move_and_swap(task, space, _search_sample(task, space, start))
    medoids = start(task.space, task.weight) if callable(start) else start
    if isinstance(space, Vectors):
        return _move_and_swap(task, space, medoids)
    graph = not isinstance(space, spaces.DistanceRows)
    if isinstance(space, spaces.DistanceMatrix) or (graph and space.n_candidates <= EXHAUSTIVE):
        proposals = swaps.AllCandidates(rng.permutation(space.n_candidates), swaps.BLOCK)
        how = SwapSearch(proposals, swaps.Improving(), task.max_swaps, task.restarts, task.report)
    else:
        how = _sampled_swaps(task, close=True)
    return swaps.search(problem, medoids, how, rng)


def _sampled_swaps(task: SearchTask, *, close: bool) -> SwapSearch:
    patience = PATIENCE + task.k
    proposals = swaps.SampledCandidates(swaps.BLOCK, patience, close=close, rng=task.rng)
    choose = swaps.Improving(ALPHA / task.k)
    return SwapSearch(proposals, choose, task.max_swaps, task.restarts, task.report)


def _move_and_swap(task: SearchTask, space: Vectors, medoids: Ints) -> MedoidSearchResult:
    state, most, rng = swaps.MedoidState.of(task.problem, medoids), task.max_swaps, task.rng
    moves = alternate(state, space, most, rng)
    how = replace(_sampled_swaps(task, close=False), max_swaps=most - moves)
    moves += swaps.swap_medoids(state, how).n_swaps
    moves += alternate(state, space, most - moves, rng)
    return MedoidSearchResult(state.medoids, state.near, state.cost, moves, False)


def _search_sample(task: SearchTask, space: Vectors, start: Start) -> Ints:
    """Search over a sample of the points with demand; it contains the given points too."""
    problem, rng, none = task.problem, task.rng, np.empty(0, dtype=np.int64)
    given = none if callable(start) else start
    mass = np.ones(space.n) if problem.weight is None else problem.weight
    # Half of the points are enough, and twice as many as medoids: the sampled ones are different.
    size = max(min(SAMPLE, space.n // 2), 2 * task.k)
    sampled = priority_sample(mass, size, rng)
    drawn = problem.points[sampled.indices]
    # A point of weight zero can be the best medoid.
    more = none if problem.all_measured else rng.integers(space.n_candidates, size=SAMPLE // 4)
    rows = np.unique(np.concatenate([drawn, given, more]))
    weight = np.zeros(len(rows))  # of points that were not drawn: they are only candidates
    weight[np.searchsorted(rows, drawn)] = sampled.weight
    sample = search_task(
        Vectors(np.ascontiguousarray(space.X[rows]), space.metric), weight, task.k,
        restarts=task.restarts, max_swaps=task.max_swaps, rng=rng, report=task.report,
    )  # fmt: skip
    found = find_medoids(sample, start if callable(start) else np.searchsorted(rows, given))
    return rows[found.medoids]


def alternate(state: swaps.MedoidState, space: Vectors, most: int, rng: np.random.Generator) -> int:
    """Move medoids as Lloyd moves means: assign, then move each to its cluster's median.

    The continuous median of a cluster is cheap: medians of the coordinates (L1), Weiszfeld's
    iteration (L2), the mean direction (cosine). The medoid moves to one of the points closest to it
    if that lowers the cluster's cost, so the total cost never rises. Swaps can change which
    clusters there are; these moves hardly do. Ends when a round saves little; returns the number of
    moves, at most `most`.
    """
    moves, before = 0, state.cost
    for _ in range(ROUNDS):
        moved = _round(state, space, most - moves, rng)
        if not moved:
            break
        moves += moved
        state.near = space.two_nearest(state.medoids)
        after = state.cost
        if before - after < GAIN * before:
            break
        before = after
    return moves


def _round(state: swaps.MedoidState, space: Vectors, most: int, rng: np.random.Generator) -> int:
    order = np.argsort(state.near.labels, kind="stable")
    ends = np.cumsum(np.bincount(state.near.labels, minlength=len(state.medoids)))
    moved = 0
    for slot, rows in enumerate(np.split(order, ends[:-1])):
        if len(rows) < 2 or moved >= most:
            continue
        better = _better_medoid(space, rows, state, rng)
        if better is not None and better not in state.medoids:
            state.medoids[slot] = better
            moved += 1
    return moved


def _better_medoid(
    space: Vectors, rows: Ints, state: swaps.MedoidState, rng: np.random.Generator
) -> int | None:
    """A candidate that serves these rows at a lower cost than their medoid, or None."""
    problem = state.problem
    weight = np.ones(len(rows)) if problem.weight is None else problem.weight[rows]
    if not weight.any():
        return None
    some = rng.choice(len(rows), ROWS, p=weight / weight.sum()) if len(rows) > ROWS else None
    points = space.at[rows]
    part, mass = (points, weight) if some is None else (points[some], np.ones(ROWS))
    median = MEDIANS[space.metric](part, mass).astype(space.dtype)[None]
    # A point of weight zero can be the best medoid: then all candidates are compared.
    pool = points if problem.all_measured else space.X
    far = Vectors(median, space.metric, pool).distances(np.zeros(1, dtype=np.int64))[0]
    closest = np.argpartition(far, min(TRIED, len(far) - 1))[:TRIED]
    tried = problem.points[rows[closest]] if problem.all_measured else closest
    table = Vectors(np.ascontiguousarray(space.X[tried]), space.metric, points)
    costs = (table.distances(np.arange(len(tried))) * weight).sum(axis=1)
    best = int(np.argmin(costs))
    now = float(np.sum(state.near.cost[rows] * weight))
    return int(tried[best]) if costs[best] < now else None


def _coordinate_medians(rows: Floats, weight: F64) -> F64:
    order = np.argsort(rows, axis=0)
    sums = np.cumsum(weight[order], axis=0)
    middle = (sums < sums[-1] / 2).sum(axis=0)
    out: F64 = np.take_along_axis(rows, np.take_along_axis(order, middle[None], 0), 0)[0]
    return out


def _weiszfeld(rows: Floats, weight: F64) -> F64:
    rows = rows.astype(np.float64)
    median: F64 = (weight[:, None] * rows).sum(axis=0) / weight.sum()
    for _ in range(WEISZFELD):
        far = np.sqrt(((rows - median) ** 2).sum(axis=1))
        pull = weight / np.maximum(far, 1e-9 * (far.max() + 1e-300))
        median = (pull[:, None] * rows).sum(axis=0) / pull.sum()
    return median


def _mean_direction(rows: Floats, weight: F64) -> F64:
    return _on_sphere((weight[:, None] * rows).sum(axis=0), rows)


def _median_direction(rows: Floats, weight: F64) -> F64:
    """The median of straight distances, moved to the sphere."""
    return _on_sphere(_weiszfeld(rows, weight), rows)


def _on_sphere(point: F64, rows: Floats) -> F64:
    length = float(np.sqrt(np.sum(point * point)))
    return point / length if length > 0 else rows[0].astype(np.float64)


MEDIANS = {
    "manhattan": _coordinate_medians, "euclidean": _weiszfeld, "cosine": _mean_direction,
    "haversine": _median_direction,
}  # fmt: skip
