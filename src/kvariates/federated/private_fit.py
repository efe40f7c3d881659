"""The coordinator's side of private peers: PDk-means++, then Lloyd with the noise of each peer.

Lloyd with central noise: peers send exact sums, and the coordinator adds noise to their total.

Peers trust the coordinator (and Flower's SuperLink). Everyone else, the other peers too, learns
only noisy releases: one row, of any peer, is protected by the coordinator's epsilon. One noise is
added, whatever the number of peers. `privacy/proofs/peers.md` has the proof.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.data.cluster_sums import FloatStatistics, Statistics
from kvariates.data.lattice_rows import Adjacency
from kvariates.data.rows import F64, Rows
from kvariates.federated.private_peer import COUNTS_OVER_SUMS, described, exact_statistics
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, PublicBounds, checked_array
from kvariates.peers.coordinator import Call, Coordinator, call
from kvariates.peers.peers_data import dk_means_plusplus
from kvariates.peers.questions import Answer, Envelope
from kvariates.privacy.budget import Cost, Loss
from kvariates.privacy.ledger import Charge, Ledger
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import count_query, sum_query
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain, spread_out
from kvariates.private_methods.noisy_centers import ONLY_NOISE, Mask, NoisyCounts, is_clear
from kvariates.private_methods.noisy_lloyd import StepCosts
from kvariates.refining.lloyd import lloyd

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


class _NoisySteps(ABC):
    """Noisy steps of Lloyd: base of the assigners. Pre: the coordinator has public bounds."""

    clear: Mask  # whether a count of the last step is more than noise

    def __init__(self, coordinator: Coordinator) -> None:
        assert coordinator.bounds is not None  # noqa: S101
        self._coordinator, self._bounds = coordinator, coordinator.bounds
        self._counts: list[F64] = []
        self._variances: list[float] = []

    @abstractmethod
    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics: ...

    def _stepped(self, sums: F64, counts: I64, scale: float) -> Statistics:
        """The statistics of a step. `scale`: of the Laplace noise of its counts."""
        self.clear = is_clear(counts, scale)
        self._counts.append(counts.astype(np.float64))
        self._variances.append(2 * scale**2)
        return FloatStatistics(sums, self._counts[-1], counts, changed=None)

    def update(self, centers: F64, statistics: Statistics) -> F64:
        """Move each centre with a clear count to the noisy mean of its rows, inside the bounds."""
        low, high, clear, out = self._bounds.low, self._bounds.high, self.clear, centers.copy()
        middle = low + (high - low) / 2
        out[clear] = middle + statistics.sums[clear] / statistics.weights[clear, None]
        return np.clip(out, low, high)

    def run(self, centers: F64, steps: int) -> F64:
        """The centres after so many steps."""
        return lloyd(self, centers, self.update, lambda s: s.iteration + 1 == steps).centers

    def counts(self) -> NoisyCounts:
        return NoisyCounts.of_steps(self._counts, self._variances)


@dataclass(frozen=True, eq=False)
class StepPart:
    """The statistics of one peer. `scale`: of the noise of its counts; 0 if they are exact."""

    counts: I64
    sums: F64
    scale: float = 0.0

    @classmethod
    def of(cls, answer: Answer, centers: F64, whose: str, scale: float = 0.0) -> StepPart:
        """ValueError if the arrays are not those of these centres."""
        counts = checked_array(answer["counts"], whose, (len(centers),))
        return cls(counts, checked_array(answer["sums"], whose, centers.shape, np.float64), scale)


class NoisyPeersAssigner(_NoisySteps):
    """Adds up the noisy counts and sums of all peers. Sums are relative to the box's centre."""

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        parts = list(self._coordinator.everyone(self._asked(centers)).values())
        counts = np.sum([part.counts for part in parts], axis=0)
        sums = np.sum([part.sums for part in parts], axis=0)
        return self._stepped(sums, counts, float(np.linalg.norm([part.scale for part in parts])))

    def _asked(self, centers: F64) -> Call[StepPart]:
        def read(answer: Answer) -> StepPart:
            part = StepPart.of(answer, centers, "its noisy sums", float(answer["scale"]))
            if not (np.isfinite(part.sums).all() and 0 <= part.scale < np.inf):
                raise ValueError("its noisy statistics are not finite")
            if np.abs(part.counts.astype(np.float64)).max(initial=0) > 2.0**53:
                raise ValueError("a noisy count is too large")
            return part

        # With the number, centres that did not move get new noise, not the release of before.
        return call("noisy_statistics", read, centers=centers.copy(), step=len(self._counts) + 1)


def fit_private_peers(
    coordinator: Coordinator, k: int, steps: int, rng: np.random.Generator
) -> PrivateFit:
    """PDk-means++, and so many noisy steps of Lloyd. Pre: the coordinator has public bounds."""
    centers, counts = dk_means_plusplus(coordinator, k, rng, noisy=True), None
    if steps:
        assigner = NoisyPeersAssigner(coordinator)
        centers, counts = assigner.run(centers, steps), assigner.counts()
    return PrivateFit(centers, coordinator.everyone(call("ledger", ledger_of)), counts)


def ledger_of(answer: Answer) -> Ledger:
    """The ledger that a peer has sent. ValueError if it costs more than it claims."""
    json.dumps(answer, allow_nan=False)  # raises if it could not be saved
    charges = tuple(Charge(**charge) for charge in answer["charges"])
    return Ledger(answer["adjacency"], charges, Loss(float(answer["epsilon"]), 0.0))


# -- central noise ---------------------------------------------------------------------------------


class SummingPeer:
    """A peer that sends exact sums of its rows, clipped to the public bounds."""

    def __init__(self, X: F64, bounds: PublicBounds) -> None:
        if X.shape[1] != len(bounds.low):
            raise ValueError(f"Rows have {X.shape[1]} features, the bounds {len(bounds.low)}.")
        self._domain, self._bounds = Domain.box(bounds.low, bounds.high), bounds
        # The coordinator is trusted with exact sums, and adds the noise.
        self._rows = self._domain.rows(X).map(Rows.of).reveal("central noise is added later")

    def answer(self, envelope: Envelope) -> Answer:
        """ValueError if it is another question."""
        name, arguments = envelope.question.name, envelope.question.arguments
        if name == "describe":
            return described(self._rows.n, self._bounds)
        if name == "sums_on_lattice":
            return self._sums(**arguments)
        raise ValueError(f"the question {name!r:.40} is not answered by a peer that only sums")

    def _sums(self, centers: Any) -> Answer:
        found = exact_statistics(self._domain, self._rows, centers)
        return {"counts": found.counts, "sums": found.totals}


# proof: peers.md
class CentralAssigner(_NoisySteps):
    """Adds up the exact counts and sums of all peers, and releases the noisy total."""

    def __init__(
        self,
        coordinator: Coordinator,
        domain: Domain,
        costs: Sequence[StepCosts],
        adjacency: Adjacency,
    ) -> None:
        super().__init__(coordinator)
        self._domain, self._costs, self._adjacency = domain, costs, adjacency
        self.accountant = Accountant()

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        number = len(self._counts)
        cost = self._costs[number]
        self._coordinator.refresh()
        asked = {peer: self._asked(peer, centers) for peer in self._coordinator.peers}
        parts = list(self._coordinator.ask(asked).values())
        counts = np.sum([part.counts for part in parts], axis=0)
        sums = np.sum([part.sums for part in parts], axis=0)
        step, lattice = f"step {number + 1}", self._domain.l1_lattice
        counted = count_query(counts, self._adjacency, f"{step}: rows of each centre")
        found = self.accountant.release(Secret(counted), cost.counts)
        summed = sum_query(sums, lattice, self._adjacency, f"{step}: sums of rows")
        total = self.accountant.release(Secret(summed), cost.sums).value
        return self._stepped(total, found.value, found.charge.scale)

    def _asked(self, peer: str, centers: F64) -> Call[StepPart]:
        known, half = self._coordinator.limits(peer), self._domain.half
        limits = PeerLimits(known.n, known.weight, PublicBounds(-half, half))
        lattice = self._domain.l1_lattice

        def read(answer: Answer) -> StepPart:
            part = StepPart.of(answer, centers, "its sums")
            limits.counts(part.counts, None)
            limits.sums(part.sums, part.counts.astype(np.float64))
            lattice.steps(part.sums)  # ValueError if they are not sums of rows on the lattice
            return part

        return call("sums_on_lattice", read, centers=centers.copy())


def fit_central(
    coordinator: Coordinator,
    start: F64 | int,
    steps: int,
    epsilon: float,
    adjacency: Adjacency,
    rng: np.random.Generator,
) -> PrivateFit:
    """So many noisy steps of Lloyd from public centres, or from so many spread over the bounds.

    Pre: the coordinator has public bounds.
    """
    assert coordinator.bounds is not None  # noqa: S101
    domain = Domain.box(coordinator.bounds.low, coordinator.bounds.high)
    centers = start
    if isinstance(centers, int):
        centers = domain.center + spread_out(domain, centers, rng)
    parts = Cost(epsilon=epsilon).split([COUNTS_OVER_SUMS, 1.0] * steps)
    costs = [StepCosts(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    assigner = CentralAssigner(coordinator, domain, costs, adjacency)
    centers = assigner.run(centers, steps)
    ledger = Ledger(adjacency, tuple(assigner.accountant.charges), Loss(epsilon, 0.0))
    return PrivateFit(centers, {"coordinator": ledger}, assigner.counts())
