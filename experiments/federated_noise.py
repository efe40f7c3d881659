"""`python -m experiments.federated_noise`: what the noise of private peers costs.

10,000 rows in four groups, at five peers that all have rows of every group. The median cost of all
rows over several runs, relative to k-means without noise.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array, inertia

from kvariates import KMeans
from kvariates.federated import Private
from kvariates.federated.client import checked_bounds
from kvariates.federated.private_fit import SummingPeer
from kvariates.federated.private_peer import PrivatePeer, Releases
from kvariates.federated.server import ServerOptions, fit
from kvariates.peers.questions import Answer, Envelope
from kvariates.peers.transport import Reply, reply_of

K, PEERS, ROWS, STEPS = 4, 5, 10_000, 5
BOX = ([-10.0, -10.0], [10.0, 10.0])
GROUPS = np.array([[-5.0, -5.0], [5.0, 5.0], [-5.0, 5.0], [5.0, -5.0]])


def rows(seed: int) -> Array:
    """Rows of four groups, within the bounds."""
    rng = np.random.default_rng(seed)
    return np.clip(GROUPS[rng.integers(K, size=ROWS)] + rng.normal(size=(ROWS, 2)), *BOX)


class PeersInTurn:
    """A transport to peers in this process, which are asked one after the other."""

    def __init__(self, peers: dict[str, Callable[[Envelope], Answer]]) -> None:
        self._peers = peers

    def peers(self) -> list[str]:
        return list(self._peers)

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        return {name: reply_of(self._peers[name], asked) for name, asked in envelopes.items()}

    def end(self) -> None:
        """Nothing is held."""


def private_centers(X: Array, epsilon: float, seed: int, *, steps: int) -> Array:
    """PDk-means++, and so many steps of Lloyd with local noise."""
    # The releases are kept in memory: no file is written.
    private, limits = Private(epsilon, K, steps, ledger="/unused"), checked_bounds(BOX)
    peers = {
        str(i): partial(PrivatePeer(part, limits, private).answer, releases=Releases())
        for i, part in enumerate(np.array_split(X, PEERS))
    }
    options = ServerOptions(K, bounds=BOX, init="pdk-means++", max_iter=steps, random_state=seed)
    return fit(PeersInTurn(peers), options).centers


def central_centers(X: Array, epsilon: float, seed: int) -> Array:
    """Steps of Lloyd with noise on the sums of all peers."""
    limits = checked_bounds(BOX)
    peers = {
        str(i): SummingPeer(part, limits).answer for i, part in enumerate(np.array_split(X, PEERS))
    }
    options = ServerOptions(K, bounds=BOX, epsilon=epsilon, max_iter=STEPS, random_state=seed)
    return fit(PeersInTurn(peers), options).centers


METHODS: dict[str, Callable[[Array, float, int], Array]] = {
    "PDk-means++": partial(private_centers, steps=0),
    "and 5 steps, local noise": partial(private_centers, steps=STEPS),
    "5 steps, central noise": central_centers,
}


def median_cost(method: str, epsilon: float, runs: int) -> float:
    """The median over runs with different rows."""
    found = []
    for seed in range(runs):
        X = rows(seed)
        best = KMeans(K, n_init=3, random_state=seed).fit(X).inertia_
        found.append(inertia(X, METHODS[method](X, epsilon, seed)) / best)
    return statistics.median(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.federated_noise")
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    lines = [
        [str(epsilon), *(f"{median_cost(method, epsilon, runs):.2f}" for method in METHODS)]
        for epsilon in (0.5, 1.0, 2.0, 5.0)
    ]
    print(table(["epsilon", *METHODS], lines))


if __name__ == "__main__":
    main()
