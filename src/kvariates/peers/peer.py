"""A peer: it holds rows, and answers the questions that its policy allows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from kvariates.data.block_data import PartedData
from kvariates.peers.questions import (
    QUESTIONS,
    Answer,
    AnswerRule,
    PeerState,
    Question,
    check_arguments,
)

FITS = 4  # whose states are kept; others are computed again from their logs


@dataclass(frozen=True, eq=False)
class Envelope:
    """A question on its way to a peer.

    Attributes
    ----------
    fit : int
        The number of the fit.
    position : int
        How many questions before it have changed the state of the peer.
    question : Question
    log : sequence of Question or None
        Those questions, for a peer that has lost its state. None: not sent. For a party that holds
        columns: questions without answers that come before this one.
    """

    fit: int
    position: int
    question: Question
    log: Sequence[Question] | None = None


class LogNeeded(Exception):  # noqa: N818
    """The peer has lost its state. Ask again, with the log."""


@dataclass(frozen=True)
class Policy:
    """What a peer answers.

    Attributes
    ----------
    questions : frozenset of str
        The names of the questions.
    points : int or None
        The most rows that it shows, in all fits together; None: any number.
    """

    questions: frozenset[str]
    points: int | None = None


TRUSTING = Policy(frozenset(QUESTIONS))


class Peer:
    """Rows that may not leave, and the state of the last few fits.

    Parameters
    ----------
    data : HostData or BlockData
        In memory, or in blocks of a source, of which every pass reads a few at a time.
    seed : int
        Of the peer's own draws.
    policy : Policy
        By default, every question is answered.
    """

    def __init__(self, data: PartedData, seed: int, policy: Policy = TRUSTING) -> None:
        self._data, self._seed, self._policy = data, seed, policy
        self._states: OrderedDict[int, PeerState] = OrderedDict()
        self._shown = 0  # rows
        self._lock = threading.Lock()

    def answer(self, envelope: Envelope) -> Answer:
        """Raise LogNeeded if the state is lost, and ValueError if the policy forbids the answer."""
        with self._lock:
            entry = self._allowed(envelope)
            state = self._state(envelope)
            check_arguments(envelope.question.arguments, self._data.d)
            try:
                answer = entry.run(state, **envelope.question.arguments)
            except BaseException:
                self._states.pop(envelope.fit, None)  # it may have changed in part
                raise
            state.position += bool(entry.keeps)
            self._count(answer, entry)
            return answer

    def _allowed(self, envelope: Envelope) -> AnswerRule:
        for question in (*(envelope.log or ()), envelope.question):
            if question.name not in QUESTIONS:
                raise ValueError(f"the question {question.name!r} is not known")
            if question.name not in self._policy.questions:
                raise ValueError(f"the question {question.name!r} is not allowed by this peer")
        return QUESTIONS[envelope.question.name]

    def _state(self, envelope: Envelope) -> PeerState:
        state = self._states.get(envelope.fit)
        if state is None or state.position != envelope.position:
            state = self._computed_again(envelope)
        self._states[envelope.fit] = state
        self._states.move_to_end(envelope.fit)
        while len(self._states) > FITS:
            self._states.popitem(last=False)
        return state

    def _computed_again(self, envelope: Envelope) -> PeerState:
        if envelope.position and envelope.log is None:
            raise LogNeeded
        state = PeerState(self._data, (self._seed, envelope.fit))
        for question in envelope.log or ():
            QUESTIONS[question.name].run(state, **question.arguments)
        state.position = envelope.position
        return state

    def _count(self, answer: Answer, rule: AnswerRule) -> None:
        """ValueError if the answer shows more rows than the policy allows."""
        shown, most = len(answer[rule.points]) if rule.points else 0, self._policy.points
        if shown and most is not None and self._shown + shown > most:
            raise ValueError(f"{self._shown} of {most} rows were shown, and no more are allowed")
        self._shown += shown
