"""The aggregator's side of the messages of vertical k-means: who is asked, and what is counted.

The aggregator relays public keys and sealed messages, and adds masked answers. It never has a key.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.peers.masks import FixedPoint, fingerprint
from kvariates.peers.questions import Answer, Envelope, Question
from kvariates.peers.transport import Failure, Reply, Transcript, Transport
from kvariates.peers.vertical_party import TOKEN, VerticalParty

I64 = NDArray[np.int64]

SAME_ROWS = "all parties must hold the same rows in the same order."


UNANSWERED = {"start", "keep"}  # sent with the next question: each message may cost a process
RETRIES, PAUSE = 5, 1.0  # if a transport has not stored the state of a party yet; seconds
PUBLIC_KEY = 32  # bytes
ANSWERS: dict[str, dict[str, type]] = {
    "keys": {"public_key": bytes, "rows": int},
    "peers": {"sealed": list},
    "agree": {"exponent": int, "digest": bytes},
    "tokens": {"tokens": bytes},
    "spread": {"masked": np.ndarray},
    "distances": {"masked": np.ndarray},
    "update": {"masked": np.ndarray},
    "finish": {},
}
REVEALED = {
    "The aggregator": (
        "the number of rows, and that the ids agree (if not: which rows differ)",
        "for every row, the sum over the parties of its squared distances to each drawn row",
        "the same to each centre, in every iteration; so the labels, the inertia",
        "for every centre and iteration, the squared length of its move (summed over the parties)",
        "the number of columns and the sum of their variances, over all parties",
        "a power of two that bounds squared distances, for all parties together",
    ),
    "Each party": (
        "which rows the first centres were, and the labels of all rows in every iteration",
        "for each other party, a power of two that bounds its squared distances",
        "its own part of the centres",
    ),
}


class PartyLost(RuntimeError):  # noqa: N818
    """A party did not answer, or not as it should."""


@dataclass(frozen=True, eq=False)
class InProcessParties:
    """A transport to parties in this process. It asks one after the other, and raises errors."""

    parties: Sequence[VerticalParty]

    def peers(self) -> list[str]:
        return list(map(str, range(len(self.parties))))

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        answers: dict[str, Reply] = {}
        for name, envelope in envelopes.items():
            try:
                answers[name] = self.parties[int(name)].answer(envelope)
            except ValueError as error:
                raise ValueError(f"Party {name}: {error}") from None
        return answers

    def end(self) -> None:
        """Nothing is held."""


class VerticalSession:
    """Parties that have met: they share keys and a unit, and hold the same rows.

    `block_bytes`: the most bytes of one masked matrix, unless one row has more. `names`: of the
    parties; by default, of all that the transport reaches.
    """

    def __init__(
        self,
        transport: Transport,
        block_bytes: int = 2**22,
        names: Sequence[str] | None = None,
    ) -> None:
        self._transport, self._block_bytes = transport, block_bytes
        self.names = tuple(transport.peers() if names is None else names)
        self.parties = len(self.names)
        self._waiting: dict[str, list[Question]] = {name: [] for name in self.names}
        self._messages = self._round = 0
        self.transcript = Transcript(revealed=dict(REVEALED), parties=self.parties)
        met = self.ask("keys")
        self.rows = self.transcript.rows = self._common_rows([answer["rows"] for answer in met])
        public_keys = [answer["public_key"] for answer in met]
        self.fingerprint = fingerprint(public_keys)
        self.transcript.fingerprints.append(self.fingerprint)
        self.unit = self._agree(public_keys)
        self.transcript.error = self.unit.error

    def _agree(self, public_keys: list[bytes]) -> FixedPoint:
        """Relay keys and sealed messages; compare ids."""
        numbers = range(self.parties)
        met = self.ask_each("peers", [{"index": i, "public_keys": public_keys} for i in numbers])
        sealed = [answer["sealed"] for answer in met]
        agreed = self.ask_each("agree", [{"sealed": [s[i] for s in sealed]} for i in numbers])
        digests = [answer["digest"] for answer in agreed]
        if len(set(digests)) > 1:
            raise ValueError(self._other_ids(digests))
        return FixedPoint(agreed[0]["exponent"], self.parties)

    def _other_ids(self, digests: list[bytes]) -> str:
        """Why the ids do not agree."""
        party = next(i for i, digest in enumerate(digests) if digest != digests[0])
        if b"" in digests:
            without = self.names[digests.index(b"")]
            return f"Party {without} has no ids, but others have; give ids to all or to none."
        tokens = [
            np.frombuffer(answer["tokens"], dtype=f"V{TOKEN}") for answer in self.ask("tokens")
        ]
        other = np.flatnonzero(tokens[party] != tokens[0])
        return (
            f"Party {self.names[party]} has other ids than party {self.names[0]} in {len(other)} "
            f"of {self.rows} rows, first in row {other[0]}; {SAME_ROWS}"
        )

    def _common_rows(self, rows: list[int]) -> int:
        for name, n in zip(self.names, rows, strict=True):
            if n != rows[0]:
                raise ValueError(
                    f"Party {name} has {n} rows and party {self.names[0]} has {rows[0]}; "
                    f"{SAME_ROWS}"
                )
        return rows[0]

    def ask(self, question: str, **arguments: Any) -> list[Answer]:
        """Ask all parties the same."""
        return self.ask_each(question, [arguments] * self.parties)

    def ask_each(self, question: str, arguments: Sequence[Answer]) -> list[Answer]:
        """Ask each party with its own arguments. PartyLost if one fails: none can be left out."""
        self.transcript.begin([question])
        for name, own in zip(self.names, arguments, strict=True):
            self.transcript.sent(question, own)
            self._waiting[name].append(Question(question, own))
        if question in UNANSWERED:
            answers: list[Answer] = [{}] * self.parties
        else:
            answers = self._answers(question)
        for answer in answers:
            self.transcript.received(question, answer)
        return answers

    def _answers(self, question: str) -> list[Answer]:
        """Send all questions that wait; only this one, the last, has an answer."""
        envelopes = {
            name: Envelope(0, self._messages, asked[-1], tuple(asked[:-1]))  # keys tell fits apart
            for name, asked in self._waiting.items()
        }
        self._messages += 1
        self._waiting = {name: [] for name in self.names}
        replies = self._send(envelopes)
        failed = {name: r.reason for name, r in replies.items() if isinstance(r, Failure)}
        failed |= {
            name: f"its answer to '{question}' is not as it should be: {wrong}"
            for name, answer in replies.items()
            if name not in failed and (wrong := _wrong(question, answer, self.parties))
        }
        if failed:
            reasons = "; ".join(f"Party {name}: {why}" for name, why in failed.items())
            raise PartyLost(
                f"{reasons.rstrip('.')}. No party can be left out, since the masks of the others "
                "would not cancel: start the fit again with all parties."
            )
        return [dict(replies[name]) for name in self.names]  # type: ignore[arg-type]

    def _send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        """The replies; a party whose state is not stored yet is asked again."""
        replies = self._transport.send(envelopes)
        for _ in range(RETRIES):
            behind = [n for n, r in replies.items() if isinstance(r, Failure) and r.log_needed]
            if not behind:
                break
            time.sleep(PAUSE)
            replies |= self._transport.send({name: envelopes[name] for name in behind})
        return replies

    def masked_sum(self, question: str, shape: tuple[int, ...], **arguments: Any) -> I64:
        """The sum of the masked answers of all parties, in units, by fresh masks."""
        self._round += 1
        total = np.zeros(shape, dtype=np.uint64)
        answers = self.ask(question, round=self._round, **arguments)
        for name, answer in zip(self.names, answers, strict=True):
            masked = answer["masked"]
            if masked.shape != shape or masked.dtype != np.uint64:
                raise ValueError(
                    f"Party {name} answered '{question}' with {masked.dtype} of shape "
                    f"{masked.shape}; it must be uint64 of shape {shape}."
                )
            total += masked
        if total.size and int(total.max()) > self.unit.largest:
            raise ValueError(
                f"The masks of the parties did not cancel in round {self._round}: a party uses "
                "other keys or another round. Start again, and compare the fingerprints."
            )
        return total.view(np.int64)

    def distances(self, k: int) -> Iterator[tuple[slice, I64]]:
        """The sums of the parties' squared distances to k centres, by blocks of rows."""
        step = max(1, self._block_bytes // (8 * k))
        for first in range(0, self.rows, step):
            last = min(first + step, self.rows)
            yield (
                slice(first, last),
                self.masked_sum("distances", (last - first, k), first=first, last=last),
            )


def _wrong(question: str, answer: Any, parties: int) -> str | None:
    """What is wrong with an answer; shapes of masked arrays are checked by the session."""
    parts = ANSWERS[question]
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
