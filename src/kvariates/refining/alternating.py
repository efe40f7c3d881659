"""Move medoids of vectors as Lloyd moves means: assign, then move each to its cluster's median.

The continuous median of a cluster is cheap: medians of the coordinates (L1), Weiszfeld's iteration
(L2), the mean direction (cosine). The medoid moves to one of the points closest to it if that
lowers the cluster's cost, so the total cost never rises. Swaps (`swaps`) can change which clusters
there are; these moves hardly do.
"""

from __future__ import annotations

import numpy as np

from kvariates.data.metric_spaces import Ints, Vectors
from kvariates.data.rows import F64, Floats
from kvariates.refining.swaps import MedoidState

ROWS = 1024  # of a cluster, drawn to compute its median
TRIED = 4  # points closest to the median
WEISZFELD = 8  # steps
ROUNDS = 10
GAIN = 1e-4  # a round that saves less than this part of the cost is the last


def alternate(state: MedoidState, space: Vectors, most: int, rng: np.random.Generator) -> int:
    """Move medoids until a round saves little; return the number of moves, at most `most`."""
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


def _round(state: MedoidState, space: Vectors, most: int, rng: np.random.Generator) -> int:
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
    space: Vectors, rows: Ints, state: MedoidState, rng: np.random.Generator
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
    total: F64 = (weight[:, None] * rows).sum(axis=0)
    length = float(np.sqrt(np.sum(total * total)))
    return total / length if length > 0 else rows[0].astype(np.float64)


MEDIANS = {"manhattan": _coordinate_medians, "euclidean": _weiszfeld, "cosine": _mean_direction}
