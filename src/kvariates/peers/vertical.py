"""Vertical k-means: the columns are split over parties, and an aggregator clusters the rows.

The aggregator relays public keys and sealed messages, and adds masked answers: it has no key, and
is given the sums of the parties' squared distances, and no distance of a single party (`masks`).
The fit is that of other settings, with a potential that knows rows by their costs only, and centres
that only the parties hold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kvariates.data.cluster_sums import FloatStatistics, Statistics
from kvariates.data.exact_sums import share_of
from kvariates.data.host_data import PASSES, Offers
from kvariates.data.rows import Labels
from kvariates.fitting import NOBODY, FitOptions, Watch, fit_kmeans
from kvariates.numerics.draws import F64, I64
from kvariates.peers.masks import FixedPoint, exact_sum, fingerprint, row_at
from kvariates.peers.questions import Answer, Envelope, Question
from kvariates.peers.transport import Failure, Reply, Transcript, Transport
from kvariates.peers.vertical_party import TOKEN, VerticalParty
from kvariates.refining.lloyd import LloydResult, StopRule, lloyd
from kvariates.seeding.medoid_seedings import PointIndex
from kvariates.seeding.sampler import Potential
from kvariates.seeding.seedings import POTENTIAL

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

    As the data of a fit they tell how far rows spread, and are asked in many passes.
    `block_bytes`: the most bytes of one masked matrix, unless one row has more. `names`: of the
    parties; by default, of all that the transport reaches.
    """

    offers: ClassVar[Offers] = PASSES
    summary: ClassVar[None] = None

    def __init__(
        self, transport: Transport, block_bytes: int = 2**22, names: Sequence[str] | None = None
    ) -> None:
        self._transport, self._block_bytes = transport, block_bytes
        self.names = tuple(transport.peers() if names is None else names)
        self.parties = len(self.names)
        self._waiting: dict[str, list[Question]] = {name: [] for name in self.names}
        self._messages = self._round = 0
        self.transcript = Transcript(revealed=dict(REVEALED), parties=self.parties)
        met = self.ask("keys")
        self.rows = self.transcript.rows = met[0]["rows"]
        for name, answer in zip(self.names, met, strict=True):
            if answer["rows"] != self.rows:
                raise ValueError(
                    f"Party {name} has {answer['rows']} rows and party {self.names[0]} has "
                    f"{self.rows}; {SAME_ROWS}"
                )
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

    def canonical(self) -> None:
        """None: the rows are not at one place."""

    def spread(self) -> float:
        """The mean variance of the columns of all parties."""
        variance, columns = self.masked_sum("spread", (2,))
        return self.unit.decode_total(int(variance)) / int(columns)

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


# -- the parts of the fit --------------------------------------------------------------------------


class MaskedPotential(Potential):
    """The potential of rows that are known by the sums of the parties' distances only.

    Centres are numbers of rows. Costs are exact integers, and so are the draws.
    """

    def __init__(self, session: VerticalSession, k: int) -> None:
        super().__init__(np.empty(k, dtype=np.int64))
        self.points, self.weight = range(session.rows), None
        self._session = session
        self._costs = np.full(session.rows, np.iinfo(np.int64).max)

    def add(self, centers: I64) -> None:
        super().add(centers)
        for block, sums in self._distances(centers):
            np.minimum(self._costs[block], sums.min(axis=1), out=self._costs[block])

    def add_best(self, candidates: I64) -> int:
        left = [0] * len(candidates)
        for block, sums in self._distances(candidates):
            lowered = np.minimum(self._costs[block, None], sums)
            left = [
                total + exact_sum(column) for total, column in zip(left, lowered.T, strict=True)
            ]
        best = left.index(min(left))
        self.add(candidates[best : best + 1])
        return best

    def total(self) -> float:
        if len(self.centers) == 0:
            return float(self._session.rows)
        return self._session.unit.decode_total(exact_sum(self._costs))

    def draw(self, rng: np.random.Generator) -> int:
        total = exact_sum(self._costs) if len(self.centers) else 0
        if total == 0:
            return share_of(self._session.rows, rng.random())
        return row_at(self._costs, share_of(total, rng.random()))

    def _distances(self, rows: I64) -> Iterator[tuple[slice, I64]]:
        self._session.ask("start", rows=rows)
        return self._session.distances(len(rows))


class MaskedAssigner:
    """Assigns rows by the sums of the parties' distances. It keeps labels and costs of the rows.

    Its statistics have no sums of rows: each party adds up its own columns. What stands for the
    centres is how far each moved in the last update, squared; the sum over the parties.
    """

    def __init__(self, session: VerticalSession, k: int) -> None:
        self.session, self.k = session, k
        self.labels: Labels = np.full(session.rows, -1, dtype=np.int32)
        self.costs: I64 = np.zeros(session.rows, dtype=np.int64)  # in units

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        changed = 0
        for block, sums in self.session.distances(self.k):
            labels = sums.argmin(axis=1).astype(np.int32)
            changed += int(np.count_nonzero(labels != self.labels[block]))
            self.labels[block] = labels
            self.costs[block] = np.take_along_axis(sums, labels[:, None], axis=1)[:, 0]
        counts = np.bincount(self.labels, minlength=self.k)
        none = np.empty((self.k, 0))
        return FloatStatistics(none, counts.astype(np.float64), counts, changed, self.cost)

    def cost(self) -> float:
        return self.session.unit.decode_total(exact_sum(self.costs))

    def filled_labels(self, counts: I64) -> Labels:
        """The labels, but every empty cluster has one of the rows that cost most."""
        empty = np.flatnonzero(counts == 0)
        if len(empty) == 0:
            return self.labels
        far = np.argsort(-self.costs, kind="stable")[: len(empty)]
        far = far[self.costs[far] > 0]  # rows of no cost are only duplicates of centres
        labels = self.labels.copy()
        labels[far] = empty[: len(far)]
        return labels

    def update(self, centers: F64, statistics: Statistics) -> F64:
        """Every party moves its part of each centre to the mean of the cluster's rows."""
        if statistics.changed == 0:
            return np.zeros(self.k)
        labels = short(self.filled_labels(statistics.counts), self.k)
        return self.session.unit.decode(self.session.masked_sum("update", (self.k,), labels=labels))


class Aggregator:
    """Clusters rows whose columns are held by parties. It learns sums over the parties only.

    It is the objective of the fit, and the session is the data. The centres that it knows are the
    numbers of the rows that were the first ones.
    """

    name: ClassVar[str] = "vertical k-means"
    offers: ClassVar[Offers] = POTENTIAL
    unit: ClassVar[bool] = False
    density: ClassVar[PointIndex] = PointIndex()
    potential: ClassVar[Any] = MaskedPotential

    def __init__(self, session: VerticalSession) -> None:
        self.session = session
        self._kept = math.inf  # the cost of the run that the parties keep

    def fit(
        self, options: FitOptions, rng: np.random.Generator, watch: Watch = NOBODY
    ) -> LloydResult:
        """Run k-means; in the end the parties hold labels and their parts of the centres."""
        data: Any = self.session
        objective: Any = self
        if data.rows < options.k:
            raise ValueError(f"n_samples={data.rows} should be >= n_clusters={options.k}.")
        self._kept, asked = math.inf, replace(options, variance=data.spread())
        return fit_kmeans(data, objective, asked, rng, watch)

    def lloyd(
        self,
        session: VerticalSession,
        rows: I64,
        stop: StopRule,
        scan: str,
        overwrite: bool = False,
    ) -> LloydResult:
        k = len(rows)
        session.ask("start", rows=rows)
        assigner = MaskedAssigner(session, k)
        end = lloyd(assigner, np.zeros(k), assigner.update, stop, moves_of=lambda _, moves: moves)
        if not end.converged:  # the labels are those of the centres before the last update
            assigner.assign(end.centers)
        cost = assigner.cost()
        if cost < self._kept:  # the parties are told now: another run starts from other rows
            self._kept = cost
            session.ask("keep")
        return LloydResult(rows, assigner.labels, cost, end.n_iter, end.converged)

    def finish(self, session: VerticalSession, end: LloydResult) -> LloydResult:
        session.ask("finish", labels=short(end.labels, len(end.centers)))
        return end

    def predict(self, k: int) -> Labels:
        """The nearest centre of every row. Pre: the parties were made with fitted centres."""
        assigner = MaskedAssigner(self.session, k)
        assigner.assign(np.zeros(k))
        return assigner.labels


def short(labels: Labels, k: int) -> NDArray[np.unsignedinteger]:
    """Labels in the smallest type, for messages."""
    return labels.astype(np.min_scalar_type(k - 1))
