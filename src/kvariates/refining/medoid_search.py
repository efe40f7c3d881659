"""From k medoids to better ones, at any size: which search runs where.

| points | search |
|---|---|
| all distances fit into MATRIX_BYTES | eager swaps over the matrix, to a local optimum |
| a graph of up to PATIENT nodes | eager swaps by truncated searches, to a local optimum |
| more vectors | the same over a sample of SAMPLE points; then, over all, medoids are moved within \
their clusters (`alternating`) and swapped with drawn candidates |
| a larger graph, a slow callable | drawn swaps |

A start is a function from a space and weights to k different points of it, or such points: where
the search begins on a sample, so does the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvariates import _native
from kvariates.data.hst_tree import squared
from kvariates.data.metric_spaces import (
    CallableMetric,
    DistanceMatrix,
    DistanceRows,
    Ints,
    MetricSpace,
    Vectors,
)
from kvariates.data.rows import F64
from kvariates.refining.alternating import alternate
from kvariates.refining.swaps import (
    BLOCK,
    TOL,
    AllCandidates,
    MedoidSearchResult,
    MedoidState,
    SampledCandidates,
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


Start = Callable[[MetricSpace, F64 | None], Ints] | Ints


@dataclass(frozen=True)
class SearchTask:
    """What is searched. `space` measures at the demand only; `point` says which points that is."""

    space: MetricSpace
    weight: F64 | None
    point: Ints
    full: MetricSpace  # all points, for the start
    everywhere: F64 | None  # their weights
    restarts: int
    max_swaps: int
    rng: np.random.Generator

    @property
    def universe(self) -> int:
        return self.full.n

    @property
    def whole(self) -> bool:
        """Every point is measured at."""
        return self.space.n == self.universe


def search_task(
    space: MetricSpace, weight: F64 | None, *, restarts: int, max_swaps: int,
    rng: np.random.Generator,
) -> SearchTask:  # fmt: skip
    """Leave out what has no demand, and make the matrix if it fits."""
    full, everywhere, point = space, weight, np.arange(space.n)
    if weight is not None and isinstance(space, DistanceRows) and not weight.all():
        point = np.flatnonzero(weight)
        space, weight = space.onto(point), weight[point]
    if isinstance(space, DistanceRows) and _fits(space):
        space = _compact(space.matrix())
        # Where all distances are at hand, no start needs to measure again. (Cosine trees do.)
        full = space if space.n == full.n and not squared(full) else full
    if weight is not None and (weight == 1).all():
        weight = None
    return SearchTask(space, weight, point, full, everywhere, restarts, max_swaps, rng)


def _compact(matrix: DistanceMatrix) -> DistanceMatrix:
    """The same distances in half the memory, where float32 holds them all, as it does integers."""
    if matrix.dtype == np.float32:
        return matrix
    narrow = np.empty(matrix.D.shape, dtype=np.float32)
    return DistanceMatrix(narrow) if _native.to_float32(matrix.D, narrow) else matrix


def _fits(space: DistanceRows) -> bool:
    cells = space.universe * space.n
    return cells * space.dtype.itemsize <= MATRIX_BYTES and (
        not isinstance(space, CallableMetric) or cells <= CALLS
    )


def refine(task: SearchTask, start: Start) -> MedoidSearchResult:
    """Swap and move medoids by the search that fits the space."""
    if isinstance(task.space, Vectors) and task.space.n > SAMPLE:
        return _vectors(task, task.space, _on_a_sample(task, task.space, start))
    medoids = start(task.full, task.everywhere) if callable(start) else start
    if isinstance(task.space, DistanceMatrix):
        return _settled(task, task.space, medoids)
    if not isinstance(task.space, DistanceRows) and task.universe <= PATIENT:
        return _with_restarts(task, medoids, _eager(task))
    if isinstance(task.space, Vectors):
        return _vectors(task, task.space, medoids)
    return _with_restarts(
        task, medoids, _drawn(task, len(medoids), close=True), ALPHA / len(medoids)
    )


def _settled(task: SearchTask, matrix: DistanceMatrix, medoids: Ints) -> MedoidSearchResult:
    order = task.rng.permutation(task.universe)
    return sweep(
        matrix, medoids, task.weight, task.point, order,
        restarts=task.restarts, max_swaps=task.max_swaps, rng=task.rng,
    )  # fmt: skip


def _eager(task: SearchTask) -> AllCandidates:
    return AllCandidates(task.rng.permutation(task.universe), BLOCK)


def _drawn(task: SearchTask, k: int, *, close: bool) -> SampledCandidates:
    return SampledCandidates(BLOCK, DRAWS + k, close=close, rng=task.rng)


def _vectors(task: SearchTask, space: Vectors, medoids: Ints) -> MedoidSearchResult:
    state = MedoidState.of(space, medoids, task.weight, task.point, task.universe)
    moves = alternate(state, space, task.max_swaps, task.rng)
    proposals, chooser = _drawn(task, len(medoids), close=False), improving(ALPHA / len(medoids))
    moves += search(state, proposals, chooser, task.max_swaps - moves).n_swaps
    moves += alternate(state, space, task.max_swaps - moves, task.rng)
    return MedoidSearchResult(state.medoids, state.near, state.cost, moves, False)


def _with_restarts(
    task: SearchTask, medoids: Ints, proposals: AllCandidates | SampledCandidates, tol: float = TOL
) -> MedoidSearchResult:
    def again(state: MedoidState) -> MedoidSearchResult:
        return search(state, proposals, improving(tol), task.max_swaps)

    state = MedoidState.of(task.space, medoids, task.weight, task.point, task.universe)
    return perturbed(again(state), state, again, task.restarts, task.rng)


def _on_a_sample(task: SearchTask, space: Vectors, start: Start) -> Ints:
    """Medoids that are good for a sample, by weight, that holds the given ones too."""
    given = np.empty(0, dtype=np.int64) if callable(start) else start
    share = None if task.weight is None else task.weight / task.weight.sum()
    drawn = task.rng.choice(len(task.point), SAMPLE, p=share)
    spare = np.empty(0, dtype=np.int64)
    if not task.whole:  # points without demand may serve it best
        spare = task.rng.integers(task.universe, size=SAMPLE // 4)
    rows = np.unique(np.concatenate([task.point[drawn], given, spare]))
    # A point counts as often as it was drawn; one that was not, only as a candidate.
    counts = np.bincount(np.searchsorted(rows, task.point[drawn]), minlength=len(rows))
    small = Vectors(np.ascontiguousarray(space.X[rows]), space.metric)
    mass, most = counts.astype(np.float64), task.max_swaps
    part = search_task(small, mass, restarts=task.restarts, max_swaps=most, rng=task.rng)
    found = refine(part, start if callable(start) else np.searchsorted(rows, given))
    return rows[found.medoids]
