"""The coordinator's side of private peers: PDk-means++, then Lloyd with the noise of each peer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kvariates.data.assigners import FloatStatistics, Statistics
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PublicBounds
from kvariates.peers.coordinator import Call, Coordinator, call
from kvariates.peers.peers_data import dk_means_plusplus
from kvariates.peers.questions import Answer
from kvariates.privacy.budget import Loss
from kvariates.privacy.ledger import Charge, Ledger
from kvariates.private_methods.noisy_centers import ONLY_NOISE, Mask, NoisyCounts, is_clear
from kvariates.refining.lloyd import Step, lloyd

NO_COUNTS = f"All centres {ONLY_NOISE}: no counts are released without iterations. Use max_iter."


@dataclass(frozen=True, eq=False)
class PrivateFit:
    """Centres, and the ledgers: that of each peer, or with central noise the coordinator's.

    `counts`: noisy numbers of the rows of each centre; None if none were released.
    """

    centers: F64
    ledgers: dict[str, Ledger]
    counts: NoisyCounts | None

    @property
    def doubtful(self) -> Mask:
        """The centres that may be only noise."""
        return np.ones(len(self.centers), bool) if self.counts is None else self.counts.doubtful

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say about them, and what to try."""
        return (NO_COUNTS,) if self.counts is None else self.counts.notes(pure=False)


class StepCounts:
    """The noisy counts of all steps so far, and the variances of their noise."""

    def __init__(self) -> None:
        self._counts: list[F64] = []
        self._variances: list[float] = []

    def add(self, counts: I64, variance: float) -> None:
        self._counts.append(counts.astype(np.float64))
        self._variances.append(variance)

    def means(self) -> NoisyCounts:
        return NoisyCounts.of_steps(self._counts, self._variances)


@dataclass(frozen=True, eq=False)
class NoisyPart:
    """The noisy statistics of one peer. `scale`: of the noise of its counts."""

    counts: I64
    sums: F64
    scale: float


class NoisyPeersAssigner:
    """Adds up the noisy counts and sums of all peers. Sums are relative to the box's centre."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator, self._number = coordinator, 0  # of steps so far
        self.clear: Mask  # whether a count is more than noise
        self.steps = StepCounts()

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        self._number += 1
        parts: list[NoisyPart] = list(self._coordinator.everyone(self._asked(centers)).values())
        counts = np.sum([part.counts for part in parts], axis=0)
        sums = np.sum([part.sums for part in parts], axis=0)
        noise = float(np.linalg.norm([part.scale for part in parts]))
        self.clear = is_clear(counts, noise)
        self.steps.add(counts, 2 * noise**2)  # of Laplace noise
        return FloatStatistics(sums, counts.astype(np.float64), counts, changed=None)

    def _asked(self, centers: F64) -> Call[NoisyPart]:
        def read(answer: Answer) -> NoisyPart:
            counts, sums = answer["counts"], answer["sums"]
            for name, array, shape in (
                ("counts", counts, (len(centers),)),
                ("sums", sums, centers.shape),
            ):
                if not isinstance(array, np.ndarray) or array.shape != shape:
                    raise ValueError(f"the noisy {name} should have the shape {shape}")
            scale = float(answer["scale"])
            if not (np.isfinite(sums).all() and 0 <= scale < np.inf) or counts.dtype != np.int64:
                raise ValueError("its noisy statistics are not finite")
            if np.abs(counts.astype(np.float64)).max(initial=0) > 2.0**53:
                raise ValueError("a noisy count is too large")
            return NoisyPart(counts, sums, scale)

        # With the number, centres that did not move get new noise, not the release of before.
        return call("noisy_statistics", read, centers=centers.copy(), step=self._number)


class HasClear(Protocol):
    """An assigner that knows which counts of its last step are more than noise."""

    clear: Mask


@dataclass(frozen=True, eq=False)
class NoisyPeersMean:
    """Moves each centre with a clear count to the noisy mean of its rows, inside the bounds."""

    assigner: HasClear
    bounds: PublicBounds

    def __call__(self, centers: F64, statistics: Statistics) -> F64:
        clear, out = self.assigner.clear, centers.copy()
        middle = self.bounds.low + (self.bounds.high - self.bounds.low) / 2
        out[clear] = middle + statistics.sums[clear] / statistics.weights[clear, None]
        return np.clip(out, self.bounds.low, self.bounds.high)


def fit_private_peers(
    coordinator: Coordinator, k: int, steps: int, rng: np.random.Generator
) -> PrivateFit:
    """PDk-means++, and so many noisy steps of Lloyd. Pre: the coordinator has public bounds."""
    assert coordinator.bounds is not None  # noqa: S101
    centers, counts = dk_means_plusplus(coordinator, k, rng, noisy=True), None
    if steps:
        assigner = NoisyPeersAssigner(coordinator)
        update = NoisyPeersMean(assigner, coordinator.bounds)
        centers = lloyd(assigner, centers, update, after(steps)).centers
        counts = assigner.steps.means()
    return PrivateFit(centers, coordinator.everyone(call("ledger", ledger_of)), counts)


def after(steps: int) -> Callable[[Step], bool]:
    """Stop after so many steps."""
    return lambda step: step.iteration + 1 == steps


def ledger_of(answer: Answer) -> Ledger:
    """The ledger that a peer has sent. ValueError if it costs more than it claims."""
    json.dumps(answer, allow_nan=False)  # raises if it could not be saved
    charges = tuple(Charge(**charge) for charge in answer["charges"])
    return Ledger(answer["adjacency"], charges, Loss(float(answer["epsilon"]), 0.0))
