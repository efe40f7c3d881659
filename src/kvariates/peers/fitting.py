"""k-means over peers: the one fit, on the rows of peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from kvariates import guarantees
from kvariates.data.rows import F64, Floats
from kvariates.fitting.kmeans import FitOptions, Watch, fit_kmeans
from kvariates.guarantees import Guarantee
from kvariates.objectives.objective import SquaredEuclidean
from kvariates.peers.coordinator import Coordinator
from kvariates.peers.peers_data import PeersData, SummedPeersData
from kvariates.peers.transport import Transcript
from kvariates.refining.lloyd import Step, StopRule
from kvariates.seeding.seedings import SEEDINGS

EUCLIDEAN = SquaredEuclidean()


@dataclass(frozen=True, eq=False)
class PeersProblem:
    """k-means over peers.

    Attributes
    ----------
    k : int
    init : str or ndarray of shape (k, d)
        A name in `PEER_SEEDINGS`, or centres in the coordinates of the objective.
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
    objective : SquaredEuclidean
        The rows of the peers are in its coordinates.
    n_init : int
        The number of runs.
    """

    k: int
    init: str | F64
    max_iter: int = 300
    tol: float = 1e-4
    shows_rows: bool = True
    callback: Callable[[Step], bool] | None = None
    secure_sums: bool = False
    objective: SquaredEuclidean = EUCLIDEAN
    n_init: int = 1

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
    data: PeersData = (
        SummedPeersData(coordinator)
        if problem.secure_sums
        else PeersData(coordinator, shows_rows=problem.shows_rows)
    )
    by_peers = isinstance(problem.init, str) and problem.init == "dk-means++"
    spread = data.spread_of_peers() if by_peers else None
    options = FitOptions(
        problem.k, problem.init, n_init=problem.n_init, max_iter=problem.max_iter, tol=problem.tol
    )
    end = fit_kmeans(data, problem.objective, options, rng, CalledBack(problem.callback))
    data.end()
    return PeersResult(
        end.centers, end.inertia, end.n_iter, end.converged, spread, coordinator.transcript
    )


@dataclass(frozen=True, eq=False)
class CalledBack(Watch):
    """A function is called once an iteration."""

    callback: Callable[[Step], bool] | None

    @contextmanager
    def run(self, stop: StopRule) -> Iterator[StopRule]:
        yield replace(stop, callback=self.callback)


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
    entry = SEEDINGS[init]
    if entry.lost is not None:
        return entry.lost
    if init == "dk-means++":
        return guarantees.theorem_4(k, opt=None, spread=result.spread)
    return guarantees.plain_seeding(k, certifiable=False)
