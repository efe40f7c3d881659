"""k-median by swaps (Arya et al. 2004): while a swap of a medoid for another point helps, make it.

One loop. *Proposals* say which candidates come next, a *chooser* which of their swaps is made:

| search | proposals | chooser |
|---|---|---|
| best swap (Fan et al. 2023, Algorithm 1) | `AllCandidates`, all in one block | `improving` |
| eager swaps | `AllCandidates`, a few a block | `improving` |
| sampled, for large n | `SampledCandidates`: by distance, and close to medoids | `improving` |
| private | `AllCandidates`, all in one block | the exponential mechanism, handed in |

What a block of candidates would change, for every slot, is one pass over their distances
(`MetricSpace.swap_changes`). Over a matrix the eager search is native (`sweep`): the same swaps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from kvariates import _native
from kvariates.data.metric_spaces import DistanceMatrix, Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest, total_cost
from kvariates.numerics.draws import CumulativeMass

BLOCK = 16  # candidates an eager search compares before it makes the best swap among them
TOL = 1e-12  # of the cost: what a swap must save; less is rounding
CLOSE = 8  # points drawn for one candidate that is to lie close to its medoid


@dataclass(frozen=True)
class MedoidSearchResult:
    medoids: Ints
    near: TwoNearest
    cost: float
    n_swaps: int
    settled: bool  # no swap with any candidate helps (not known of drawn ones)


@dataclass
class MedoidState:
    """Where the search is. `point`: which candidate each measured point is."""

    space: MetricSpace
    medoids: Ints
    near: TwoNearest
    weight: F64 | None
    point: Ints
    universe: int  # how many points there are to choose from

    @classmethod
    def of(
        cls, space: MetricSpace, medoids: Ints, weight: F64 | None, point: Ints, universe: int
    ) -> MedoidState:
        return cls(space, medoids.copy(), space.two_nearest(medoids), weight, point, universe)

    @property
    def cost(self) -> float:
        cost = self.near.cost.astype(np.float64, copy=False)
        if self.weight is None:
            return total_cost(cost, None)
        # A point without demand may be out of reach.
        return total_cost(np.where(self.weight > 0, cost, 0.0), self.weight)

    def changes(self, candidates: Ints) -> F64:
        return self.space.swap_changes(candidates, self.near, len(self.medoids), self.weight)

    def swap(self, candidate: int, slot: int) -> None:
        self.medoids[slot] = candidate
        self.near = self.space.swapped(self.near, self.medoids, slot)


def strength(k: int) -> int:
    """How many of k medoids a restart replaces."""
    return min(5, 1 + k // 4)


def shares(state: MedoidState) -> F64:
    """Weight * distance; where points with demand are out of reach, only theirs."""
    cost = state.near.cost.astype(np.float64)
    weight = np.ones(len(cost)) if state.weight is None else state.weight
    lost = ~np.isfinite(cost)
    if (weight[lost] > 0).any():
        return np.where(lost, weight, 0.0)
    return np.where(lost, 0.0, cost) * weight


class Proposals(Protocol):
    def next(self, state: MedoidState) -> Ints:
        """Candidates to look at; those that are medoids already are passed over."""

    @property
    def patience(self) -> float:
        """After so many candidates in a row without a swap the search is over."""


Chooser = Callable[[F64, float], tuple[int, int] | None]
"""Changes (candidate x slot) and the cost -> which swap to make, or None."""


def improving(tol: float = TOL) -> Chooser:
    """The swap that lowers the cost most, if by more than tol times the cost."""

    def choose(changes: F64, cost: float) -> tuple[int, int] | None:
        if not changes.size:
            return None
        candidate, slot = np.unravel_index(int(np.argmin(changes)), changes.shape)
        bar = -tol * cost if np.isfinite(cost) else 0.0
        return (int(candidate), int(slot)) if changes[candidate, slot] < bar else None

    return choose


class AllCandidates:
    """All candidates in turn, in the given order, `block` at a time."""

    def __init__(self, order: Ints, block: int) -> None:
        self.order, self.block, self._at = order, block, 0

    @property
    def patience(self) -> float:
        return len(self.order)

    def next(self, state: MedoidState) -> Ints:
        part = self.order[self._at : self._at + self.block]
        self._at = 0 if self._at + len(part) == len(self.order) else self._at + len(part)
        return part


class SampledCandidates:
    """Candidates by weight * distance; if `close`, half of them close to medoids, to move those."""

    def __init__(self, block: int, patience: int, *, close: bool, rng: np.random.Generator) -> None:
        self.block, self.patience, self._rng, self.close = block, float(patience), rng, close

    def next(self, state: MedoidState) -> Ints:
        far = self.block // 2 if self.close else self.block
        rows = np.concatenate([self._far(state, far), self._close(state, self.block - far)])
        found = [state.point[rows]]
        if state.universe > len(state.point):  # some points have no demand, and may serve it best
            found.append(self._rng.integers(state.universe, size=self.block // 2))
        return np.unique(np.concatenate(found))

    def _far(self, state: MedoidState, size: int) -> Ints:
        mass = CumulativeMass(shares(state))
        return mass.draw(size, self._rng) if mass.total > 0 else np.empty(0, dtype=np.int64)

    def _close(self, state: MedoidState, size: int) -> Ints:
        """Of CLOSE uniform points, the one closest to its medoid by the measure of its cluster."""
        near = state.near
        sizes = np.bincount(near.labels, minlength=len(state.medoids))
        means = np.bincount(near.labels, near.cost, len(state.medoids)) / np.maximum(sizes, 1)
        tried = self._rng.integers(len(near.cost), size=(size, CLOSE))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.nan_to_num(near.cost[tried] / means[near.labels[tried]], nan=np.inf)
        share[near.cost[tried] == 0] = np.inf
        rows: Ints = tried[np.arange(size), np.argmin(share, axis=1)]
        return rows


def search(
    state: MedoidState, proposals: Proposals, chooser: Chooser, max_swaps: int = 10**9
) -> MedoidSearchResult:
    """Make the swaps the chooser picks, until it has passed on `patience` candidates in a row."""
    quiet, swaps = 0, 0
    while quiet < proposals.patience and swaps < max_swaps:
        candidates = proposals.next(state)
        fresh = candidates[~np.isin(candidates, state.medoids)]
        picked = chooser(state.changes(fresh), state.cost) if len(fresh) else None
        quiet += max(len(candidates), 1)
        if picked is not None:
            before = state.cost
            state.swap(int(fresh[picked[0]]), picked[1])
            # Rounding may promise what is not there; going round in circles is no progress.
            quiet, swaps = 0 if state.cost < before else quiet, swaps + 1
    settled = isinstance(proposals, AllCandidates) and quiet >= proposals.patience
    return MedoidSearchResult(state.medoids, state.near, state.cost, swaps, settled)


def sweep(
    space: DistanceMatrix, medoids: Ints, weight: F64 | None, point: Ints, order: Ints, *,
    restarts: int = 0, max_swaps: int = 10**9, tol: float = TOL, rng: np.random.Generator,
) -> MedoidSearchResult:  # fmt: skip
    """`search` with AllCandidates and `improving`, natively; then perturbed restarts."""
    chosen, near = medoids.copy(), TwoNearest.empty(space.n, space.dtype)
    seed = int(rng.integers(2**63)) if restarts else 0
    swaps, cost, settled = _native.eager_swaps(
        space.D, chosen, *near.parts, weight, order, BLOCK, tol, max_swaps,
        restarts, strength(len(medoids)), seed, point,
    )  # fmt: skip
    return MedoidSearchResult(chosen, near, cost, swaps, settled)


def perturbed(
    found: MedoidSearchResult, state: MedoidState,
    again: Callable[[MedoidState], MedoidSearchResult], restarts: int, rng: np.random.Generator,
) -> MedoidSearchResult:  # fmt: skip
    """Restarts for spaces without a matrix: replace some medoids, search again, keep the better."""
    best, total = found, found.n_swaps
    for _ in range(restarts):
        if best.cost == 0:
            break
        medoids = best.medoids.copy()
        share = shares(replace(state, near=best.near))
        for _ in range(strength(len(medoids))):
            fresh = state.point[rng.choice(len(share), p=share / share.sum())]
            if fresh not in medoids:
                medoids[rng.integers(len(medoids))] = fresh
        tried = again(replace(state, medoids=medoids, near=state.space.two_nearest(medoids)))
        total += tried.n_swaps
        best = tried if tried.cost < best.cost else best
    return MedoidSearchResult(best.medoids, best.near, best.cost, total, best.settled)
