"""Lloyd with central noise: peers send exact sums, and the coordinator adds noise to their total.

Peers trust the coordinator (and Flower's SuperLink). Everyone else, the other peers too, learns
only noisy releases: one row, of any peer, is protected by the coordinator's epsilon. One noise is
added, whatever the number of peers. `privacy/proofs/peers.md` has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvariates.data.assigners import FloatStatistics, Statistics
from kvariates.data.rows import F64, Rows
from kvariates.federated.private_fit import NoisyPeersMean, PrivateFit, StepCounts, after
from kvariates.federated.private_peer import described, exact_statistics, sums_lattice
from kvariates.federated.releases import COUNTS_OVER_SUMS
from kvariates.numerics.lattice import Adjacency
from kvariates.peers.bounds import PeerLimits, PublicBounds
from kvariates.peers.coordinator import Call, Coordinator, call
from kvariates.peers.peer import Envelope
from kvariates.peers.questions import Answer
from kvariates.privacy.budget import Cost, Loss
from kvariates.privacy.ledger import Ledger
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import count_query, sum_query
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain, spread_out
from kvariates.private_methods.noisy_centers import Mask, is_clear
from kvariates.private_methods.noisy_lloyd import StepCosts
from kvariates.refining.lloyd import lloyd


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
class CentralAssigner:
    """Adds up the exact counts and sums of all peers, and releases the noisy total."""

    def __init__(
        self,
        coordinator: Coordinator,
        domain: Domain,
        costs: Sequence[StepCosts],
        adjacency: Adjacency,
    ) -> None:
        self._coordinator, self._domain = coordinator, domain
        self._costs, self._number, self._adjacency = costs, 0, adjacency
        self.accountant = Accountant()
        self.clear: Mask  # whether a count is more than noise
        self.steps = StepCounts()

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        cost, self._number = self._costs[self._number], self._number + 1
        self._coordinator.refresh()
        asked = {peer: self._asked(peer, centers) for peer in self._coordinator.peers}
        parts = list(self._coordinator.ask(asked).values())
        counts, sums = (sum(part[i] for part in parts) for i in range(2))
        step, lattice = f"step {self._number}", sums_lattice(self._domain)
        counted = count_query(counts, self._adjacency, f"{step}: rows of each centre")
        found = self.accountant.release(Secret(counted), cost.counts)
        summed = sum_query(sums, lattice, self._adjacency, f"{step}: sums of rows")
        total = self.accountant.release(Secret(summed), cost.sums).value
        self.clear = is_clear(found.value, found.charge.scale)
        self.steps.add(found.value, found.charge.variance)
        return FloatStatistics(total, found.value.astype(np.float64), found.value, changed=None)

    def _asked(self, peer: str, centers: F64) -> Call[Any]:
        known, half = self._coordinator.limits(peer), self._domain.half
        limits = PeerLimits(known.n, known.weight, PublicBounds(-half, half))
        lattice = sums_lattice(self._domain)

        def read(answer: Answer) -> tuple[Any, Any]:
            counts, sums = answer["counts"], answer["sums"]
            for array, dtype, shape in (
                (counts, np.int64, (len(centers),)),
                (sums, np.float64, centers.shape),
            ):
                fits = isinstance(array, np.ndarray) and array.dtype == dtype
                if not fits or array.shape != shape:
                    raise ValueError(f"its sums should be {np.dtype(dtype)} of shape {shape}")
            limits.counts(counts, None)
            limits.sums(sums, counts.astype(np.float64))
            lattice.steps(sums)  # ValueError if they are not sums of rows on the lattice
            return counts, sums

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
    bounds = coordinator.bounds
    assert bounds is not None  # noqa: S101
    domain = Domain.box(bounds.low, bounds.high)
    centers = start
    if isinstance(centers, int):
        centers = domain.center + spread_out(domain, centers, rng)
    parts = Cost(epsilon=epsilon).split([COUNTS_OVER_SUMS, 1.0] * steps)
    costs = [StepCosts(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    assigner = CentralAssigner(coordinator, domain, costs, adjacency)
    end = lloyd(assigner, centers, NoisyPeersMean(assigner, bounds), after(steps))
    ledger = Ledger(adjacency, tuple(assigner.accountant.charges), Loss(epsilon, 0.0))
    return PrivateFit(end.centers, {"coordinator": ledger}, assigner.steps.means())
