"""Laplace noise for rows drawn at random: a row that is seldom drawn needs less noise.

A release is a row, drawn in proportion to weights, with Laplace noise on every coordinate. Given
the earlier releases its law is a mixture of densities, and any two of them have a ratio of at most

    r = exp(diameter / scale),  diameter: the largest l1 distance of two rows.

If no row has more than a share v of the draw, then one row more, less or replaced changes the
mixture by a ratio of at most 1 + v (r - 1). The cost of k releases is the sum of the logarithms. A
share of 1 assumes nothing about the draw and costs diameter / scale. See `proofs/floored.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kvariates.numerics.lattice import Adjacency, Lattice
from kvariates.privacy.ledger import Charge
from kvariates.privacy.noise_source import Calibrated, calibrated
from kvariates.privacy.rounding import MARGIN, up

F64 = NDArray[np.float64]
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
