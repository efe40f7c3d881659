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

import hashlib
import logging
import math
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from kvariates.data.cluster_sums import SumScale
from kvariates.data.lattice_rows import LatticeSums, lattice_sums
from kvariates.data.rows import F64, Rows
from kvariates.federated.releases import Private, Releases
from kvariates.peers.bounds import PublicBounds
from kvariates.peers.questions import Answer, Envelope, scale_numbers
from kvariates.privacy.budget import Loss
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
    """Rows of which only noisy answers leave.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Clipped to the bounds.
    bounds : PublicBounds
    private : Private
    """

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
