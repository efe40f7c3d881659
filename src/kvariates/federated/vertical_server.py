"""The ServerApp of vertical k-means: the aggregator, and its result in a file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from kvariates import guarantees
from kvariates.estimators import validation
from kvariates.estimators.vertical_kmeans import VerticalKMeans
from kvariates.federated.flower_parties import FlowerParties
from kvariates.federated.result import write_json
from kvariates.guarantees import Guarantee
from kvariates.numerics.draws import I64
from kvariates.peers.vertical import Aggregator, VerticalOptions
from kvariates.peers.vertical_session import VerticalSession, VerticalTranscript


@dataclass(frozen=True, eq=False)
class VerticalFederatedResult:
    """What the aggregator knows in the end. The centres stay at the parties.

    Attributes
    ----------
    parties : tuple of str
        Their names.
    labels : ndarray of shape (n_rows,)
    inertia : float
        The sum of squared distances to the nearest centre.
    n_iter : int
    converged : bool
    seed_rows : ndarray of shape (n_clusters,)
        The rows that the first centres were.
    guarantee : Guarantee
    transcript : VerticalTranscript
        Rounds, bytes, what each side learns, and the fingerprint of the public keys.
    """

    parties: tuple[str, ...]
    labels: NDArray[np.int32]
    inertia: float
    n_iter: int
    converged: bool
    seed_rows: I64
    guarantee: Guarantee
    transcript: VerticalTranscript

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON. The file appears when it is complete."""
        sent = self.transcript
        traffic = {question: t._asdict() for question, t in sent.by_question.items()}
        page = {
            "parties": list(self.parties),
            "labels": self.labels.tolist(),
            "inertia": self.inertia,
            "n_iter": self.n_iter,
            "converged": self.converged,
            "seed_rows": self.seed_rows.tolist(),
            "guarantee": str(self.guarantee),
            "transcript": {**asdict(sent), "by_question": traffic, "rounds": sent.rounds,
                           "bytes": sent.bytes},
        }  # fmt: skip
        write_json(path, page)


@dataclass(frozen=True, eq=False)
class AggregatorOptions:
    """See `vertical_server_app`. `model`: the checked parameters of k-means."""

    model: VerticalKMeans
    n_parties: int
    wait_timeout: float
    timeout: float


def vertical_server_app(
    n_clusters: int,
    *,
    n_parties: int,
    save_to: str | os.PathLike[str] | None = None,
    on_result: Callable[[VerticalFederatedResult], None] | None = None,
    **options: Any,
) -> ServerApp:
    """Make the ServerApp that clusters rows whose columns are held by several parties.

    It fails if a party fails: none can be left out, since masks would not cancel.

    Parameters
    ----------
    n_clusters : int
    n_parties : int
        How many nodes must be connected: not fewer, and not more.
    save_to : path or None
        The JSON file of the result.
    on_result : callable or None
        Called with the `VerticalFederatedResult`.
    n_init, max_iter, tol, random_state
        As in `VerticalKMeans`; the same seed gives the same labels.
    block_bytes : int, default 2**25
        Masked matrices are sent in blocks of rows with at most so many bytes; at most 2**25.
    wait_timeout : float, default 60
        How long to wait for the parties.
    timeout : float, default 60
        How long to wait for an answer.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    checked = aggregator_options(n_clusters, n_parties, **options)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        parties = FlowerParties.connected(
            grid, checked.n_parties, checked.wait_timeout, checked.timeout
        )
        result = fit_columns(parties, checked.model)
        if save_to is not None:
            result.save(save_to)
        if on_result is not None:
            on_result(result)

    return app


MOST_BLOCK = 2**25  # bytes; a message may have twice as many


def aggregator_options(
    n_clusters: int,
    n_parties: int,
    *,
    wait_timeout: float = 60.0,
    timeout: float = 60.0,
    block_bytes: int = MOST_BLOCK,
    **model: Any,
) -> AggregatorOptions:
    """Check the parameters of `vertical_server_app`."""
    if n_parties < 2:
        raise ValueError(
            f"n_parties must be at least 2; got {n_parties!r}: the values of a single party would "
            "not be hidden."
        )
    for name, value in (("timeout", timeout), ("wait_timeout", wait_timeout)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a number > 0; got {value!r}.")
    if block_bytes > MOST_BLOCK:
        raise ValueError(f"block_bytes must be at most {MOST_BLOCK}; got {block_bytes!r}.")
    kmeans = VerticalKMeans(n_clusters, block_bytes=block_bytes, **model)
    kmeans._validate_params()
    return AggregatorOptions(kmeans, n_parties, wait_timeout, timeout)


def fit_columns(parties: FlowerParties, model: VerticalKMeans) -> VerticalFederatedResult:
    """Cluster the rows of these parties."""
    aggregator = Aggregator(VerticalSession(parties, model.block_bytes, parties.names))
    options = VerticalOptions(
        int(model.n_clusters), int(model.n_init), int(model.max_iter), float(model.tol)
    )
    found = aggregator.fit(options, validation.generator(model.random_state))
    return VerticalFederatedResult(
        parties.names, found.labels, found.inertia, found.n_iter, found.converged, found.seeds,
        guarantees.plain_seeding(options.k, certifiable=False), aggregator.transcript,
    )  # fmt: skip
