"""k-means over peers: seed, Lloyd, cost. The only loops are `sample` and `lloyd`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kvariates import guarantees
from kvariates.data.exact_sums import to_float
from kvariates.data.rows import F64, Floats
from kvariates.guarantees import Guarantee
from kvariates.peers.coordinator import Coordinator, ShardMissing, call
from kvariates.peers.masked_group import GroupAssigner, MaskedGroup
from kvariates.peers.peer_seeding import PEER_SEEDINGS, PeersSeeding, spread_of_peers
from kvariates.peers.questions import Answer
from kvariates.peers.remote_shards import PeersAssigner, PeersRows
from kvariates.peers.transcript import Transcript
from kvariates.refining.assigners import ExactAssigner
from kvariates.refining.lloyd import MeanUpdate, Step, StopRule, lloyd

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PeersProblem:
    """k-means over peers.

    Attributes
    ----------
    k : int
    init : str or ndarray of shape (k, d)
        A name in `PEER_SEEDINGS`, or centres.
    max_iter : int
        The most iterations of Lloyd; with 0 the centres are the seeds.
    tol : float
        Lloyd stops when the centres' squared shift is at most `tol` times the mean variance.
    shows_rows : bool
        Whether peers show rows to fill empty clusters.
    callback : callable or None
        See `StopRule`.
    secure_sums : bool
        Whether only the totals of sums and costs are known; see `MaskedGroup`. Then no rows are
        shown for empty clusters.
    """

    k: int
    init: str | F64
    max_iter: int = 300
    tol: float = 1e-4
    shows_rows: bool = True
    callback: Callable[[Step], bool] | None = None
    secure_sums: bool = False

    def __post_init__(self) -> None:
        if self.secure_sums and self.shows_rows:
            raise ValueError("With secure sums no rows are shown for empty clusters.")


@dataclass(frozen=True, eq=False)
class PeersResult:
    """Centres in the rows' dtype, the cost of these rounded centres, and what was sent.

    `spread`: that of Theorem 4; None if the seeding was another one.
    """

    centers: Floats
    inertia: float
    n_iter: int
    converged: bool
    spread: float | None
    transcript: Transcript


def fit_peers(
    coordinator: Coordinator, problem: PeersProblem, rng: np.random.Generator
) -> PeersResult:
    """Seed and refine."""
    start, spread = problem.init, None
    sums = SecureSums(coordinator) if problem.secure_sums else PlainSums(coordinator)
    if isinstance(start, str):
        seeding = PeersSeeding(coordinator, problem.k, rng)
        if start == "dk-means++":
            spread = _of_those_left(sums.spread_of_peers)
        start = PEER_SEEDINGS[start].run(seeding)
    n_iter, converged = 0, False
    if problem.max_iter:
        tol = problem.tol * sums.spread() if problem.tol else 0.0
        stop = StopRule(problem.max_iter, tol, problem.callback)
        assigner = sums.assigner(problem.shows_rows)
        end = lloyd(assigner, start, MeanUpdate(assigner), stop)
        start, n_iter, converged = end.centers, end.n_iter, end.converged
    rounded = start.astype(sums.rows().dtype, copy=False)
    same = rounded.astype(np.float64, copy=False)
    inertia = _of_those_left(lambda: sums.rows().cost_at(same))
    sums.end()
    return PeersResult(rounded, inertia, n_iter, converged, spread, coordinator.transcript)


class PlainSums:
    """Sums and costs of all rows. Each peer shows its own."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def rows(self) -> PeersRows:
        """The rows of the peers that take part now."""
        return PeersRows(self._coordinator)

    def spread(self) -> float:
        """The mean variance of the columns."""
        return _of_those_left(lambda: self.rows().spread())

    def spread_of_peers(self) -> float:
        return spread_of_peers(self._coordinator)

    def end(self) -> None:
        """Do nothing."""

    def assigner(self, shows_rows: bool) -> ExactAssigner:
        return PeersAssigner(self._coordinator, shows_rows=shows_rows)


class SecureSums(PlainSums):
    """Only the totals of all peers are known."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator)
        self._group = MaskedGroup(coordinator)

    def rows(self) -> PeersRows:
        return PeersRows(self._coordinator, self._group.rows())

    def spread(self) -> float:
        """As above, but no sum is asked a second time if a peer vanishes between the two questions.

        The difference of the two sums would be that of the peer.
        """
        mean = _of_those_left(lambda: self.rows().mean())
        return _of_those_left(lambda: self.rows().spread(mean))

    def spread_of_peers(self) -> float:
        """The total of the spreads that peers show otherwise, rounded once as there."""
        limits = self._group.limits

        def read(answer: Answer) -> float:
            return limits.cost(to_float(answer["spread"]), "spread")

        found: float = self._group.ask(call("spread", read))
        return found

    def assigner(self, shows_rows: bool) -> ExactAssigner:
        return GroupAssigner(self._group, self._coordinator)

    def end(self) -> None:
        """Let peers forget their keys."""
        self._group.end()


def _of_those_left(ask: Callable[[], T]) -> T:
    """A statistic of all rows; if a peer is dropped, of those that are left."""
    while True:
        try:
            return ask()
        except ShardMissing:
            continue


def guarantee_of(init: object, k: int, result: PeersResult) -> Guarantee | str:
    """The guarantee of the seeding, or why it is lost."""
    if not isinstance(init, str):
        return "the first centres were given."
    if result.transcript.dropped:
        names = ", ".join(dropped.peer for dropped in result.transcript.dropped)
        return f"peers were dropped, and their rows are not in the result: {names}."
    if result.transcript.joined:
        names = ", ".join(result.transcript.joined)
        return f"peers joined after the beginning, and were not part of all draws: {names}."
    entry = PEER_SEEDINGS[init]
    if entry.lost is not None:
        return entry.lost
    if init == "dk-means++":
        return guarantees.theorem_4(k, opt=None, spread=result.spread)
    return guarantees.plain_seeding(k, certifiable=False)
