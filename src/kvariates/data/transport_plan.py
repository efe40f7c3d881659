"""Assignment of rows to clusters whose sizes have limits: an exact transport problem.

Each row supplies a whole number of units, and each cluster takes at least `low` and at most `high`.
native/transport.hpp describes the method. Its work depends on how many rows must change their
clusters from the first prices to the last ones. So many rows start from the prices of a sample of
them, with limits in proportion, unless given prices are nearer than those of a sample can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows
from kvariates.numerics.draws import I64

SAMPLED = 8  # a sample has one row of so many
SMALLEST, ROWS_OF_CLUSTER = 2000, 4  # rows from which on a sample pays; the same for each cluster
FIRST_TAU = 0.1  # of the mean cost, if nothing is known of the prices
LEAST_TAU = 1e-4  # of the first
SAMPLING_ERROR = 0.5  # paths that a sample's error needs, for the root of (rows times clusters)


class RowParts(NamedTuple):
    """Units of rows that are split between clusters: one entry for each row and cluster."""

    rows: I64
    clusters: I64
    units: I64


@dataclass(frozen=True)
class UnitLimits:
    """The fewest and the most units of a cluster."""

    low: int
    high: int

    def shared(self, part: int, whole: int) -> UnitLimits:
        """The limits for `part` of `whole` units."""
        high = -(-self.high * part // whole)
        return UnitLimits(self.low * part // whole, min(high, part))


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of the clusters, and how far from them the next ones are expected to be."""

    values: F64
    tau: float
    least_tau: float

    @classmethod
    def zero(cls, rows: Rows, centers: F64) -> Prices:
        cost = float(rows.costs(centers, rows.nearest(centers)).mean())
        apart = float(((centers - centers[0]) ** 2).sum(axis=1).max())
        tau = FIRST_TAU * (cost or apart or 1.0)
        return cls(np.zeros(len(centers)), tau, LEAST_TAU * tau)

    def next(self, values: F64, spread: float) -> Prices:
        """New values, whose changes differ by `spread`: expect changes of that size."""
        return Prices(values, max(spread, self.least_tau), self.least_tau)

    def expecting(self, times: float) -> Prices:
        """Expect changes that are so many times as large."""
        return self.next(self.values, times * self.tau)


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """An optimal plan. A row without parts is in its label's cluster, a split one mostly there.

    `passes` over the rows; `paths` between clusters; `far`: about how many paths would have been
    needed from the given prices, if a sample had not found better ones.
    """

    labels: Labels
    prices: Prices
    parts: RowParts
    passes: int
    paths: int
    far: int


def transport(
    rows: Rows, centers: F64, supply: I64 | None, limits: UnitLimits, start: Prices | None = None
) -> TransportPlan:
    """The cheapest plan within the limits. `supply`: units of each row; None: one each.

    Pre: positive supplies, and k * low <= their sum <= k * high. Ties go to the lowest index where
    the limits leave a choice.
    """
    first, far = _first_prices(rows, centers, supply, limits, start)
    values, labels = first.values.copy(), np.full(rows.n, -1, dtype=np.int32)
    high = min(limits.high, _total(rows, supply))
    *parts, spread, passes, paths = _native.transport(
        rows.single.view, centers, supply, limits.low, high, first.tau, values, labels
    )
    prices = first.next(values, spread)
    return TransportPlan(labels, prices, RowParts(*parts), passes, paths, far or paths)


def _total(rows: Rows, supply: I64 | None) -> int:
    return rows.n if supply is None else int(supply.sum())


def _first_prices(
    rows: Rows, centers: F64, supply: I64 | None, limits: UnitLimits, given: Prices | None
) -> tuple[Prices, int]:
    """Where to start, and `far` as in `TransportPlan`, 0 if it is not known.

    Zero or the given prices for few rows; otherwise those of a sample, if they are better. A size
    in a sample has an error of about the root of the rows in a cluster.
    """
    k = len(centers)
    if rows.n <= max(SMALLEST, ROWS_OF_CLUSTER * k):
        return (Prices.zero(rows, centers) if given is None else given), 0
    count = rows.n // SAMPLED
    places = np.arange(count) + np.random.default_rng(0).random(count)
    sample = np.minimum((places * (rows.n / count)).astype(np.int64), rows.n - 1)
    part = rows.subset(sample)
    units = None if supply is None else supply[sample]
    shared = limits.shared(_total(part, units), _total(rows, supply))
    plan = transport(part, centers, units, shared, given)
    if given is not None and plan.far < SAMPLING_ERROR * np.sqrt(count * k):
        return given.expecting(2), 0
    return plan.prices.expecting(0.5), SAMPLED * plan.far
