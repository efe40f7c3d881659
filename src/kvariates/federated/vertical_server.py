"""The ServerApp of vertical k-means: the aggregator, and its result in a file."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from kvariates import guarantees
from kvariates.estimators import validation
from kvariates.estimators.vertical_kmeans import VerticalKMeans
from kvariates.federated.flower_transport import (
    VERTICAL_DTYPES,
    FlowerTransport,
    Questions,
    VerticalQuestion,
    content_of,
    encode_questions,
    wait_for_nodes,
)
from kvariates.federated.result import write_json
from kvariates.guarantees import Guarantee
from kvariates.numerics.draws import I64
from kvariates.peers.transport import Failure, Reply
from kvariates.peers.vertical import Aggregator, VerticalOptions
from kvariates.peers.vertical_party import Message
from kvariates.peers.vertical_session import VerticalSession, VerticalTranscript

# -- the transport ---------------------------------------------------------------------------------


UNANSWERED = {"start", "keep"}  # sent with the next question: each message costs a process
RETRIES, PAUSE = 5, 1.0  # if Flower has not stored the state of a party yet; seconds
PUBLIC_KEY = 32  # bytes
PARTS: dict[str, dict[str, type]] = {
    "keys": {"public_key": bytes, "rows": int},
    "peers": {"sealed": list},
    "agree": {"exponent": int, "digest": bytes},
    "tokens": {"tokens": bytes},
    "spread": {"masked": np.ndarray},
    "distances": {"masked": np.ndarray},
    "update": {"masked": np.ndarray},
    "finish": {},
}


class PartyLost(RuntimeError):  # noqa: N818
    """A party did not answer, or not as it should."""


class FlowerParties:
    """Asks the parties of a Flower grid; a `PartyTransport`.

    A party has the name that its node says, or else the number of its node. Parties are in the
    order of their names. Their order does not change the result.
    """

    def __init__(self, transport: FlowerTransport) -> None:
        self._transport = transport
        self.names = tuple(transport.peers())
        self._waiting: list[tuple[str, Sequence[Message]]] = []
        self._number = 0

    @classmethod
    def connected(
        cls, grid: Grid, n_parties: int, wait_timeout: float, timeout: float
    ) -> FlowerParties:
        """Wait for the parties. RuntimeError if there are fewer, or more."""
        wait_for_nodes(grid, n_parties, wait_timeout, "parties", "n_parties")
        parties = cls(FlowerTransport(grid, timeout))
        if len(parties) != n_parties:
            raise RuntimeError(
                f"{len(parties)} nodes are connected, but n_parties={n_parties}: "
                f"{', '.join(parties.names)}. Stop those that hold no columns of these rows."
            )
        return parties

    def __len__(self) -> int:
        return len(self.names)

    def ask(self, question: str, arguments: Sequence[Message]) -> list[Message]:
        """Ask each party. PartyLost if one fails: no party can be left out."""
        self._waiting.append((question, arguments))
        if question in UNANSWERED:
            return [{} for _ in self.names]
        asked, self._waiting = self._waiting, []
        self._number += 1
        contents = {
            name: Questions(self._number, [VerticalQuestion(each, own[i]) for each, own in asked])
            for i, name in enumerate(self.names)
        }
        answers = self._send(contents)
        failed = {name: why for name, why in answers.items() if isinstance(why, Failure)}
        failed |= {
            name: Failure(f"its answer to '{question}' is not as it should be: {wrong}")
            for name, answer in answers.items()
            if name not in failed and (wrong := _wrong(question, answer, len(self)))
        }
        if failed:
            reasons = "; ".join(f"Party {name}: {why.reason}" for name, why in failed.items())
            raise PartyLost(
                f"{reasons.rstrip('.')}. No party can be left out, since the masks of the others "
                "would not cancel: start the fit again with all parties."
            )
        return [dict(answers[name]) for name in self.names]  # type: ignore[arg-type]

    def _send(self, contents: Mapping[str, Questions]) -> dict[str, Reply]:
        """The replies; a party whose state is not stored yet is asked again."""
        sent = {name: content_of(questions=encode_questions(q)) for name, q in contents.items()}
        replies = self._transport.deliver(sent, VERTICAL_DTYPES)
        for _ in range(RETRIES):
            behind = [n for n, r in replies.items() if isinstance(r, Failure) and r.log_needed]
            if not behind:
                break
            time.sleep(PAUSE)
            again = {
                name: content_of(questions=encode_questions(contents[name])) for name in behind
            }
            replies |= self._transport.deliver(again, VERTICAL_DTYPES)
        return replies


def _wrong(question: str, answer: Any, parties: int) -> str | None:
    """What is wrong with an answer; shapes of masked arrays are checked by the session."""
    parts = PARTS[question]
    if answer.keys() != parts.keys():
        return f"it has the parts {', '.join(map(str, answer))[:60] or 'nothing'}"
    for part, kind in parts.items():
        if type(answer[part]) is not kind:
            return f"{part} is a {type(answer[part]).__name__}"
    if question == "keys" and len(answer["public_key"]) != PUBLIC_KEY:
        return f"public_key has {len(answer['public_key'])} bytes"
    if question == "peers" and not (
        len(answer["sealed"]) == parties and all(type(s) is bytes for s in answer["sealed"])
    ):
        return "sealed is not one message for each party"
    return None


# -- the app ---------------------------------------------------------------------------------------


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
