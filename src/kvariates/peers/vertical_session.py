"""The aggregator's side of the messages of vertical k-means: who is asked, and what is counted.

The aggregator relays public keys and sealed messages, and adds masked answers. It never has a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.peers.masks import FixedPoint, fingerprint
from kvariates.peers.transport import n_bytes
from kvariates.peers.vertical_party import TOKEN, Message, VerticalParty

I64 = NDArray[np.int64]

SAME_ROWS = "all parties must hold the same rows in the same order."


class PartyTransport(Protocol):
    """Carries questions to the parties, and their answers back."""

    def __len__(self) -> int:
        """The number of parties."""

    def ask(self, question: str, arguments: Sequence[Message]) -> list[Message]:
        """Ask each party, with its own arguments; return the answers in the order of parties."""


@dataclass(frozen=True, eq=False)
class InProcessParties:
    """Parties in this process."""

    parties: Sequence[VerticalParty]

    def __len__(self) -> int:
        return len(self.parties)

    def ask(self, question: str, arguments: Sequence[Message]) -> list[Message]:
        answers = []
        for i, (party, own) in enumerate(zip(self.parties, arguments, strict=True)):
            try:
                answers.append(party.answer(question, own))
            except ValueError as error:
                raise ValueError(f"Party {i}: {error}") from None
        return answers


class Traffic(NamedTuple):
    """Of one question: how often it was asked, and the bytes of all its messages."""

    rounds: int
    bytes_to_parties: int
    bytes_from_parties: int


@dataclass(frozen=True)
class VerticalTranscript:
    """What was sent, and what each side learned from it.

    Attributes
    ----------
    parties, rows : int
        How many.
    rounds : int
        Questions; all parties are asked at the same time.
    messages : int
        Questions and answers, over all parties.
    bytes : int
        Of arrays, numbers and bytes in all messages.
    by_question : dict
        The `Traffic` of each question.
    error : float
        The largest error of a sum of squared distances by its encoding.
    fingerprint : str
        Of the public keys that the aggregator relayed; the parties must see the same.
    revealed : dict
        What the aggregator and a party learn.
    """

    parties: int
    rows: int
    by_question: dict[str, Traffic]
    error: float
    fingerprint: str
    revealed: dict[str, tuple[str, ...]]

    @property
    def rounds(self) -> int:
        return sum(traffic.rounds for traffic in self.by_question.values())

    @property
    def messages(self) -> int:
        return 2 * self.parties * self.rounds

    @property
    def bytes(self) -> int:
        return sum(t.bytes_to_parties + t.bytes_from_parties for t in self.by_question.values())

    def __str__(self) -> str:
        counts = f"{self.rounds} rounds, {self.messages} messages, {self.bytes} bytes"
        lines = [f"{self.parties} parties, {self.rows} rows: {counts}"]
        for side, facts in self.revealed.items():
            lines += [f"{side} learns:", *(f"  - {fact}" for fact in facts)]
        return "\n".join(lines)


class VerticalSession:
    """Parties that have met: they share keys and a unit, and hold the same rows.

    `block_bytes`: the most bytes of one masked matrix, unless one row has more. `names`: of the
    parties, for errors; by default their numbers.
    """

    def __init__(
        self,
        transport: PartyTransport,
        block_bytes: int = 2**22,
        names: Sequence[str] | None = None,
    ) -> None:
        self._transport, self._block_bytes = transport, block_bytes
        self._traffic: dict[str, Traffic] = {}
        self._round = 0
        self.parties = len(transport)
        self._names = names or list(map(str, range(self.parties)))
        met = self.ask("keys")
        self.rows = self._common_rows([answer["rows"] for answer in met])
        public_keys = [answer["public_key"] for answer in met]
        self.fingerprint = fingerprint(public_keys)
        self.unit = self._agree(public_keys)

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
            without = self._names[digests.index(b"")]
            return f"Party {without} has no ids, but others have; give ids to all or to none."
        tokens = [
            np.frombuffer(answer["tokens"], dtype=f"V{TOKEN}") for answer in self.ask("tokens")
        ]
        other = np.flatnonzero(tokens[party] != tokens[0])
        return (
            f"Party {self._names[party]} has other ids than party {self._names[0]} in {len(other)} "
            f"of {self.rows} rows, first in row {other[0]}; {SAME_ROWS}"
        )

    def _common_rows(self, rows: list[int]) -> int:
        for name, n in zip(self._names, rows, strict=True):
            if n != rows[0]:
                raise ValueError(
                    f"Party {name} has {n} rows and party {self._names[0]} has {rows[0]}; "
                    f"{SAME_ROWS}"
                )
        return rows[0]

    def ask(self, question: str, **arguments: Any) -> list[Message]:
        """Ask all parties the same."""
        return self.ask_each(question, [arguments] * self.parties)

    def ask_each(self, question: str, arguments: Sequence[Message]) -> list[Message]:
        """Ask each party with its own arguments, and count the bytes."""
        answers = self._transport.ask(question, arguments)
        rounds, sent, received = self._traffic.get(question, (0, 0, 0))
        sent, received = sent + n_bytes(list(arguments)), received + n_bytes(answers)
        self._traffic[question] = Traffic(rounds + 1, sent, received)
        return answers

    def masked_sum(self, question: str, shape: tuple[int, ...], **arguments: Any) -> I64:
        """The sum of the masked answers of all parties, in units, by fresh masks."""
        self._round += 1
        total = np.zeros(shape, dtype=np.uint64)
        answers = self.ask(question, round=self._round, **arguments)
        for name, answer in zip(self._names, answers, strict=True):
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

    def transcript(self, revealed: dict[str, tuple[str, ...]]) -> VerticalTranscript:
        return VerticalTranscript(
            self.parties, self.rows, dict(self._traffic), self.unit.error, self.fingerprint,
            revealed,
        )  # fmt: skip
