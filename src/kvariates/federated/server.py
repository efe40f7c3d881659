"""The ServerApp: the coordinator of a fit, and its result in a file; both apps on one machine."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from numpy.typing import ArrayLike

from kvariates.data.lattice_rows import Adjacency
from kvariates.data.rows import Floats
from kvariates.estimators.fit_record import FitRecord, HasRecord
from kvariates.estimators.validation import warn
from kvariates.federated.client import checked_bounds, client_app
from kvariates.federated.flower_transport import (
    SIMULATION_TIMEOUT,
    FlowerTransport,
    SavedResult,
    check_times,
    fitting_app,
    only,
    run_apps,
    wait_for_nodes,
)
from kvariates.federated.private_fit import fit_central, fit_private_peers
from kvariates.fitting import FitOptions
from kvariates.guarantees import Guarantee
from kvariates.objectives.objective import SquaredEuclidean
from kvariates.peers.bounds import PublicBounds
from kvariates.peers.coordinator import Coordinator
from kvariates.peers.masked_group import SummedPeersData
from kvariates.peers.masked_peer import MIN_GROUP
from kvariates.peers.peers_data import PeersData, fit_peers, guarantee_of
from kvariates.peers.transport import Transcript, Transport
from kvariates.privacy.budget import check_adjacency, check_loss
from kvariates.privacy.ledger import Ledger
from kvariates.private_methods.noisy_centers import Mask
from kvariates.seeding.seedings import PEER_SEEDINGS

PRIVATE_INIT = "pdk-means++"
MAX_ITER, CENTRAL_STEPS, TOL = 100, 5, 1e-4
NOISE = (
    "peers added noise to their centres and to their potentials: Theorem 4 is about neither "
    "noisy potentials nor clipped centres."
)

SHOWN = (
    "By default peers show one row for each centre (Dk-means++). KMeans begins with greedy "
    "k-means++, which would show 2 + ln k rows for each, so its centres are others."
)
CENTRAL_NOISE = "the first centres do not depend on the rows, and sums are noisy."


@dataclass(frozen=True, eq=False)
class FederatedResult(SavedResult, HasRecord):
    """The result of a federated fit.

    Attributes
    ----------
    centers : ndarray of shape (k, d)
    inertia : float or None
        The cost of the rows of all peers; None if peers are private.
    n_iter : int
    converged : bool
    guarantee : Guarantee or None
    guarantee_lost : str or None
        Why there is no guarantee.
    transcript : Transcript
    ledgers : dict from str to Ledger
        Of private peers, by name; as they have sent it. With central noise that of "coordinator".
    doubtful : ndarray of bool of shape (k,) or None
        Of a fit with noise: the centres that may be only noise, by their noisy counts.
    notes : tuple of str
        What a fit with noise warned of, such as how many centres may be only noise.
    """

    centers: Floats
    inertia: float | None
    n_iter: int
    converged: bool
    guarantee: Guarantee | None
    guarantee_lost: str | None
    transcript: Transcript
    ledgers: dict[str, Ledger]
    doubtful: Mask | None = None
    notes: tuple[str, ...] = ()

    def _fit_record(self) -> FitRecord:
        return FitRecord(
            "FederatedResult", "federated k-means", len(self.centers), self.centers,
            inertia=self.inertia, n_iter=self.n_iter, guarantee=self.guarantee,
            lost=self.guarantee_lost, transcript=self.transcript, ledgers=self.ledgers,
            doubtful=self.doubtful, notes=self.notes,
        )  # fmt: skip

    def _page(self) -> dict[str, Any]:
        page = super()._page()
        notes, doubtful = page.pop("notes"), page.pop("doubtful")
        return {"notes": notes, **page, "may_be_only_noise": doubtful}


def server_app(
    n_clusters: int,
    *,
    save_to: str | os.PathLike[str] | None = None,
    on_result: Callable[[FederatedResult], None] | None = None,
    **options: Any,
) -> ServerApp:
    """Make the ServerApp that clusters the rows of all peers; by default they show k rows.

    These first centres are drawn by Dk-means++: a peer by the cost of its rows, then one of its
    rows. `KMeans` draws them by greedy k-means++, which would show the coordinator 2 + ln k rows
    for each centre. So the centres are not those of `KMeans` on all rows, also with the same
    `random_state`, and the theorem is another one. The guarantee of the result says so, too.

    Parameters
    ----------
    n_clusters : int
    save_to : path or None
        The JSON file of the result.
    on_result : callable or None
        Called with the `FederatedResult`.
    bounds : (low, high) or None
        The public bounds of each feature. Peers whose answers cannot be those of rows inside are
        dropped.
    max_rows : int or None
        The most rows (and the most weight) of one peer; needs `bounds`.
    init : str, array of shape (n_clusters, d), or None
        None: "dk-means++", or with `epsilon` centres that are spread over the bounds.
        "pdk-means++" needs private peers. Other names of `PEER_SEEDINGS` need peers whose policies
        allow their questions.
    max_iter : int or None
        The most iterations of Lloyd; None: 100. The number of noisy iterations with "pdk-means++"
        (None: 0) and with `epsilon` (None: 5).
    tol : float or None
        Relative to the mean variance of the features; None: 1e-4. Fits with noise have no
        tolerance: they make `max_iter` iterations.
    min_peers : int or None
        Peers that fail are dropped while so many are left; None: 1, or 3 with `secure_sums`.
    wait_for : int or None
        How many peers must be connected before the fit begins; None: `min_peers`.
    wait_timeout : float, default 60
        How long to wait for them.
    timeout : float, default 60
        How long to wait for an answer.
    random_state : int or None
    epsilon : float or None
        Central noise: peers that were made with private="central" send exact sums, and noise of
        this budget is added to their total. `init` must be public.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours, with `epsilon`.
    secure_sums : bool, default False
        Whether only the totals of all peers' sums and costs are known. Peers must be made with
        secure_sums=True as well; there are at least 3 and at most 256.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    checked = ServerOptions(n_clusters, **options)

    def fit_peers_of(grid: Grid) -> FederatedResult:
        wait_for_nodes(grid, checked.wait_for, checked.wait_timeout, "peers", "wait_for")
        return fit(FlowerTransport(grid, checked.timeout), checked)

    return fitting_app(fit_peers_of, save_to, on_result)


class ServerOptions:
    """The checked parameters of `server_app`."""

    def __init__(
        self,
        n_clusters: int,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        max_rows: int | None = None,
        init: str | ArrayLike | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        min_peers: int | None = None,
        wait_for: int | None = None,
        wait_timeout: float = 60.0,
        timeout: float = 60.0,
        random_state: int | None = None,
        epsilon: float | None = None,
        adjacency: Adjacency = "add-remove",
        secure_sums: bool = False,
    ) -> None:
        if max_rows is not None and bounds is None:
            raise ValueError("max_rows needs public bounds: bounds=(low, high).")
        if max_rows is not None and epsilon is not None:
            raise ValueError(
                "max_rows does not work with central noise: who is dropped would tell exact "
                "numbers of rows."
            )
        check_adjacency(adjacency)
        limits = None if bounds is None else checked_bounds(bounds, max_rows)
        start: str | Floats | None = None
        if epsilon is not None:
            check_loss(epsilon, 0.0)
            if limits is None or isinstance(init, str) or max_iter == 0:
                raise ValueError(
                    "Central noise (epsilon) needs public bounds, init=None or an array of public "
                    "centres, and max_iter of at least 1."
                )
        if epsilon is None or init is not None:
            start = _checked_init("dk-means++" if init is None else init, n_clusters, limits)
        local = isinstance(init, str) and init == PRIVATE_INIT
        self.private = local or epsilon is not None  # whether there is noise
        if tol is not None and self.private:
            raise ValueError(
                "tol does not work with noise: give max_iter, the number of noisy steps."
            )
        if secure_sums:
            _check_secure(init, epsilon)
        usual = CENTRAL_STEPS if epsilon is not None else 0 if self.private else MAX_ITER
        fewest = MIN_GROUP if secure_sums else 1
        self.n_clusters, self.bounds, self.init = n_clusters, limits, start
        self.max_iter = usual if max_iter is None else max_iter
        self.tol = TOL if tol is None else tol
        self.min_peers = fewest if min_peers is None else min_peers
        self.wait_for = self.min_peers if wait_for is None else wait_for
        self.wait_timeout, self.timeout = wait_timeout, timeout
        self.random_state, self.secure_sums = random_state, secure_sums
        self.epsilon, self.adjacency = epsilon, adjacency
        for name, value, least in (
            ("n_clusters", n_clusters, 1), ("max_iter", self.max_iter, 0), ("tol", self.tol, 0),
            ("min_peers", self.min_peers, fewest), ("wait_for", self.wait_for, 1),
        ):  # fmt: skip
            if not least <= value < math.inf:
                raise ValueError(f"{name} must be at least {least}; got {value!r}.")
        check_times(timeout=timeout, wait_timeout=wait_timeout)


def _check_secure(init: Any, epsilon: float | None) -> None:
    if epsilon is not None or init is None or (isinstance(init, str) and init != "dk-means++"):
        raise ValueError(
            "secure_sums works without noise, and needs init: an array of centres that are known "
            "without the rows; or 'dk-means++', which shows potentials and rows of each peer, who "
            "must allow it: client_app(secure_sums=True, policy=kvariates.federated.FEDERATED)."
        )


def _checked_init(init: Any, k: int, bounds: PublicBounds | None) -> str | Floats:
    if isinstance(init, str):
        if init == PRIVATE_INIT and bounds is None:
            raise ValueError(f"init={init!r} needs public bounds: bounds=(low, high).")
        if init not in (known := [*PEER_SEEDINGS, PRIVATE_INIT]):
            names = ", ".join(map(repr, known))
            raise ValueError(f"init must be one of {names}, or an array; got {init!r}.")
        return init
    centers = np.array(init, dtype=np.float64)
    if centers.ndim != 2 or len(centers) != k or not np.isfinite(centers).all():
        raise ValueError(f"init must be finite, of shape ({k}, d); its shape is {centers.shape}.")
    if bounds is not None and not (
        centers.shape[1] == len(bounds.low)
        and (centers >= bounds.low).all()
        and (centers <= bounds.high).all()
    ):
        raise ValueError("init must be inside the public bounds.")
    return centers


def fit(transport: Transport, options: ServerOptions) -> FederatedResult:
    """Cluster the rows of all peers of a transport."""
    rng = np.random.default_rng(options.random_state)
    number = int(rng.integers(2**62))
    coordinator = Coordinator(transport, number, options.min_peers, options.bounds)
    try:
        fitted = _private_fit if options.private else _open_fit
        result = fitted(coordinator, options, rng)
    finally:
        coordinator.end()
    _warn_of_dropped(coordinator)
    return result


def _warn_of_dropped(coordinator: Coordinator) -> None:
    dropped = coordinator.transcript.dropped
    if dropped:
        reasons = "; ".join(f"{one.peer}: {one.reason}" for one in dropped[:3])
        more = "; ..." if len(dropped) > 3 else ""
        total = len(dropped) + len(coordinator.peers)
        warn(
            f"{len(dropped)} of {total} peers were dropped, and the result is not that of all "
            f"rows ({reasons}{more}). See transcript.dropped, and the logs of these peers."
        )


def _too_many_clusters(coordinator: Coordinator, k: int) -> str | None:
    """What is wrong, if peers describe fewer rows than clusters."""
    n = sum(peer.n for peer in coordinator.descriptions.values())
    if k <= n:
        return None
    return (
        f"n_clusters={k}, but all peers together describe {n} rows; lower it, or wait for more "
        "peers (wait_for)."
    )


def _open_fit(
    coordinator: Coordinator, options: ServerOptions, rng: np.random.Generator
) -> FederatedResult:
    assert options.init is not None  # noqa: S101
    if wrong := _too_many_clusters(coordinator, options.n_clusters):
        raise ValueError(wrong)
    summed = options.secure_sums
    data = SummedPeersData(coordinator) if summed else PeersData(coordinator, shows_rows=False)
    asked = FitOptions(options.n_clusters, options.init, max_iter=options.max_iter, tol=options.tol)
    found = fit_peers(data, SquaredEuclidean(), asked, rng)
    distinct = len(np.unique(found.centers, axis=0))
    if distinct < options.n_clusters:
        warn(
            f"n_clusters={options.n_clusters}, but only {distinct} centres are distinct; perhaps "
            "the peers have few distinct rows. Lower it."
        )
    kept = guarantee_of(options.init, options.n_clusters, found)
    guarantee, lost = (None, kept) if isinstance(kept, str) else (kept, None)
    if guarantee is not None and options.init == "dk-means++":
        guarantee = replace(guarantee, notes=(*guarantee.notes, SHOWN))
    return FederatedResult(
        found.centers, found.inertia, found.n_iter, found.converged, guarantee, lost,
        found.transcript, {},
    )  # fmt: skip


def _private_fit(
    coordinator: Coordinator, options: ServerOptions, rng: np.random.Generator
) -> FederatedResult:
    k, steps, epsilon = options.n_clusters, options.max_iter, options.epsilon
    if epsilon is None:
        # These numbers of rows are noisy and paid for, so they may be too small.
        if wrong := _too_many_clusters(coordinator, k):
            warn(wrong)
        found, lost = fit_private_peers(coordinator, k, steps, rng), NOISE
    else:
        start: Any = k if options.init is None else options.init
        found = fit_central(coordinator, start, steps, epsilon, options.adjacency, rng)
        lost = CENTRAL_NOISE
    if found.notes:
        warn(" ".join(found.notes))
    return FederatedResult(
        found.centers, None, steps, False, None, lost, coordinator.transcript, found.ledgers,
        found.doubtful, found.notes,
    )  # fmt: skip


# -- simulation ------------------------------------------------------------------------------------


def simulate(
    load_data: Callable[[Context], Any],
    n_peers: int,
    n_clusters: int,
    *,
    client: dict[str, Any] | None = None,
    n_cpus: int = 2,
    **server: Any,
) -> FederatedResult:
    """Cluster the rows of simulated peers; by default they show k rows.

    `KMeans` begins with other rows: see `server_app`.

    Parameters
    ----------
    load_data : callable
        From Flower's context to the rows of a peer; its number is
        ``context.node_config["partition-id"]``.
    n_peers : int
    n_clusters : int
    client : dict or None
        Parameters of `client_app`. By default it has the bounds, the random state and
        `secure_sums` of the server.
    n_cpus : int
        How many processes answer.
    **server
        Parameters of `server_app`.

    Returns
    -------
    FederatedResult
    """
    if n_peers < 1:
        raise ValueError(f"n_peers must be at least 1; got {n_peers!r}.")
    same = ("bounds", "random_state", "secure_sums")
    given = {name: server[name] for name in same if name in server}
    results: list[FederatedResult] = []
    server = {"wait_for": n_peers, "timeout": SIMULATION_TIMEOUT, **server}
    coordinator = server_app(n_clusters, on_result=results.append, **server)
    peers = client_app(load_data, **{"max_points": n_clusters, **given, **(client or {})})
    run_apps(coordinator, peers, n_peers, n_cpus)
    return only(results)
