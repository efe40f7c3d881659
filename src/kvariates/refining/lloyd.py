"""Lloyd's loop: label every row with its nearest centre, move every centre to its rows' mean.

How the nearest centre is found is an argument (`assigners`), how centres move is another (`Move`):
`refine` moves them to exact means and stops when they rest; a private fit moves them to noisy means
and takes the steps it has paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Floats, Labels, Rows, total_cost
from kvariates.refining import assigners


@dataclass(frozen=True)
class Step:
    """What is known after one iteration."""

    iteration: int
    centers: F64  # where the rows were measured from
    labels: Labels
    changed: int
    shift: float  # sum of the squared movements of the centres; 0 if no label changed


@dataclass(frozen=True)
class LloydResult:
    centers: Floats
    labels: Labels
    inertia: float
    n_iter: int
    converged: bool  # no label changed in the last iteration


Move = Callable[[F64, Labels, int, _native.Changes], F64]
"""From centres, the rows' labels, how many changed and which, to the next centres."""


class LloydState:
    """Where the centres are between two steps, and which of them every row is nearest to."""

    def __init__(self, space: Rows, centers: F64, algorithm: str) -> None:
        self.centers = centers
        self.labels = np.full(space.n, -1, dtype=np.int32)
        self._changes = _native.Changes()
        self._assigner = assigners.assigner(algorithm, space, len(centers))
        self._moved: NDArray[np.float32] | None = None

    def steps(self, move: Move, max_iter: int) -> Iterator[Step]:
        """Label and move, `max_iter` times; when to stop before is for who asks for steps."""
        for iteration in range(max_iter):
            here = self.centers
            changed = self._label(here, self._moved)
            self.centers = move(here, self.labels, changed, self._changes)
            self._moved, shift = movement(here, self.centers)
            yield Step(iteration, here, self.labels, changed, shift)

    def rest(self, dtype: np.dtype[Any], converged: bool) -> Floats:
        """The centres in a dtype; `labels` are those of what is handed out from then on.

        `converged`: the labels are those of the centres already.
        """
        rounded = self.centers.astype(dtype)
        final = rounded.astype(np.float64)
        moved = movement(self.centers, final)[0]
        if not converged and self._moved is not None:
            moved = np.nextafter(self._moved + moved, np.float32(np.inf))
        if not converged or not np.array_equal(self.centers, final):
            self._label(final, moved)
        self.centers = final
        return rounded

    def _label(self, centers: F64, moved: NDArray[np.float32] | None) -> int:
        return self._assigner.assign(centers, moved, self.labels, self._changes)[0]


class ClusterSums:
    """Weighted sums of the rows of each cluster, kept up to date by moving the rows that changed.

    Sums carry what rounding takes from them; still, they are made afresh before more than n moves
    have piled up.
    """

    def __init__(self, space: Rows, weight: F64 | None, k: int) -> None:
        self._space, self._weight = space, weight
        self._sums = np.zeros((2, k, space.d))
        self._weights = np.zeros((2, k))
        self.counts = np.zeros(k, dtype=np.int64)
        self._moves = space.n

    def update(self, labels: Labels, changed: int, changes: _native.Changes) -> None:
        self._moves += 2 * changed
        afresh = changes.overflowed or self._moves > self._space.n
        _native.update(
            self._space.view, self._weight, labels, None if afresh else changes,
            self._sums, self._weights, self.counts,
        )  # fmt: skip
        if afresh:
            self._moves = 0

    def relocate(self, centers: F64, labels: Labels) -> None:
        """Give every empty cluster one of the rows farthest from their centres."""
        empty = np.flatnonzero(self.counts == 0)
        cost = self._space.costs(centers, labels)
        if self._weight is not None:
            cost[self._weight == 0] = 0
        far = np.argpartition(cost, -len(empty))[-len(empty) :]
        far = far[np.argsort(-cost[far], kind="stable")]
        for cluster, row in zip(empty, far, strict=True):
            if cost[row] == 0:
                break  # only duplicates of centres are left
            weight = 1.0 if self._weight is None else self._weight[row]
            x = self._space.take(np.array([row]))[0] * weight
            for j, sign in ((labels[row], -1), (cluster, 1)):
                self._sums[0, j] += sign * x
                self._weights[0, j] += sign * weight
                self.counts[j] += sign
        self._moves = self._space.n + 1  # no longer the sums of `labels`

    def centers(self, before: F64, unit: bool) -> F64:
        """The new centres. One without rows goes to the heaviest cluster, as in scikit-learn."""
        sums: F64 = self._sums[0] + self._sums[1]
        weights: F64 = self._weights[0] + self._weights[1]
        scale = np.sqrt(np.einsum("ij,ij->i", sums, sums)) if unit else weights
        full = (self.counts > 0) & (scale > 0)
        if full.all():
            sums /= scale[:, None]
            return sums
        out = before.copy()
        out[full] = sums[full] / scale[full, None]
        out[self.counts == 0] = out[np.argmax(np.where(full, weights, 0))]
        return out


def refine(
    space: Rows,
    centers: F64,
    weight: F64 | None,
    *,
    algorithm: str,
    max_iter: int,
    tol: float,
    unit: bool = False,
    on_step: Callable[[Step], bool] | None = None,
) -> LloydResult:
    """Iterate until nothing changes, or not enough, or too often. `centers` are not changed.

    That is: until no label changes, the centres' squared shift is at most `tol`, `max_iter`
    iterations are done, or `on_step` returns True.

    Steps are taken in float64. Pre: weight is None or float64.
    """
    tally = ClusterSums(space, weight, len(centers))
    walk = LloydState(space, centers, algorithm)

    def to_means(here: F64, labels: Labels, changed: int, changes: _native.Changes) -> F64:
        if changed == 0:
            return here
        tally.update(labels, changed, changes)
        if not tally.counts.all():
            tally.relocate(here, labels)
        return tally.centers(here, unit)

    for step in walk.steps(to_means, max_iter):
        stop = on_step is not None and on_step(step)
        if step.changed == 0 or stop or step.shift <= tol:
            break
    converged = step.changed == 0
    # The centres are handed out in the rows' dtype, and the labels are those of what is handed out.
    rounded = walk.rest(space.dtype, converged)
    inertia = total_cost(space.costs(walk.centers, walk.labels), weight)
    return LloydResult(rounded, walk.labels, inertia, step.iteration + 1, converged)


def handed_out(
    space: Rows, centers: Floats, weight: F64 | None, n_iter: int, converged: bool
) -> LloydResult:
    """These centres in the rows' dtype, with the labels and the cost that are theirs then."""
    rounded = centers.astype(space.dtype)
    exact = rounded.astype(np.float64)
    labels = space.nearest(exact)
    inertia = total_cost(space.costs(exact, labels), weight)
    return LloydResult(rounded, labels, inertia, n_iter, converged)


def movement(before: F64, after: F64) -> tuple[NDArray[np.float32], float]:
    """How far each centre went, rounded up, and the sum of the squares."""
    step = after - before
    squares = np.einsum("ij,ij->i", step, step)
    with np.errstate(over="ignore"):  # infinitely far is a bound too
        moved = np.sqrt(squares).astype(np.float32)
    return np.nextafter(moved, np.float32(np.inf)), float(squares.sum())
