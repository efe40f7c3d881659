"""Parties that hold columns, as nodes of Flower: the transport of vertical k-means."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from kvariates.federated.flower_transport import FlowerTransport, wait_for_nodes
from kvariates.federated.messages import content_of
from kvariates.federated.vertical_messages import (
    VERTICAL_DTYPES,
    Questions,
    VerticalQuestion,
    encode_questions,
)
from kvariates.peers.transport import Failure, Reply
from kvariates.peers.vertical_party import Message

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
