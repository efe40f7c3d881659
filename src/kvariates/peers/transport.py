"""Transports carry questions to peers and answers back; a transcript counts what was sent.

A transport is three calls. It knows nothing of clustering: `peers` names those that can be reached
now, `send` delivers envelopes and waits for the answers, `end` releases what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from kvariates.peers.questions import Answer, Envelope, LogNeeded


@dataclass(frozen=True)
class Failure:
    """There is no answer. `log_needed`: the peer has lost its state, and can be asked again."""

    reason: str
    log_needed: bool = False


Reply = Answer | Failure
Answering = Callable[[Envelope], Answer]


class Transport(Protocol):
    def peers(self) -> Sequence[str]:
        """The names of the peers that can be reached now."""

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        """Deliver envelopes to the named peers, all at the same time, and wait for the replies."""

    def end(self) -> None:
        """Release what was held for this fit."""


def reply_of(answering: Answering, envelope: Envelope) -> Reply:
    """The answer of a peer, or why there is none. For the side of the peer."""
    try:
        return answering(envelope)
    except LogNeeded:
        return Failure("the state is lost", log_needed=True)
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}".splitlines()[0])


# -- the transcript --------------------------------------------------------------------------------


NUMBER_BYTES = 8


@dataclass(frozen=True)
class Dropped:
    """A peer that was asked no more, from which round on, and why."""

    peer: str
    round: int
    reason: str


class Traffic(NamedTuple):
    """Of one question: how often it was asked, and the bytes of all its messages."""

    rounds: int = 0
    bytes_to_parties: int = 0
    bytes_from_parties: int = 0


@dataclass
class Transcript:
    """Counts of all that was sent, and what each side learned from it.

    Attributes
    ----------
    rounds : int
        Questions to one or several peers at the same time.
    messages : int
        Questions and answers, one for each peer.
    bytes_sent, bytes_received, bytes : int
        Of the arguments, of the answers, and of both, without what a transport adds.
    points_revealed : int
        Rows, or noisy rows, that peers have shown.
    dropped : list of Dropped
    joined : list of str
        Peers that came after the beginning.
    fingerprints : list of str
        Of the public keys of each group of secure sums, or of the parties, as the coordinator
        relayed them; each peer logs those that it was given. `fingerprint` is the last one.
    by_question : dict
        The `Traffic` of each question.
    revealed : dict
        What the coordinator and a peer learn.
    parties, rows : int
        Of parties who hold columns: how many, and how many rows they have.
    error : float
        The largest error of a sum of the parties' squared distances by its encoding.
    """

    rounds: int = 0
    messages: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    points_revealed: int = 0
    dropped: list[Dropped] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)
    by_question: dict[str, Traffic] = field(default_factory=dict)
    revealed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    parties: int = 0
    rows: int = 0
    error: float = 0.0

    @property
    def bytes(self) -> int:
        return self.bytes_sent + self.bytes_received

    @property
    def fingerprint(self) -> str:
        return self.fingerprints[-1] if self.fingerprints else ""

    def begin(self, questions: Iterable[str]) -> None:
        """Count a round in which these questions are asked."""
        self.rounds += 1
        for question in set(questions):
            self._add(question, Traffic(rounds=1))

    def sent(self, question: str, *arguments: Any) -> None:
        """Count a message to a peer."""
        size, self.messages = n_bytes(arguments), self.messages + 1
        self.bytes_sent += size
        self._add(question, Traffic(bytes_to_parties=size))

    def received(self, question: str, answer: Answer) -> None:
        """Count an answer."""
        size, self.messages = n_bytes(answer), self.messages + 1
        self.bytes_received += size
        self._add(question, Traffic(bytes_from_parties=size))

    def _add(self, question: str, more: Traffic) -> None:
        before = self.by_question.get(question, Traffic())
        self.by_question[question] = Traffic(*map(sum, zip(before, more, strict=True)))

    def as_page(self) -> dict[str, Any]:
        """For a JSON file."""
        traffic = {question: t._asdict() for question, t in self.by_question.items()}
        more = {"by_question": traffic, "bytes": self.bytes, "fingerprint": self.fingerprint}
        return asdict(self) | more

    def __str__(self) -> str:
        who = f"{self.parties} parties, {self.rows} rows: " if self.parties else ""
        lines = [f"{who}{self.rounds} rounds, {self.messages} messages, {self.bytes} bytes"]
        lines += [f"{d.peer} was dropped in round {d.round}: {d.reason}" for d in self.dropped]
        for side, facts in self.revealed.items():
            lines += [f"{side} learns:", *(f"  - {fact}" for fact in facts)]
        return "\n".join(lines)


LEARNED = {
    "describe": "of each peer: the numbers of rows and features, the weight, the sizes of values",
    "spread": "of each peer: the sum of the rows' squared distances to their mean",
    "potential": "of each peer: the cost of its rows at the first centres so far",
    "draw": "a row, of the peer that was drawn, for each first centre",
    "total": "of each peer: the cost of its rows at the first centres so far",
    "take": "the rows that were drawn, and where they are",
    "column_sums": "of each peer: the sums of its columns",
    "assign": "of each peer, in every iteration: sums, weights and counts of the clusters",
    "far_rows": "rows that cost most, to fill empty clusters",
    "evaluate": "of each peer: the cost of its rows at some centres, and how many are nearest",
    "masked_sum": "of all peers together: sums, weights and counts of the clusters, and costs",
    "noisy_statistics": "of each peer, in every iteration: counts and sums of the clusters",
    "sums_on_lattice": "of each peer, in every iteration: exact counts and sums of the clusters",
    "ledger": "of each peer: what its noise has spent; all that is above is noisy",
}


def revealed_by(questions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What the coordinator and the peers learn if these questions are asked about rows."""
    learned = tuple(LEARNED[question] for question in questions if question in LEARNED)
    return {"The coordinator": learned, "Each peer": ("the centres of every question",)}


def n_bytes(values: Any) -> int:
    """The size of arguments or of an answer."""
    if isinstance(values, np.ndarray):
        return values.nbytes
    if isinstance(values, Mapping):
        return sum(n_bytes(value) for value in values.values())
    if isinstance(values, list | tuple):
        return sum(n_bytes(value) for value in values)
    if isinstance(values, int) and not isinstance(values, bool):
        return max(NUMBER_BYTES, (values.bit_length() + 7) // 8)
    if isinstance(values, str | bytes):
        return len(values)
    return 0 if values is None else NUMBER_BYTES
