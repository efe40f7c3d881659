"""On-line k-means of Liberty, Sriharsha and Sviridenko (2014), to compare with.

A row becomes a centre, for ever, with probability min(D^2 / f, 1), D being its distance to the
centres so far, and is then assigned to its nearest centre, for ever. The facility cost f doubles
after 3 k (1 + ln n) new centres. There are two variants:

| variant | first centres | first facility cost | n |
|---|---|---|---|
| `semi_online` | none | w / (k ln n) | given |
| `fully_online` | the first k + 1 different rows | w / k | rows so far |

w is a lower bound on the optimal cost: it is given, or it is half the least squared distance of the
first centres. Neither variant stops at k centres.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.workloads import Array

from kvariates.data.rows import Rows

CHUNK = 1024  # rows whose distances to the known centres are computed together


@dataclass(frozen=True, eq=False)
class OnlineRun:
    """`cost`: of every row at the centre that was nearest when the row arrived.

    `lower_bound`: on the optimal cost, given or found.
    """

    centers: Array
    cost: float
    lower_bound: float


@dataclass(frozen=True, eq=False)
class _Start:
    """What is known before row number `row`."""

    centers: list[Array]
    facility: float
    row: int
    lower_bound: float


def fully_online(X: Array, k: int, rng: np.random.Generator) -> OnlineRun:
    """Nothing needs to be known. Pre: X has more than k different rows."""
    centers: list[Array] = []
    row = 0
    while len(centers) <= k:
        if not any(np.array_equal(X[row], center) for center in centers):
            centers.append(X[row])
        row += 1
    apart = ((np.array(centers)[:, None] - np.array(centers)) ** 2).sum(axis=2)
    least = float(apart[np.triu_indices(k + 1, 1)].min()) / 2
    return _rest(X, _Start(centers, least / k, row, least), lambda n: _limit(k, n), rng)


def semi_online(X: Array, k: int, lower_bound: float, rng: np.random.Generator) -> OnlineRun:
    """`lower_bound`: on the cost of any k centres; positive."""
    n = len(X)
    start = _Start([], lower_bound / (k * math.log(n)), 0, lower_bound)
    return _rest(X, start, lambda _: _limit(k, n), rng)


def _limit(k: int, n: int) -> float:
    return 3 * k * (1 + math.log(n))


def _rest(
    X: Array, start: _Start, limit: Callable[[int], float], rng: np.random.Generator
) -> OnlineRun:
    """Read all rows from the start on. `limit`: of new centres at one cost, by rows so far."""
    centers, facility, opened, cost = list(start.centers), start.facility, 0, 0.0
    for first in range(start.row, len(X), CHUNK):
        rows = X[first : first + CHUNK]
        u, near = rng.random(len(rows)), _nearest(rows, centers)
        done = 0
        while len(opens := np.flatnonzero(u[done:] * facility < near[done:])):
            new = done + int(opens[0])
            cost += float(near[done:new].sum())
            centers.append(rows[new])
            done, opened = new + 1, opened + 1
            near[done:] = np.minimum(near[done:], ((rows[done:] - rows[new]) ** 2).sum(axis=1))
            if opened >= limit(first + done):
                facility, opened = 2 * facility, 0
        cost += float(near[done:].sum())
    return OnlineRun(np.array(centers), cost, start.lower_bound)


def _nearest(rows: Array, centers: list[Array]) -> Array:
    """The squared distance of every row to its nearest centre."""
    if not centers:
        return np.full(len(rows), np.inf)
    known = np.array(centers, dtype=np.float64)
    measured = Rows.of(np.ascontiguousarray(rows, dtype=np.float64))
    return measured.costs(known, measured.nearest(known))
