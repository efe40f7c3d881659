"""From k medoids to better ones, at any size: which search runs where.

| points | search |
|---|---|
| all distances fit into MATRIX_BYTES | eager swaps over the matrix, to a local optimum |
| a graph of up to PATIENT nodes | eager swaps by truncated searches, to a local optimum |
| more vectors | the same over a sample of SAMPLE points; then, over all, medoids are moved within \
their clusters (`alternating`) and swapped with drawn candidates |
| a larger graph, a slow callable | drawn swaps |

Pre: medoids are distinct points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvariates import _native
from kvariates.geometry.euclidean import F64
from kvariates.geometry.metric import Called, Ints, Matrix, MetricSpace, Rows, Vectors
from kvariates.refining.alternating import alternate
from kvariates.refining.swaps import (
    BLOCK,
    TOL,
    Drawn,
    Everyone,
    Searched,
    State,
    improving,
    perturbed,
    search,
    sweep,
)

MATRIX_BYTES = 2**30
CALLS = 2 * 10**6  # of a callable, to fill a matrix
PATIENT = 50_000  # nodes of a graph up to which every one is a candidate
SAMPLE = 8_192
DRAWS = 256  # drawn candidates in a row, and as many as there are medoids, that must all be in vain
ALPHA = 1e-3  # a drawn swap must save ALPHA / k of the cost


@dataclass(frozen=True)
class Job:
    """What is searched. `space` measures at the demand only; `point` says which points that is."""

    space: MetricSpace
    weight: F64 | None
    point: Ints
    universe: int
    restarts: int
    max_swaps: int
    rng: np.random.Generator

    @property
    def whole(self) -> bool:
        """Every point is measured at."""
        return self.space.n == self.universe


def job(
    space: MetricSpace, weight: F64 | None, *, restarts: int, max_swaps: int,
    rng: np.random.Generator,
) -> Job:  # fmt: skip
    """Leave out what has no demand, and make the matrix if it fits."""
    universe, point = space.n, np.arange(space.n)
    if weight is not None and isinstance(space, Rows) and not weight.all():
        point = np.flatnonzero(weight)
        space, weight = space.onto(point), weight[point]
    if isinstance(space, Rows) and _fits(space):
        space = _compact(space.matrix())
    if weight is not None and (weight == 1).all():
        weight = None
    return Job(space, weight, point, universe, restarts, max_swaps, rng)


def _compact(matrix: Matrix) -> Matrix:
    """The same distances in half the memory, where float32 holds them all, as it does integers."""
    if matrix.dtype == np.float32:
        return matrix
    narrow = np.empty(matrix.D.shape, dtype=np.float32)
    return Matrix(narrow) if _native.narrow(matrix.D, narrow) else matrix


def _fits(space: Rows) -> bool:
    cells = space.universe * space.n
    return cells * space.dtype.itemsize <= MATRIX_BYTES and (
        not isinstance(space, Called) or cells <= CALLS
    )


def refine(task: Job, medoids: Ints) -> Searched:
    """Swap and move medoids by the search that fits the space."""
    if isinstance(task.space, Matrix):
        return _settled(task, task.space, medoids)
    if not isinstance(task.space, Rows) and task.universe <= PATIENT:
        return _with_restarts(task, medoids, _eager(task))
    if isinstance(task.space, Vectors):
        return _vectors(task, task.space, medoids)
    return _with_restarts(task, medoids, _drawn(task, len(medoids)), ALPHA / len(medoids))


def _settled(task: Job, matrix: Matrix, medoids: Ints) -> Searched:
    order = task.rng.permutation(task.universe)
    return sweep(
        matrix, medoids, task.weight, task.point, order,
        restarts=task.restarts, max_swaps=task.max_swaps, rng=task.rng,
    )  # fmt: skip


def _eager(task: Job) -> Everyone:
    return Everyone(task.rng.permutation(task.universe), BLOCK)


def _drawn(task: Job, k: int, close: bool = True) -> Drawn:
    return Drawn(BLOCK, DRAWS + k, task.rng, close)


def _vectors(task: Job, space: Vectors, medoids: Ints) -> Searched:
    if space.n > SAMPLE:
        medoids = _on_a_sample(task, space, medoids)
    state = State.of(space, medoids, task.weight, task.point)
    moves = alternate(state, space, task.rng)
    found = search(
        state, _drawn(task, len(medoids), False), improving(ALPHA / len(medoids)), task.max_swaps
    )
    moves += alternate(state, space, task.rng)
    return Searched(state.medoids, state.near, state.cost, found.n_swaps + moves, False)


def _with_restarts(
    task: Job, medoids: Ints, proposals: Everyone | Drawn, tol: float = TOL
) -> Searched:
    def again(state: State) -> Searched:
        return search(state, proposals, improving(tol), task.max_swaps)

    state = State.of(task.space, medoids, task.weight, task.point)
    return perturbed(again(state), state, again, task.restarts, task.rng)


def _on_a_sample(task: Job, space: Vectors, medoids: Ints) -> Ints:
    """Medoids that are good for a sample, by weight, that holds the given ones too."""
    share = None if task.weight is None else task.weight / task.weight.sum()
    drawn = task.rng.choice(len(task.point), SAMPLE, p=share)
    rows = np.unique(np.concatenate([task.point[drawn], medoids]))
    # A point counts as often as it was drawn; a medoid that was not, only as a candidate.
    counts = np.bincount(np.searchsorted(rows, task.point[drawn]), minlength=len(rows))
    small = Vectors(np.ascontiguousarray(space.X[rows]), space.metric)
    part = job(
        small, counts.astype(np.float64), restarts=0, max_swaps=task.max_swaps, rng=task.rng
    )  # fmt: skip
    found = refine(replace(part), np.searchsorted(rows, medoids))
    return rows[found.medoids]
