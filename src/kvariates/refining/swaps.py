"""k-median by swaps (Arya et al. 2004): replace a medoid by another point while the cost falls.

One loop (`swap_medoids`). *Proposals* give the next candidates, a *chooser* picks one of their
swaps:

| search | proposals | chooser |
|---|---|---|
| best swap (Fan et al. 2023, Algorithm 1) | `AllCandidates` in one block | `Improving` |
| eager swaps | `AllCandidates` in small blocks | `Improving` |
| sampled swaps, for large n | `SampledCandidates` | `Improving` |
| private (`private_methods.private_swaps`) | all, a fixed number of times | the exponential \
mechanism |

One pass over the distances of a block of candidates gives the changes of the cost for all slots
(`MetricSpace.swap_changes`). Over a matrix the eager search runs in native code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from kvariates.data import metric_spaces
from kvariates.data.metric_spaces import Ints, MedoidSearchResult, MetricSpace
from kvariates.data.rows import F64, TwoNearest, total_cost
from kvariates.numerics.draws import draw_proportional
from kvariates.progress import Progress, Report

BLOCK = 16  # candidates that an eager search compares before it makes the best of their swaps
TOL = 1e-12  # a swap must save more than this part of the cost; less may be rounding
QUIET_BLOCKS = 64  # blocks of candidates without a swap, after which progress is reported
CLOSE = 8  # points drawn for one candidate close to its medoid


@dataclass(frozen=True)
class MedoidProblem:
    """Points with weights to be served by medoids. Point i of `space` is candidate `points[i]`."""

    space: MetricSpace
    weight: F64 | None
    points: Ints

    @property
    def all_measured(self) -> bool:
        """Costs are measured at every candidate."""
        return self.space.n_candidates == len(self.points)


@dataclass
class MedoidState:
    """The medoids of a running search, and the two nearest of every point."""

    problem: MedoidProblem
    medoids: Ints
    near: TwoNearest

    @classmethod
    def of(cls, problem: MedoidProblem, medoids: Ints) -> MedoidState:
        return cls(problem, medoids.copy(), problem.space.two_nearest(medoids))

    @property
    def cost(self) -> float:
        cost, weight = self.near.cost.astype(np.float64, copy=False), self.problem.weight
        if weight is None:
            return total_cost(cost, None)
        # The cost of a point without weight may be infinite.
        return total_cost(np.where(weight > 0, cost, 0.0), weight)

    def shares(self) -> F64:
        """Weight * cost. If some points with weight have infinite costs: their weights only."""
        cost = self.near.cost.astype(np.float64)
        weight = np.ones(len(cost)) if self.problem.weight is None else self.problem.weight
        infinite = ~np.isfinite(cost)
        if (weight[infinite] > 0).any():
            return np.where(infinite, weight, 0.0)
        return np.where(infinite, 0.0, cost) * weight

    def changes(self, candidates: Ints) -> F64:
        problem, k = self.problem, len(self.medoids)
        return problem.space.swap_changes(candidates, self.near, k, problem.weight)

    def swap(self, candidate: int, slot: int) -> None:
        self.medoids[slot] = candidate
        self.near = self.problem.space.update_two_nearest(self.near, self.medoids, slot)

    def perturbed(self, rng: np.random.Generator) -> MedoidState:
        """A copy with some medoids replaced by points drawn by weight * cost."""
        medoids, share = self.medoids.copy(), self.shares()
        for _ in range(n_replaced(len(medoids))):
            fresh = self.problem.points[rng.choice(len(share), p=share / share.sum())]
            if fresh not in medoids:
                medoids[rng.integers(len(medoids))] = fresh
        return MedoidState.of(self.problem, medoids)


def n_replaced(k: int) -> int:
    """How many of k medoids a restart replaces."""
    return min(5, 1 + k // 4)


class Proposals(Protocol):
    exhaustive: bool  # `patience` candidates in a row are all candidates
    patience: float  # the search ends after so many candidates in a row without a swap

    def next(self, state: MedoidState) -> Ints:
        """Candidates to compare next; medoids among them are ignored."""


class MedoidSwap(NamedTuple):
    candidate: int  # an index into the candidates that were compared
    slot: int


Chooser = Callable[[F64, float], MedoidSwap | None]
"""From the changes (candidates x slots) and the cost to a swap, or None for no swap."""


@dataclass(frozen=True)
class Improving:
    """The chooser that takes the best swap, if it lowers the cost by more than tol times it."""

    tol: float = TOL

    def __call__(self, changes: F64, cost: float) -> MedoidSwap | None:
        if not changes.size:
            return None
        candidate, slot = np.unravel_index(int(np.argmin(changes)), changes.shape)
        limit = -self.tol * cost if np.isfinite(cost) else 0.0
        return MedoidSwap(int(candidate), int(slot)) if changes[candidate, slot] < limit else None


class AllCandidates:
    """All candidates in turn, in the given order, `block` at a time.

    The search ends after `patience` candidates without a swap; by default, after all of them.
    """

    exhaustive = True

    def __init__(self, order: Ints, block: int, patience: float | None = None) -> None:
        self.order, self.block, self._next = order, block, 0
        self.patience = float(len(order)) if patience is None else patience

    def next(self, state: MedoidState) -> Ints:
        part = self.order[self._next : self._next + self.block]
        self._next = (self._next + len(part)) % len(self.order)
        return part


class SampledCandidates:
    """Candidates drawn by weight * cost; with `close`, half of them close to their medoids."""

    exhaustive = False

    def __init__(self, block: int, patience: int, *, close: bool, rng: np.random.Generator) -> None:
        self.block, self.patience, self._rng, self.close = block, float(patience), rng, close

    def next(self, state: MedoidState) -> Ints:
        far = self.block // 2 if self.close else self.block
        rows = np.concatenate([self._far(state, far), self._close(state, self.block - far)])
        found = [state.problem.points[rows]]
        if not state.problem.all_measured:  # a point without weight can be the best medoid
            n_candidates = state.problem.space.n_candidates
            found.append(self._rng.integers(n_candidates, size=self.block // 2))
        return np.unique(np.concatenate(found))

    def _far(self, state: MedoidState, size: int) -> Ints:
        share = state.shares()
        return draw_proportional(share, size if share.any() else 0, self._rng)

    def _close(self, state: MedoidState, size: int) -> Ints:
        """Of CLOSE uniform points, the one of least cost relative to its cluster's mean cost."""
        near = state.near
        sizes = np.bincount(near.labels, minlength=len(state.medoids))
        means = np.bincount(near.labels, near.cost, len(state.medoids)) / np.maximum(sizes, 1)
        tried = self._rng.integers(len(near.cost), size=(size, CLOSE))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.nan_to_num(near.cost[tried] / means[near.labels[tried]], nan=np.inf)
        share[near.cost[tried] == 0] = np.inf
        rows: Ints = tried[np.arange(size), np.argmin(share, axis=1)]
        return rows


@dataclass(frozen=True)
class SwapSearch:
    """How to search: the candidates, the choice among their swaps, and how often."""

    proposals: Proposals
    choose: Chooser = Improving()
    max_swaps: int = 10**9  # in a search or in one restart
    restarts: int = 0
    report: Report | None = None  # called for each swap, and now and then between swaps

    def tell(self, swaps: int, state: MedoidState) -> bool:
        """Report the cost after so many swaps; whether the search should end."""
        return self.report is not None and self.report(Progress("cost, swap", swaps, state.cost))


def swap_medoids(state: MedoidState, how: SwapSearch) -> MedoidSearchResult:
    """Make the chosen swaps until `patience` candidates in a row brought none."""
    proposals, unchanged, swaps, blocks = how.proposals, 0, 0, 0
    while unchanged < proposals.patience and swaps < how.max_swaps:
        candidates = proposals.next(state)
        fresh = candidates[~np.isin(candidates, state.medoids)]
        chosen = how.choose(state.changes(fresh), state.cost) if len(fresh) else None
        unchanged += max(len(candidates), 1)
        if chosen is not None:
            before = state.cost
            state.swap(int(fresh[chosen.candidate]), chosen.slot)
            # With rounding errors a swap may save nothing; such swaps must not go on forever.
            unchanged, swaps = 0 if state.cost < before else unchanged, swaps + 1
        blocks += 1
        if (chosen is not None or blocks % QUIET_BLOCKS == 0) and how.tell(swaps, state):
            break
    local_optimum = proposals.exhaustive and unchanged >= proposals.patience
    return MedoidSearchResult(state.medoids, state.near, state.cost, swaps, local_optimum)


def search(
    problem: MedoidProblem, medoids: Ints, how: SwapSearch, rng: np.random.Generator
) -> MedoidSearchResult:
    """Swap medoids; then, for each restart, replace some at random, swap again, keep the better.

    An eager search over a matrix runs in native code, which makes the same swaps but draws its
    restarts by a generator of its own.
    """
    space, proposals, choose = problem.space, how.proposals, how.choose
    if (
        isinstance(space, metric_spaces.DistanceMatrix)
        and isinstance(proposals, AllCandidates)
        and isinstance(choose, Improving)
    ):
        return space.eager_swaps(
            medoids, problem.points, problem.weight, proposals.order, block=proposals.block,
            tol=choose.tol, max_swaps=how.max_swaps, restarts=how.restarts,
            replaced=n_replaced(len(medoids)),
            seed=int(rng.integers(2**63)) if how.restarts else 0,
        )  # fmt: skip
    best = swap_medoids(MedoidState.of(problem, medoids), how)
    swaps = best.n_swaps
    for _ in range(how.restarts):
        if best.cost == 0:
            break
        state = MedoidState(problem, best.medoids, best.near).perturbed(rng)
        tried = swap_medoids(state, how)
        swaps += tried.n_swaps
        best = tried if tried.cost < best.cost else best
    return replace(best, n_swaps=swaps)
