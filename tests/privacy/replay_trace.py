"""The trace of a run of a private method, and the comparison of two. See `replay.py`."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from api import CHOICES, Calibrated, Charge, Histogram, Ledger
from privacy.public_marks import mark

ROUNDING = 1 + 1e-9


class Broken(BaseException):
    """The two runs differ. (No `Exception`, which a method might catch.)"""


@dataclass(frozen=True, eq=False)
class Numbered:
    """Rows, and a number for each: common rows of two data sets have the same number."""

    rows: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbours."""

    first: Numbered
    second: Numbered


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a fit gives away: its ledger, and results by name."""

    ledger: Ledger
    results: dict[str, Any]


@dataclass(eq=False)
class Asked:
    """A release: the exact query, the mechanism that ran, and its noisy numbers."""

    query: Any
    cost: Any
    noise: Calibrated | None = None
    noisy: Any = None
    value: Any = None
    charge: Charge | None = None

    @property
    def histogram(self) -> Histogram | None:
        answer = self.query.answer
        is_histogram = isinstance(answer, partial) and isinstance(answer.args[0], Histogram)
        return answer.args[0] if is_histogram else None

    def public(self) -> Any:
        """What must not depend on the rows."""
        q, histogram = self.query, self.histogram
        size = q.values.shape if histogram is None else (histogram.number, q.answer.args[1])
        parts = (q.label, q.sensitivity, q.adjacency, q.change, q.parallel, size, self.cost)
        return mark(parts)


@dataclass(frozen=True, eq=False)
class Draw:
    """A row drawn in proportion to integer weights, by the coordinates of the row in steps."""

    weights: Counter[tuple[int, ...]]
    noisy: list[Any] = field(default_factory=list)  # the mechanism, and the noisy row


@dataclass(eq=False)
class Trace:
    """A run: its releases, draws of rows, charges, and marks of public values in order."""

    asked: list[Asked] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    published: list[Charge] = field(default_factory=list)
    steps: list[tuple[str, Any]] = field(default_factory=list)
    outcome: Outcome | None = None


# --- two runs --------------------------------------------------------------------------------


def compare(before: Trace, after: Trace, paid_share: float = 1.0) -> None:
    """Raise Broken unless the runs give away the same and their charges cover their differences."""
    for name in ("asked", "draws", "steps"):
        if len(getattr(before, name)) != len(getattr(after, name)):
            raise Broken(f"{name}: not as many on both data sets")
    _same_outcome(before, after)
    for trace in (before, after):
        _all_charged(trace)
    groups: dict[str, list[tuple[float, float]]] = {}
    for first, second in zip(before.asked, after.asked, strict=True):
        spent, paid = loss(first, second), paid_share * first.charge.cost
        if first.query.parallel is not None:
            groups.setdefault(first.query.parallel, []).append((spent, paid))
        _covered(first.query.label, spent, paid)
    for name, lines in groups.items():
        _covered(
            f"group {name!r}", sum(spent for spent, _ in lines), max(paid for _, paid in lines)
        )
    paid = paid_share * sum(charge.epsilon or 0.0 for charge in before.published)
    _covered("drawn rows", sum(map(loss_of_draws, before.draws, after.draws)), paid)


def _covered(what, spent, paid):
    if spent > paid * ROUNDING:
        raise Broken(f"{what!r} costs {spent:.6g} and is charged {paid:.6g}")


def _same_outcome(before, after):
    first, second = before.outcome, after.outcome
    if before.charges != after.charges or first.ledger.charges != second.ledger.charges:
        raise Broken("the ledgers differ")
    for name in first.results:
        if mark(first.results[name]) != mark(second.results[name]):
            raise Broken(f"{name} differs")


def _all_charged(trace):
    """All that was released is in the ledger, which checks that it is not above its claim."""
    lines = Counter(replace(charge, label="") for charge in trace.outcome.ledger.charges)
    released = Counter(replace(charge, label="") for charge in trace.charges)
    if lines != released:
        missing = [
            charge.label for charge in trace.charges if replace(charge, label="") not in lines
        ]
        raise Broken(f"the ledger is not what was released: {missing[:3]}")


def loss(first: Asked, second: Asked) -> float:
    """The privacy loss of a release between these two data sets: epsilon or rho."""
    changes = _changes(first, second)
    if not changes:
        return 0.0
    noise = first.noise or second.noise  # none is drawn for a histogram without rows
    law, scale = noise.law, noise.scale
    step = first.query.sensitivity.step
    if not math.isclose(scale * step, first.charge.scale, rel_tol=1e-12):
        raise Broken(f"{first.query.label!r}: the charge names another scale of the noise")
    if law in CHOICES:
        far = (max(changes) - min(changes)) / scale
        return far if law == "permute-and-flip" else far**2 / 8
    if law == "laplace":
        return sum(map(abs, changes)) / scale
    return sum(change**2 for change in changes) / (2 * scale**2)


def _changes(first: Asked, second: Asked) -> list[int]:
    if first.histogram is None:
        pairs = zip(first.query.values.ravel(), second.query.values.ravel(), strict=True)
        return [int(y) - int(x) for x, y in pairs]
    counts = [
        Counter(dict(zip(one.histogram.cells.tolist(), one.query.values.tolist(), strict=True)))
        for one in (first, second)
    ]
    return [counts[1][cell] - counts[0][cell] for cell in {*counts[0], *counts[1]}]


def loss_of_draws(first: Draw, second: Draw) -> float:
    """The bound of `proofs/mixture.md`, with the shares of these two draws, as integers."""
    noisy = first.noisy[0]
    common = sum((first.weights & second.weights).values())
    totals = [sum(draw.weights.values()) for draw in (first, second)]
    share = max(1 - Fraction(common, total) for total in totals)
    points = np.array([*(first.weights | second.weights)], dtype=np.int64)
    far = max(int(np.abs(points - point).sum(axis=1).max()) for point in points)
    if far > noisy.diameter:
        raise Broken("rows are farther apart than the diameter that noise is made for")
    return math.log1p(float(share) * math.expm1(far / noisy.noise.scale))
