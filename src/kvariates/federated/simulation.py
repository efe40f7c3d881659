"""Both apps on one machine, by Flower's simulation engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from kvariates.federated.client import client_app
from kvariates.federated.result import FederatedResult, VerticalFederatedResult
from kvariates.federated.server import server_app
from kvariates.federated.vertical import vertical_client_app, vertical_server_app

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
    if n_peers < 1:
        raise ValueError(f"n_peers must be at least 1; got {n_peers!r}.")
    same = ("bounds", "random_state", "secure_sums")
    given = {name: server[name] for name in same if name in server}
    results: list[FederatedResult] = []
    server.setdefault("wait_for", n_peers)
    server.setdefault("timeout", TIMEOUT)
    coordinator = server_app(n_clusters, on_result=results.append, **server)
    peers = client_app(load_data, **{"max_points": n_clusters, **given, **(client or {})})
    run_apps(coordinator, peers, n_peers, n_cpus)
    return _only(results)


def simulate_vertical(
    load_columns: Callable[[Context], Any],
    n_parties: int,
    n_clusters: int,
    *,
    client: dict[str, Any] | None = None,
    n_cpus: int = 2,
    **server: Any,
) -> VerticalFederatedResult:
    """Cluster rows whose columns are held by simulated parties.

    Parameters
    ----------
    load_columns : callable
        From Flower's context to the columns of a party, or to (columns, ids); its number is
        ``context.node_config["partition-id"]``.
    n_parties : int
    n_clusters : int
    client : dict or None
        Parameters of `vertical_client_app`.
    n_cpus : int
        How many processes answer.
    **server
        Parameters of `vertical_server_app`.

    Returns
    -------
    VerticalFederatedResult
    """
    results: list[VerticalFederatedResult] = []
    server.setdefault("timeout", TIMEOUT)
    aggregator = vertical_server_app(
        n_clusters, n_parties=n_parties, on_result=results.append, **server
    )
    parties = vertical_client_app(load_columns, **(client or {}))
    run_apps(aggregator, parties, n_parties, n_cpus)
    return _only(results)


def run_apps(server: ServerApp, clients: ClientApp, count: int, n_cpus: int) -> None:
    """Run both apps by Flower's simulation engine, with so many nodes and processes."""
    from flwr.simulation import run_simulation

    backend = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": n_cpus, "num_gpus": 0, "include_dashboard": False},
    }
    with warnings.catch_warnings():
        # Flower prefers `flwr run`; its engine can be called from Python in no other way.
        warnings.simplefilter("ignore", DeprecationWarning)
        run_simulation(server, clients, count, backend_config=backend)  # type: ignore[arg-type]


Result = TypeVar("Result")


def _only(results: list[Result]) -> Result:
    if not results:
        raise RuntimeError("The simulation ended without a result; see Flower's log above.")
    return results[0]
