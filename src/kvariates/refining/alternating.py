"""Medoids of vectors, moved as Lloyd moves means: assign, then move each to where its points are.

A cluster's continuous median is cheap: coordinates' medians (L1), Weiszfeld's iteration (L2), the
mean direction (cosine). The medoid moves to one of the points closest to it if that lowers the
cluster's cost, so the total never rises. It finds no better *set* of clusters: swaps do that.
"""

from __future__ import annotations

import numpy as np

from kvariates.data.metric_spaces import Ints, Vectors
from kvariates.data.rows import F64, Floats
from kvariates.refining.swaps import MedoidState

ROWS = 1024  # of a cluster that its median is taken over
TRIED = 4  # points closest to the median
WEISZFELD = 8  # steps
ROUNDS = 10
GAIN = 1e-4  # of the cost: a round that saves less is the last


def alternate(state: MedoidState, space: Vectors, most: int, rng: np.random.Generator) -> int:
    """Move medoids until it hardly helps; how many moves were made, `most` at most."""
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
        better = _better(space, rows, state, rng)
        if better is not None and better not in state.medoids:
            state.medoids[slot] = better
            moved += 1
    return moved


def _better(space: Vectors, rows: Ints, state: MedoidState, rng: np.random.Generator) -> int | None:
    """A point that costs these rows less than their medoid does."""
    weight = np.ones(len(rows)) if state.weight is None else state.weight[rows]
    if not weight.any():
        return None
    some = rng.choice(len(rows), ROWS, p=weight / weight.sum()) if len(rows) > ROWS else None
    near = space.at[rows]
    part, mass = (near, weight) if some is None else (near[some], np.ones(ROWS))
    middle = MIDDLES[space.metric](part, mass).astype(space.dtype)[None]
    # Points without demand may serve it best: then all are looked at, not the cluster's own alone.
    whole = state.universe == len(state.point)
    pool = near if whole else space.X
    far = Vectors(middle, space.metric, pool).distances(np.zeros(1, dtype=np.int64))[0]
    closest = np.argpartition(far, min(TRIED, len(far) - 1))[:TRIED]
    tried = state.point[rows[closest]] if whole else closest
    table = Vectors(np.ascontiguousarray(space.X[tried]), space.metric, near)
    costs = (table.distances(np.arange(len(tried))) * weight).sum(axis=1)
    best = int(np.argmin(costs))
    now = float(np.sum(state.near.cost[rows] * weight))
    return int(tried[best]) if costs[best] < now else None


def _coordinate_medians(rows: Floats, weight: F64) -> F64:
    order = np.argsort(rows, axis=0)
    sums = np.cumsum(weight[order], axis=0)
    place = (sums < sums[-1] / 2).sum(axis=0)
    out: F64 = np.take_along_axis(rows, np.take_along_axis(order, place[None], 0), 0)[0]
    return out


def _weiszfeld(rows: Floats, weight: F64) -> F64:
    rows = rows.astype(np.float64)
    middle: F64 = (weight[:, None] * rows).sum(axis=0) / weight.sum()
    for _ in range(WEISZFELD):
        far = np.sqrt(((rows - middle) ** 2).sum(axis=1))
        pull = weight / np.maximum(far, 1e-9 * (far.max() + 1e-300))
        middle = (pull[:, None] * rows).sum(axis=0) / pull.sum()
    return middle


def _direction(rows: Floats, weight: F64) -> F64:
    middle: F64 = (weight[:, None] * rows).sum(axis=0)
    length = float(np.sqrt(np.sum(middle * middle)))
    return middle / length if length > 0 else rows[0].astype(np.float64)


MIDDLES = {"manhattan": _coordinate_medians, "euclidean": _weiszfeld, "cosine": _direction}
