"""The coordinator: asks peers, checks their answers, and drops those that cannot be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from kvariates.data.cluster_sums import SumScale
from kvariates.peers.bounds import PeerLimits, PublicBounds
from kvariates.peers.questions import (
    QUESTIONS,
    Answer,
    AnswerRule,
    Envelope,
    Question,
    logged,
    scale_of_numbers,
)
from kvariates.peers.transport import Dropped, Failure, Reply, Transcript, Transport, revealed_by

T = TypeVar("T")

# What a reader raises if an answer is not what it should be.
WRONG_ANSWER = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError)
# Questions to other kinds of peers keep nothing that a log must hold, and show no row.
PLAIN = AnswerRule(lambda _: {})


FORGETFUL = 2  # a peer that has lost its state so often gets the log with every question


class PeerLost(RuntimeError):  # noqa: N818
    """A peer that was needed was dropped."""


class ShardMissing(PeerLost):
    """A peer was dropped in the middle of a question that needs all of them."""


@dataclass(frozen=True, eq=False)
class Call(Generic[T]):
    """A question, and how its answer is read. `read` raises ValueError if an answer is wrong."""

    question: Question
    read: Callable[[Answer], T]


def call(name: str, read: Callable[[Answer], T], /, **arguments: Any) -> Call[T]:
    """A question to be asked, and how its answer is read."""
    return Call(Question(name, arguments), read)


def told(name: str, /, **arguments: Any) -> Call[None]:
    """A question whose answer says nothing."""
    return call(name, lambda _: None, **arguments)


class AtPeer(Protocol):
    """A part of the data that a peer holds. Its methods make calls."""

    peer: str


@dataclass(frozen=True)
class Description:
    """What a peer says of its rows."""

    n: int
    d: int
    dtype: np.dtype[Any]
    weight: float
    scale: SumScale
    weighted: bool

    @classmethod
    def of(cls, answer: Answer, bounds: PublicBounds | None = None) -> Description:
        """ValueError if there are no such rows, or not within the public bounds."""
        n, d, weight = int(answer["n"]), int(answer["d"]), float(answer["weight"])
        if n < 0 or d < 1 or not 0 <= weight < np.inf:
            raise ValueError(f"describes {n} rows of weight {weight:g} and {d} features")
        dtype = np.dtype(answer["dtype"])
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"has rows of type {dtype}")
        scale = scale_of_numbers(answer["scale"])
        PeerLimits(n, weight, bounds).description(d, scale)
        return cls(n, d, dtype, weight, scale, bool(answer["weighted"]))


class Coordinator:
    """Asks peers over a transport.

    `fit`: the number of this fit; peers keep the states of different fits apart. `min_peers`: peers
    that fail are dropped while so many are left; None: no peer may fail. `bounds`: peers whose
    answers cannot be those of rows within them are dropped.
    """

    def __init__(
        self,
        transport: Transport,
        fit: int,
        min_peers: int | None = None,
        bounds: PublicBounds | None = None,
    ) -> None:
        self._transport, self._fit, self._least = transport, fit, min_peers
        self.bounds = bounds
        self.transcript = Transcript()
        self._positions: dict[str, int] = {}
        self._logs: dict[str, list[Question]] = {}
        self._gone: set[str] = set()
        self._lost: Counter[str] = Counter()  # how often a peer has lost its state
        self.descriptions: dict[str, Description] = {}
        self.refresh()

    @property
    def peers(self) -> list[str]:
        """The peers that take part now, in the order in which they came."""
        return list(self.descriptions)

    def refresh(self) -> list[str]:
        """Take in peers that have joined; return their names."""
        known, before = self.descriptions.keys() | self._gone, self.transcript.rounds
        new = [name for name in self._transport.peers() if name not in known]
        if new:
            self._positions |= dict.fromkeys(new, 0)
            self._logs |= {name: [] for name in new}
            asked = call("describe", lambda answer: Description.of(answer, self.bounds))
            described = self._answers(dict.fromkeys(new, asked))
            self._take_in(described)
        self._check_enough()
        joined = [name for name in new if name in self.descriptions]
        self.transcript.joined += joined if before else []  # not those of the beginning
        return joined

    def _take_in(self, described: dict[str, Description]) -> None:
        """Peers need the features of those before; the first ones, those of most."""
        common = Counter(peer.d for peer in (self.descriptions or described).values())
        for name, peer in described.items():
            expected = common.most_common(1)[0][0]
            if peer.d == expected:
                self.descriptions[name] = peer
            else:
                self._drop(name, f"has {peer.d} features, others have {expected}")

    def ask(self, calls: Mapping[str, Call[T]]) -> dict[str, T]:
        """Ask peers, all at the same time. Those that fail are dropped, and are left out."""
        answers = self._answers(calls)
        self._check_enough()
        return answers

    def _answers(self, calls: Mapping[str, Call[T]]) -> dict[str, T]:
        self.transcript.begin(asked.question.name for asked in calls.values())
        self.transcript.revealed = revealed_by(self.transcript.by_question)
        replies = self._send(calls, with_log=[n for n in calls if self._lost[n] >= FORGETFUL])
        lost = [name for name, r in replies.items() if isinstance(r, Failure) and r.log_needed]
        if lost:
            self._lost.update(lost)
            again = {name: calls[name] for name in lost}
            replies |= self._send(again, with_log=lost)
        answers: dict[str, T] = {}
        for name, reply in replies.items():
            try:
                answers[name] = self._read(name, calls[name], reply)
            except WRONG_ANSWER as error:
                self._drop(name, _words(error))
        return answers

    def one(self, peer: str, asked: Call[T]) -> T:
        """Ask one peer. PeerLost if it fails."""
        answers = self.ask({peer: asked})
        if peer not in answers:
            raise PeerLost(peer)
        return answers[peer]

    def limits(self, peer: str) -> PeerLimits:
        """What the answers of a peer can be."""
        known = self.descriptions[peer]
        scale = known.scale
        return PeerLimits(known.n, known.weight, self.bounds, scale.largest, scale.heaviest)

    def everyone(self, asked: Call[T]) -> dict[str, T]:
        return self.ask(dict.fromkeys(self.peers, asked))

    def map(
        self, function: Callable[..., Call[T]], shards: Iterable[AtPeer], *more: Iterable[Any]
    ) -> list[T]:
        """As the built-in, for functions that make a call of a shard; all are asked at once.

        Shards of dropped peers are left out.
        """
        each = zip(shards, *more, strict=True)
        there = {of[0].peer: of for of in each if of[0].peer in self.descriptions}
        if not there:
            return []
        answers = self.ask({peer: function(*of) for peer, of in there.items()})
        return [answers[peer] for peer in there if peer in answers]

    def map_all(
        self, function: Callable[..., Call[T]], shards: Sequence[AtPeer], *more: Iterable[Any]
    ) -> list[T]:
        """As `map`, where every shard is needed. ShardMissing if a peer is dropped."""
        found = self.map(function, shards, *more)
        if len(found) < len(shards):
            raise ShardMissing("a peer was dropped that is needed here; use init='dk-means++'")
        return found

    def end(self) -> None:
        self._transport.end()

    def _send(self, calls: Mapping[str, Call[Any]], with_log: Sequence[str]) -> dict[str, Reply]:
        envelopes = {
            name: Envelope(
                self._fit, self._positions[name], asked.question,
                tuple(self._logs[name]) if name in with_log else None,
            )
            for name, asked in calls.items()
        }  # fmt: skip
        for envelope in envelopes.values():
            asked_before = (question.arguments for question in envelope.log or ())
            arguments = envelope.question.arguments
            self.transcript.sent(envelope.question.name, arguments, *asked_before)
        return self._transport.send(envelopes)

    def _read(self, name: str, asked: Call[T], reply: Reply) -> T:
        if isinstance(reply, Failure):
            raise ValueError(reply.reason)
        self.transcript.received(asked.question.name, reply)
        entry = QUESTIONS.get(asked.question.name, PLAIN)
        value = asked.read(reply)
        if entry.points:
            self.transcript.points_revealed += len(reply[entry.points])
        if entry.keeps:
            self._positions[name] += 1
            self._logs[name] = logged(self._logs[name], asked.question)
        return value

    def _drop(self, name: str, reason: str) -> None:
        if self._least is None:
            raise PeerLost(f"peer {name}: {reason}")
        self.transcript.dropped.append(Dropped(name, self.transcript.rounds, reason))
        self.descriptions.pop(name, None)
        self._gone.add(name)

    def _check_enough(self) -> None:
        if len(self.descriptions) < (self._least or 1):
            gone = "; ".join(f"{d.peer}: {d.reason}" for d in self.transcript.dropped[-3:])
            raise PeerLost(
                f"{len(self.descriptions)} peers are left, but at least {self._least or 1} are "
                f"needed. Dropped last: {gone or 'none'}."
            )


def _words(error: Exception) -> str:
    """What was wrong with an answer, in one line."""
    if isinstance(error, KeyError):
        return f"its answer has no {error}"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if isinstance(error, ValueError) else f"its answer is malformed: {text}"
