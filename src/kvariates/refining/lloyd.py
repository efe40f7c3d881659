"""Lloyd's loop: label every row with its nearest centre, move every centre to its rows' mean.

How the nearest centre is found is an argument (`assigners`), how a mean becomes a centre is
another (`unit`: put it back on the sphere).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.geometry.euclidean import Floats, Labels, Space, total_cost
from kvariates.refining.assigners import ASSIGNERS

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """What is known after one iteration."""

    iteration: int
    centers: Floats  # where the rows were measured from
    labels: Labels
    changed: int
    shift: float  # sum of the squared movements of the centres; 0 if no label changed


@dataclass(frozen=True)
class Refined:
    centers: Floats
    labels: Labels
    inertia: float
    n_iter: int
    strict: bool  # no label changed in the last iteration


class Tally:
    """Weighted sums of the rows of each cluster, kept up to date by moving the rows that changed.

    Moves leave rounding behind, so the sums are made afresh before more than n have piled up.
    """

    def __init__(self, space: Space, weight: F64 | None, k: int) -> None:
        self._space, self._weight = space, weight
        self.sums = np.zeros((k, space.d))
        self.weights = np.zeros(k)
        self.counts = np.zeros(k, dtype=np.int64)
        self._moves = space.n

    def update(self, before: Labels, labels: Labels, changed: int) -> None:
        self._moves += 2 * changed
        afresh = self._moves > self._space.n
        _native.update(
            self._space.rows, self._weight, before, labels, afresh,
            self.sums, self.weights, self.counts,
        )  # fmt: skip
        if afresh:
            self._moves = 0

    def relocate(self, centers: Floats, labels: Labels) -> None:
        """Give every empty cluster one of the rows farthest from their centres."""
        empty = np.flatnonzero(self.counts == 0)
        cost = self._space.own_cost(centers, labels)
        if self._weight is not None:
            cost[self._weight == 0] = 0
        far = np.argpartition(cost, -len(empty))[-len(empty) :]
        far = far[np.argsort(-cost[far], kind="stable")]
        for cluster, row in zip(empty, far, strict=True):
            if cost[row] == 0:
                break  # only duplicates of centres are left
            weight = 1.0 if self._weight is None else self._weight[row]
            x = self._space.take(np.array([row]))[0].astype(np.float64) * weight
            self.sums[labels[row]] -= x
            self.weights[labels[row]] -= weight
            self.sums[cluster], self.weights[cluster] = x, weight
        self._moves = self._space.n + 1  # no longer the sums of `labels`

    def centers(self, before: Floats, unit: bool) -> Floats:
        """The new centres; a cluster with nothing in it keeps its old one."""
        out = before.copy()
        scale = np.sqrt(np.einsum("ij,ij->i", self.sums, self.sums)) if unit else self.weights
        full = (self.weights > 0) & (scale > 0)
        out[full] = self.sums[full] / scale[full, None]
        return out


def refine(
    space: Space,
    centers: Floats,
    weight: F64 | None,
    *,
    algorithm: str,
    max_iter: int,
    tol: float,
    unit: bool = False,
    on_step: Callable[[Step], bool] | None = None,
) -> Refined:
    """Iterate until nothing changes, or not enough, or too often. `centers` are not changed.

    That is: until no label changes, the centres' squared shift is at most `tol`, `max_iter`
    iterations are done, or `on_step` returns True.

    Pre: centers have the rows' dtype; weight is None or float64.
    """
    k = len(centers)
    assigner = ASSIGNERS[algorithm](space, k)
    tally = Tally(space, weight, k)
    labels = np.full(space.n, -1, dtype=np.int32)
    before = labels.copy()
    moved: NDArray[np.float32] | None = None
    strict = False
    for iteration in range(max_iter):
        changed, _ = assigner.assign(centers, moved, labels)
        strict = changed == 0
        here, shift = centers, 0.0
        if not strict:
            tally.update(before, labels, changed)
            before[:] = labels
            if not tally.counts.all():
                tally.relocate(centers, labels)
            centers = tally.centers(here, unit)
            moved, shift = movement(here, centers)
        stop = on_step is not None and on_step(Step(iteration, here, labels, changed, shift))
        if strict or stop or shift <= tol:
            break
    if not strict:
        assigner.assign(centers, moved, labels)
    inertia = total_cost(space.own_cost(centers, labels), weight)
    return Refined(centers, labels, inertia, iteration + 1, strict)


def movement(before: Floats, after: Floats) -> tuple[NDArray[np.float32], float]:
    """How far each centre went, rounded up, and the sum of the squares."""
    step = after.astype(np.float64) - before.astype(np.float64)
    squares = np.einsum("ij,ij->i", step, step)
    moved = np.sqrt(squares).astype(np.float32)
    return np.nextafter(moved, np.float32(np.inf)), float(squares.sum())
