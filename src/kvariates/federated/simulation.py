"""Both apps on one machine, by Flower's simulation engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flwr.app import Context

from kvariates.federated.client import client_app
from kvariates.federated.result import FederatedResult
from kvariates.federated.server import server_app

TIMEOUT = 600.0  # the first answer waits until Ray has started


def simulate(
    load_data: Callable[[Context], Any],
    n_peers: int,
    n_clusters: int,
    *,
    client: dict[str, Any] | None = None,
    n_cpus: int = 2,
    **server: Any,
) -> FederatedResult:
    """Cluster the rows of simulated peers.

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
    from flwr.simulation import run_simulation

    if n_peers < 1:
        raise ValueError(f"n_peers must be at least 1; got {n_peers!r}.")
    same = ("bounds", "random_state", "secure_sums")
    given = {name: server[name] for name in same if name in server}
    results: list[FederatedResult] = []
    server.setdefault("wait_for", n_peers)
    server.setdefault("timeout", TIMEOUT)
    coordinator = server_app(n_clusters, on_result=results.append, **server)
    peers = client_app(load_data, **{"max_points": n_clusters, **given, **(client or {})})
    backend = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": n_cpus, "num_gpus": 0, "include_dashboard": False},
    }
    with warnings.catch_warnings():
        # Flower prefers `flwr run`; its engine can be called from Python in no other way.
        warnings.simplefilter("ignore", DeprecationWarning)
        run_simulation(coordinator, peers, n_peers, backend_config=backend)  # type: ignore[arg-type]
    if not results:
        raise RuntimeError("The simulation ended without a result; see Flower's log above.")
    return results[0]
