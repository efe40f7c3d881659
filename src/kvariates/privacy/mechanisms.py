"""Releases: the noisy answer to a query, with its charge; and drawn rows with noise.

| query | epsilon (pure) | rho (zCDP) |
|---|---|---|
| counts, sums, histograms | discrete Laplace noise | discrete Gaussian noise |
| scores | permute-and-flip | exponential mechanism |

The cost of a charge is the value of OpenDP's privacy map for the mechanism that ran. It is never
above the cost that was given, and at most a few units in the last place below it.

A row that is drawn at random, with Laplace noise on every coordinate (`noisy_rows`), needs less
noise if no row is drawn often. With a share of at most v in a draw, one row more or less changes
the law of the result by a ratio of at most 1 + v (r - 1), r = exp(diameter / scale). The logarithms
of k releases add up (`proofs/mixture.md`). A share of 1 assumes nothing: diameter / scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from kvariates.data.lattice_rows import Adjacency, Lattice
from kvariates.numerics.draws import F64
from kvariates.privacy.budget import Cost
from kvariates.privacy.ledger import Charge, SensitivityNorm
from kvariates.privacy.noise_source import Calibrated, Law, calibrated, check_installed
from kvariates.privacy.query import Query, Scores
from kvariates.privacy.rounding import MARGIN, root_up, up
from kvariates.privacy.secret import Secret

T = TypeVar("T")
NORMS: dict[Law, SensitivityNorm] = {"laplace": "l1", "gaussian": "l2"}


@dataclass(frozen=True, eq=False)
class Release(Generic[T]):
    """What was released, and its charge."""

    value: T
    charge: Charge


def release(query: Query[T], cost: Cost) -> Release[T]:
    """The noisy answer to a query, for a cost."""
    noise = _noise(query, cost)
    return Release(query.answer(noise, query.values), _charge(query, noise, cost))


def charge_of(query: Query[T], cost: Cost) -> Charge:
    """The charge of a release, without making it. It does not depend on the query's values."""
    return _charge(query, _noise(query, cost), cost)


@dataclass
class Accountant:
    """Makes releases and records their charges."""

    charges: list[Charge] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_installed()  # inside of a computation on private rows, no error is shown

    def release(self, query: Secret[Query[T]], cost: Cost) -> Release[T]:
        """The release of a query; its charge is recorded."""
        made = query.map(lambda exact: release(exact, cost)).reveal("it has noise, and a charge")
        self.charges.append(made.charge)
        return made

    def publish(self, secret: Secret[T], charge: Charge) -> T:
        """A value that was computed with noise of its own; its charge is recorded."""
        self.charges.append(charge)
        return secret.reveal(f"charged: {charge.label}")


def _noise(query: Query[T], cost: Cost) -> Calibrated:
    """The mechanism with the least noise that keeps to the cost."""
    value, exact, adjacency = float(cost.value), _exact(cost), query.change or query.adjacency
    moved = query.sensitivity
    if isinstance(moved, Scores):
        # OpenDP's maps are range / scale and (range / scale)^2 / 8.
        far = moved.range(adjacency)
        if cost.pure:
            return calibrated("permute-and-flip", far, value, up(far / exact))
        return calibrated("exponential", far, value, root_up(far**2 / (8 * exact)))
    if cost.pure:
        l1 = moved.l1(adjacency)
        return calibrated("laplace", l1, value, up(l1 / exact))
    l2 = root_up(Fraction(moved.l2_squared(adjacency)))
    return calibrated("gaussian", l2, value, root_up(Fraction(l2) ** 2 / (2 * exact)))


def _charge(query: Query[T], noise: Calibrated, cost: Cost) -> Charge:
    moved, far = query.sensitivity, float(noise.sensitivity) * query.sensitivity.step
    return Charge(
        label=query.label,
        mechanism=noise.law,
        adjacency=query.adjacency,
        sensitivity=moved.sensitivity if isinstance(moved, Scores) else far,
        norm=NORMS.get(noise.law, "score"),
        scale=noise.scale * moved.step,
        epsilon=noise.cost if cost.pure else None,
        rho=None if cost.pure else noise.cost,
        parallel=query.parallel,
    )


def _exact(cost: Cost) -> Fraction:
    if not 0 < cost.value < math.inf:
        name = "epsilon" if cost.pure else "rho"
        raise ValueError(f"{name} must be a number > 0; got {cost.value!r}.")
    return Fraction(cost.value)


EXACT = Context(prec=120, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Share:
    """The largest probability that one row may have in each of so many releases."""

    value: Fraction
    releases: int


@dataclass(frozen=True)
class NoisyRows:
    """Laplace noise for drawn rows. `epsilon` is the cost of all releases together."""

    noise: Calibrated
    lattice: Lattice
    diameter: int  # in steps
    epsilon: float

    @property
    def scale(self) -> float:
        return self.noise.scale * self.lattice.step

    def __call__(self, rows: F64) -> F64:
        """Rows on the lattice, with noise."""
        steps = self.lattice.steps(rows)
        noisy: F64 = np.array(self.noise(steps.ravel().tolist()), dtype=np.float64)
        return noisy.reshape(steps.shape) * self.lattice.step

    def charge(self, label: str, mechanism: str, adjacency: Adjacency) -> Charge:
        """For both adjacencies a drawn row is replaced by another."""
        diameter = self.diameter * self.lattice.step
        return Charge(label, mechanism, adjacency, diameter, "l1", self.scale, epsilon=self.epsilon)


# proof: mixture.md
@lru_cache(maxsize=256)
def noisy_rows(
    lattice: Lattice, diameter: int, shares: tuple[Share, ...], epsilon: float
) -> NoisyRows:
    """The least noise for which releases with these shares cost at most `epsilon`."""
    log_ratio, step = _log_ratio(shares, epsilon), 2.0**-52
    for _ in range(40):
        noise = calibrated(
            "laplace", diameter, log_ratio, up(Fraction(diameter) / Fraction(log_ratio))
        )
        cost = loss(noise.cost, shares)
        if cost <= epsilon:
            return NoisyRows(noise, lattice, diameter, cost)
        log_ratio, step = log_ratio * (1 - step), 2 * step
    raise ValueError(f"No Laplace noise has the cost {epsilon!r}.")


def loss(log_ratio: float, shares: Sequence[Share]) -> float:
    """The sum of ln(1 + v (r - 1)) over all releases, rounded up."""
    ratio = EXACT.exp(EXACT.create_decimal(log_ratio))
    more = EXACT.subtract(ratio, 1)
    total = Fraction()
    for share in shares:
        value = EXACT.divide(share.value.numerator, share.value.denominator)
        term = EXACT.ln(EXACT.add(1, EXACT.multiply(value, more)))
        total += share.releases * Fraction(term)
    # Sums round up; exp and ln are off by half a unit in the 120th digit.
    return up(total * (1 + Fraction(MARGIN)))


def _log_ratio(shares: Sequence[Share], epsilon: float) -> float:
    """Where the loss is epsilon, by bisection, in floats."""

    def about(log_ratio: float) -> float:
        return sum(share.releases * _log_mixed(float(share.value), log_ratio) for share in shares)

    low = epsilon / sum(share.releases for share in shares)
    high = 2 * low
    while about(high) < epsilon:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if about(middle) < epsilon else (low, middle)
    return low


def _log_mixed(share: float, log_ratio: float) -> float:
    """ln(1 + share (exp(log_ratio) - 1)) without overflow."""
    if log_ratio < 30:
        return math.log1p(share * math.expm1(log_ratio))
    return log_ratio + math.log(share + (1 - share) * math.exp(-log_ratio))


def shrink(vectors: F64, noise_squared: F64) -> F64:
    """Every row times 1 - E|noise|^2 / |row|^2, or times 0 if that is negative.

    The factor with the least squared error is |truth|^2 / (|truth|^2 + E|noise|^2); its denominator
    is about |row|^2. `noise_squared` is a column.
    """
    squares = np.square(vectors).sum(axis=1, keepdims=True)  # the same bits on every machine
    factors: F64 = np.maximum(0.0, 1.0 - noise_squared / np.maximum(squares, 1e-300))
    return vectors * factors
