"""A peer whose every answer is a release with a charge (PDk-means++, Lloyd with local noise).

| question | release | share of epsilon |
|---|---|---|
| describe | the noisy number of rows (add-remove), or the public one (replace-one) | COUNT_SHARE |
| potential | the noisy potential, n_clusters - 1 of them | POTENTIAL_SHARE |
| draw | a row drawn uniformly, with Laplace noise, n_clusters of them | DRAW_SHARE |
| noisy_statistics | noisy counts and sums of the clusters, `steps` of them | STEPS_SHARE |
| ledger | nothing of the data: the charges so far | - |

A question that is asked again gets the release that was made before: it costs nothing. A question
beyond the numbers above is refused. `privacy/proofs/peers.md` has the proof.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context

from kvariates.data.cluster_sums import SumScale
from kvariates.data.lattice_rows import Adjacency, LatticeSums, lattice_sums
from kvariates.data.rows import F64, Rows
from kvariates.file_writing import write_aside
from kvariates.peers.bounds import PublicBounds
from kvariates.peers.encoding import decode, encode
from kvariates.peers.questions import Answer, Envelope, scale_numbers
from kvariates.privacy.budget import Cost, Loss, check_adjacency, check_loss
from kvariates.privacy.ledger import Charge, Ledger
from kvariates.privacy.mechanisms import Accountant, Share, noisy_rows
from kvariates.privacy.noise_source import below
from kvariates.privacy.query import (
    CappedSum,
    Query,
    capped_sum_query,
    count_query,
    sum_query,
    total_query,
)
from kvariates.private_methods.domain import Domain

UNIT = 2**30  # a row's cost is an integer in 0..UNIT; 2^31 rows add up to less than 2^62
MOST_ROWS = 2**31 - 1

_logger = logging.getLogger(__name__)


COUNT_SHARE, POTENTIAL_SHARE, DRAW_SHARE, STEPS_SHARE = 0.05, 0.2, 0.25, 0.5
COUNTS_OVER_SUMS = 0.25  # what the counts of a step cost, to what its sums cost

LedgerPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Private:
    """The budget of a private peer, and what it is for.

    Attributes
    ----------
    epsilon : float
        What all answers together spend.
    n_clusters : int
        How many centres the peer takes part in.
    steps : int
        How many noisy iterations of Lloyd it takes part in.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours. With "replace-one" the number of rows is public.
    ledger : path, or callable from Flower's context to a path
        The file of this peer that keeps all releases, so that all runs of Flower together spend
        `epsilon`. Required. Its path is absolute: a node may start a process in any folder. A
        callable uses `context.node_config` only: the server chooses the rest, such as the run.
    """

    epsilon: float
    n_clusters: int
    steps: int = 0
    adjacency: Adjacency = "add-remove"
    ledger: LedgerPath | Callable[[Context], LedgerPath] | None = None

    def __post_init__(self) -> None:
        check_loss(self.epsilon, 0.0)
        if self.n_clusters < 1 or self.steps < 0:
            raise ValueError("Private: n_clusters must be at least 1, and steps at least 0.")
        check_adjacency(self.adjacency, "Private: adjacency")
        # Flower's context is no place for it: each process has a copy, and spends its own budget.
        if self.ledger is None:
            raise ValueError(
                "Private needs ledger, the file that keeps what was spent: "
                "Private(..., ledger='/var/lib/hospital/ledger')."
            )
        if not callable(self.ledger):
            _absolute(self.ledger)

    def ledger_file(self, context: Context) -> Path:
        """The file of the peer that has this context."""
        assert self.ledger is not None  # noqa: S101
        path = _absolute(self.ledger(context) if callable(self.ledger) else self.ledger)
        # A new file is moved to its place: a link there would be lost, and the file it names stale.
        return path.resolve()

    def costs(self) -> dict[str, list[Cost]]:
        """What each release may cost, by kind. Together they never cost more than epsilon."""
        k, steps = self.n_clusters, self.steps
        counted = COUNT_SHARE if self.adjacency == "add-remove" else 0.0
        shares = {
            "count": [counted] if counted else [],
            "potential": [POTENTIAL_SHARE / (k - 1)] * (k - 1) if k > 1 else [],
            "draw": [DRAW_SHARE / k] * k,
            "counts": [STEPS_SHARE * COUNTS_OVER_SUMS / steps] * steps if steps else [],
            "sums": [STEPS_SHARE / steps] * steps if steps else [],
        }
        parts = iter(Cost(epsilon=self.epsilon).split([s for of in shares.values() for s in of]))
        return {kind: [next(parts) for _ in of] for kind, of in shares.items()}


def _absolute(ledger: LedgerPath) -> Path:
    path = Path(ledger)
    if not path.is_absolute():
        raise ValueError(f"Private: ledger must be an absolute path; got {str(path)!r}.")
    return path


class Releases:
    """The releases of a peer so far, with their charges, which must not be forgotten.

    `path`: the file that keeps them, to be used inside `locked`; None: they are in memory only.
    `node`: the name of the node. Two nodes with one file would give each other's answers.
    """

    def __init__(self, path: Path | None = None, node: str = "") -> None:
        self._path, self._node = path, node
        stored: Answer = {"answers": {}, "charges": [], "claim": None}
        try:
            if path is not None and path.exists():
                data = path.read_bytes()  # its own file, so it may be larger than a message
                stored = decode(data, max_bytes=len(data))
            self.claim: Answer | None = stored["claim"]  # what the charges belong to
            self.answers: dict[str, Answer] = stored["answers"]
            self.charges = [Charge(**charge) for charge in stored["charges"]]
        except Exception as error:
            _logger.exception("The ledger %s cannot be read", path)
            raise ValueError(
                "its ledger cannot be read, so it answers nothing; see its log"
            ) from error

    def add(self, key: str, answer: Answer, charges: Sequence[Charge]) -> None:
        """Keep a release, before it leaves."""
        self.answers[key] = answer
        self.charges += charges
        if self._path is not None:
            stored = [asdict(charge) for charge in self.charges]
            kept = {"answers": self.answers, "charges": stored, "claim": self.claim}
            write_aside(self._path, encode(kept))

    def belong_to(self, claim: Answer) -> bool:
        """Whether all releases were made for this claim; if there are none, they will be."""
        named = {**claim, "node": self._node}
        self.claim = named if self.claim is None else self.claim
        return self.claim == named


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Wait until no other process is inside; the lock ends with the process that has it."""
    beside = Path(path).with_name(f".{Path(path).name}.lock")
    beside.parent.mkdir(parents=True, exist_ok=True)
    with beside.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- the peer --------------------------------------------------------------------------------------


class Refused(ValueError):  # noqa: N818
    """The peer does not answer. The text may be shown to the coordinator."""


@dataclass(frozen=True, eq=False)
class _Made:
    """An answer and its charges."""

    answer: Answer
    charges: tuple[Charge, ...]


Make = Callable[[int], _Made]
"""From the number of releases of this kind before to a release."""


# proof: peers.md
class PrivatePeer:
    """Rows of which only noisy answers leave. `X` is clipped to the bounds."""

    def __init__(self, X: F64, bounds: PublicBounds, private: Private) -> None:
        if X.shape[1] != len(bounds.low):
            raise ValueError(f"Rows have {X.shape[1]} features, the bounds {len(bounds.low)}.")
        if len(X) > MOST_ROWS:
            raise ValueError(f"A private peer can have at most {MOST_ROWS} rows.")
        self._bounds, self.private, self._costs = bounds, private, private.costs()
        self._domain = Domain.box(bounds.low, bounds.high)
        self._rows = self._domain.rows(X).map(Rows.of)
        self._lock = threading.Lock()
        self._questions: dict[str, Callable[..., Answer]] = {
            "describe": self._describe,
            "potential": self._potential,
            "draw": self._draw,
            "noisy_statistics": self._statistics,
            "ledger": self._ledger,
        }

    def answer(self, envelope: Envelope, releases: Releases) -> Answer:
        """Raise Refused if the question is not answered."""
        name, arguments = envelope.question.name, dict(envelope.question.arguments)
        if name not in self._questions:
            raise Refused(f"the question {name!r:.40} is not answered by a private peer")
        claim = {
            "adjacency": self.private.adjacency,
            "low": self._bounds.low.tolist(), "high": self._bounds.high.tolist(),
        }  # fmt: skip
        if not releases.belong_to(claim):
            raise Refused(
                "its ledger was begun by another node, with another adjacency or other bounds"
            )
        try:
            with self._lock:
                return self._questions[name](releases, envelope.fit, **arguments)
        except Refused:
            raise
        except Exception:
            _logger.exception("A question could not be answered")
            raise Refused("the question could not be answered") from None  # it may disclose data

    def ledger(self, releases: Releases) -> Ledger:
        """All charges so far, and the claim. BudgetError if they cost more."""
        return self._check_budget(tuple(releases.charges))

    def _check_budget(self, charges: tuple[Charge, ...]) -> Ledger:
        return Ledger(self.private.adjacency, charges, Loss(self.private.epsilon, 0.0))

    # -- answers -----------------------------------------------------------------------------------

    def _describe(self, releases: Releases, fit: int) -> Answer:
        """Public numbers, and the number of rows that may be known."""
        return described(self._known_rows(releases), self._bounds)

    def _ledger(self, releases: Releases, fit: int) -> Answer:
        charges = [asdict(charge) for charge in releases.charges]
        private = self.private
        return {"charges": charges, "epsilon": private.epsilon, "adjacency": private.adjacency}

    def _potential(self, releases: Releases, fit: int, centers: F64, known: int) -> Answer:
        """The noisy potential; without centres, the number of rows that may be known."""
        n = self._known_rows(releases)
        if not len(centers):
            return {"potential": float(n)}
        key = f"fit {fit}: potential at {_digest(self._checked(centers))}"
        return self._released(
            releases, "potential", key, partial(self._noisy_potential, centers, n)
        )

    def _draw(self, releases: Releases, fit: int, step: int) -> Answer:
        n = self._known_rows(releases)
        if not isinstance(step, int):
            raise Refused("the number of the step is not an integer")
        key = f"fit {fit}: draw {step}"
        return self._released(releases, "draw", key, partial(self._noisy_row, n))

    def _statistics(self, releases: Releases, fit: int, centers: F64, step: int) -> Answer:
        if not isinstance(step, int):
            raise Refused("the number of the step is not an integer")
        key = f"fit {fit}: statistics {step} at {_digest(self._checked(centers))}"
        return self._released(releases, "sums", key, partial(self._noisy_statistics, centers))

    def _checked(self, centers: Any) -> F64:
        shaped = isinstance(centers, np.ndarray) and centers.ndim == 2
        if not shaped or centers.shape[1] != self._domain.d or not np.isfinite(centers).all():
            raise Refused(f"centres should be finite, of shape (k, {self._domain.d})")
        if not 1 <= len(centers) <= self.private.n_clusters:
            raise Refused(f"its budget is for {self.private.n_clusters} centres at most")
        return centers.astype(np.float64, copy=False)  # type: ignore[no-any-return]

    # -- releases ----------------------------------------------------------------------------------

    def _released(self, releases: Releases, kind: str, key: str, make: Make) -> Answer:
        """The release of this question, made now if it was not made before."""
        if key not in releases.answers:
            before = sum(self._kind(other) == self._kind(key) for other in releases.answers)
            if before >= len(self._costs[kind]):
                raise Refused(f"its budget is for {before} answers of this kind, and no more")
            made = make(before)
            self._check_budget((*releases.charges, *made.charges))
            releases.add(key, made.answer, made.charges)
        return releases.answers[key]

    @staticmethod
    def _kind(key: str) -> str:
        return key.rsplit(": ", maxsplit=1)[-1].split(maxsplit=1)[0]

    def _known_rows(self, releases: Releases) -> int:
        """The number of rows: public, or a noisy one that is released once."""
        if self.private.adjacency == "replace-one":
            n = self._rows.map(lambda rows: rows.n)
            return n.reveal("the number of rows is public under replace-one")

        def make(number: int) -> _Made:
            query = self._rows.map(lambda of: total_query(of.n, "add-remove", "number of rows"))
            made = Accountant().release(query, self._costs["count"][number])
            return _Made({"n": min(max(made.value, 1), MOST_ROWS)}, (made.charge,))

        return int(self._released(releases, "count", "count", make)["n"])

    def _noisy_potential(self, centers: F64, n: int, number: int) -> _Made:
        """The sum of costs, each at most the squared diameter."""
        most = 4 * self._domain.radius**2
        near = self._domain.clip(centers - self._domain.center)
        moved, label = CappedSum(UNIT, most / UNIT), f"potential {number + 1}"

        def query(rows: Rows) -> Query[int]:
            costs = rows.costs(near, rows.nearest(near))
            total = int(np.ceil(np.minimum(costs / most, 1.0) * UNIT).astype(np.int64).sum())
            return capped_sum_query(total, moved, self.private.adjacency, label)

        made = Accountant().release(self._rows.map(query), self._costs["potential"][number])
        value = min(max(made.value, 0), n * UNIT) / UNIT * self._bounds.squared_diameter
        return _Made({"potential": value}, (made.charge,))

    def _noisy_row(self, n: int, number: int) -> _Made:
        """A row drawn from max(n, number of rows) of them; those that are missing are at 0."""
        noisy = noisy_rows(
            self._domain.lattice, self._domain.widest, (Share(Fraction(1, max(n, 1)), 1),),
            self._costs["draw"][number].value,
        )  # fmt: skip
        drawn = self._rows.map(partial(draw_uniformly, n)).map(noisy)
        name, adjacency = "uniform draw with Laplace noise", self.private.adjacency
        charge = noisy.charge(f"centre {number + 1}", name, adjacency)
        row = Accountant().publish(drawn, charge)
        point = self._domain.center + self._domain.clip(row)
        return _Made({"points": np.clip(point, self._bounds.low, self._bounds.high)}, (charge,))

    def _noisy_statistics(self, centers: F64, number: int) -> _Made:
        """Counts and sums of the rows nearest to each centre, relative to the domain's centre."""
        adjacency, lattice = self.private.adjacency, self._domain.l1_lattice
        exact = self._rows.map(lambda rows: exact_statistics(self._domain, rows, centers))
        release, step = Accountant().release, f"step {number + 1}"
        counted = exact.map(
            lambda of: count_query(of.counts, adjacency, f"{step}: rows of each centre")
        )
        counts = release(counted, self._costs["counts"][number])
        summed = exact.map(
            lambda of: sum_query(of.totals, lattice, adjacency, f"{step}: sums of rows")
        )
        sums = release(summed, self._costs["sums"][number])
        answer = {"counts": counts.value, "sums": sums.value, "scale": counts.charge.scale}
        return _Made(answer, (counts.charge, sums.charge))


def described(n: int, bounds: PublicBounds) -> Answer:
    """The description of n rows of which nothing else is known but the public bounds."""
    return {
        "n": n, "d": len(bounds.low), "dtype": "<f8", "weight": float(n), "weighted": False,
        "scale": scale_numbers(SumScale(bounds.largest, math.inf, 1.0, 1.0, 53)),
    }  # fmt: skip


def draw_uniformly(n: int, rows: Rows) -> F64:
    """One of max(n, number of rows) rows; those that are missing are at 0."""
    index = below(max(n, rows.n, 1))
    return rows.take(np.array([index])) if index < rows.n else np.zeros((1, rows.d))


def exact_statistics(domain: Domain, rows: Rows, centers: F64) -> LatticeSums:
    """Exact counts and sums of the rows nearest to each centre, relative to the domain's centre.

    `rows`: as `Domain.rows` gives them.
    """
    labels = rows.nearest(domain.clip(centers - domain.center))
    return lattice_sums(rows.X, labels, len(centers), domain.l1_lattice)


def _digest(centers: F64) -> str:
    return hashlib.sha256(repr(centers.shape).encode() + centers.tobytes()).hexdigest()
