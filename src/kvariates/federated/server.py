"""The ServerApp: the coordinator of a fit, and its result in a file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from numpy.typing import ArrayLike

from kvariates.data.rows import Floats
from kvariates.estimators.validation import warn
from kvariates.federated.flower_transport import FlowerTransport, wait_for_nodes
from kvariates.federated.inputs import checked_bounds
from kvariates.federated.private_fit import fit_central, fit_private_peers
from kvariates.federated.result import FederatedResult
from kvariates.numerics.lattice import Adjacency
from kvariates.peers.bounds import PublicBounds
from kvariates.peers.coordinator import Coordinator
from kvariates.peers.fitting import PeersProblem, fit_peers, guarantee_of
from kvariates.peers.masked_peer import MIN_GROUP
from kvariates.peers.transport import Transport
from kvariates.privacy.budget import check_loss
from kvariates.seeding.seedings import PEER_SEEDINGS

PRIVATE_INIT = "pdk-means++"
MAX_ITER, CENTRAL_STEPS, TOL = 100, 5, 1e-4
NOISE = (
    "peers added noise to their centres and to their potentials: Theorem 4 is about neither "
    "noisy potentials nor clipped centres."
)

CENTRAL_NOISE = "the first centres do not depend on the rows, and sums are noisy."


@dataclass(frozen=True, eq=False)
class ServerOptions:
    """See `server_app`."""

    n_clusters: int
    bounds: PublicBounds | None
    init: str | Floats | None
    max_iter: int
    tol: float
    min_peers: int
    wait_for: int
    wait_timeout: float
    timeout: float
    random_state: int | None
    epsilon: float | None
    adjacency: Adjacency
    secure_sums: bool

    @property
    def private(self) -> bool:
        """Whether there is noise."""
        local = isinstance(self.init, str) and self.init == PRIVATE_INIT
        return local or self.epsilon is not None


def server_app(
    n_clusters: int,
    *,
    save_to: str | os.PathLike[str] | None = None,
    on_result: Callable[[FederatedResult], None] | None = None,
    **options: Any,
) -> ServerApp:
    """Make the ServerApp that clusters the rows of all peers.

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
    checked = server_options(n_clusters, **options)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        wait_for_peers(grid, checked)
        result = fit(FlowerTransport(grid, checked.timeout), checked)
        if save_to is not None:
            result.save(save_to)
        if on_result is not None:
            on_result(result)

    return app


def server_options(
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
) -> ServerOptions:
    """Check the parameters of `server_app`."""
    if max_rows is not None and bounds is None:
        raise ValueError("max_rows needs public bounds: bounds=(low, high).")
    if max_rows is not None and epsilon is not None:
        raise ValueError(
            "max_rows does not work with central noise: who is dropped would tell exact numbers "
            "of rows."
        )
    if adjacency not in get_args(Adjacency):
        names = " or ".join(map(repr, get_args(Adjacency)))
        raise ValueError(f"adjacency must be {names}; got {adjacency!r}.")
    limits = None if bounds is None else checked_bounds(bounds, max_rows)
    start: str | Floats | None = None
    if epsilon is not None:
        _check_central(epsilon, init, limits, max_iter)
    if epsilon is None or init is not None:
        start = _checked_init("dk-means++" if init is None else init, n_clusters, limits)
    usual = CENTRAL_STEPS if epsilon is not None else 0 if start is PRIVATE_INIT else MAX_ITER
    steps = usual if max_iter is None else max_iter
    if tol is not None and (epsilon is not None or start is PRIVATE_INIT):
        raise ValueError("tol does not work with noise: give max_iter, the number of noisy steps.")
    if secure_sums:
        _check_secure(init, epsilon)
    fewest = MIN_GROUP if secure_sums else 1
    needed = fewest if min_peers is None else min_peers
    first, tolerance = needed if wait_for is None else wait_for, TOL if tol is None else tol
    for name, value, least in (
        ("n_clusters", n_clusters, 1), ("max_iter", steps, 0), ("tol", tolerance, 0),
        ("min_peers", needed, fewest), ("wait_for", first, 1),
    ):  # fmt: skip
        if not least <= value < math.inf:
            raise ValueError(f"{name} must be at least {least}; got {value!r}.")
    for name, value in (("timeout", timeout), ("wait_timeout", wait_timeout)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a number > 0; got {value!r}.")
    return ServerOptions(
        n_clusters, limits, start, steps, tolerance, needed, first, wait_timeout, timeout,
        random_state, epsilon, adjacency, secure_sums,
    )  # fmt: skip


def _check_central(
    epsilon: float, init: Any, bounds: PublicBounds | None, steps: int | None
) -> None:
    check_loss(epsilon, 0.0)
    if bounds is None or isinstance(init, str) or steps == 0:
        raise ValueError(
            "Central noise (epsilon) needs public bounds, init=None or an array of public centres, "
            "and max_iter of at least 1."
        )


def _check_secure(init: Any, epsilon: float | None) -> None:
    if epsilon is not None or init is None or (isinstance(init, str) and init != "dk-means++"):
        raise ValueError(
            "secure_sums works without noise, and needs init: an array of centres that are known "
            "without the rows; or 'dk-means++', which shows potentials and rows of each peer, who "
            "must allow it: client_app(secure_sums=True, policy=kvariates.federated.FEDERATED)."
        )


def _checked_init(init: Any, k: int, bounds: PublicBounds | None) -> str | Floats:
    if isinstance(init, str):
        if init == PRIVATE_INIT:
            if bounds is None:
                raise ValueError(f"init={init!r} needs public bounds: bounds=(low, high).")
            return PRIVATE_INIT
        if init not in PEER_SEEDINGS:
            names = ", ".join(map(repr, [*PEER_SEEDINGS, PRIVATE_INIT]))
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


def wait_for_peers(grid: Grid, options: ServerOptions) -> None:
    """Wait until enough nodes are connected. RuntimeError if they do not come."""
    wait_for_nodes(grid, options.wait_for, options.wait_timeout, "peers", "wait_for")


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
    problem = PeersProblem(
        options.n_clusters, options.init, options.max_iter, options.tol, shows_rows=False,
        secure_sums=options.secure_sums,
    )  # fmt: skip
    found = fit_peers(coordinator, problem, rng)
    distinct = len(np.unique(found.centers, axis=0))
    if distinct < options.n_clusters:
        warn(
            f"n_clusters={options.n_clusters}, but only {distinct} centres are distinct; perhaps "
            "the peers have few distinct rows. Lower it."
        )
    kept = guarantee_of(options.init, options.n_clusters, found)
    lost = kept if isinstance(kept, str) else None
    return FederatedResult(
        found.centers, found.inertia, found.n_iter, found.converged,
        None if isinstance(kept, str) else kept, lost, found.transcript, {},
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
