"""Assignment of rows to clusters whose sizes have limits: an exact transport problem.

Each row supplies a whole number of units, and each cluster takes at least `low` and at most `high`.
native/transport.hpp describes the method. Its work depends on how far the first prices are from the
last ones. So the first prices of many rows are those of a sample of them, with limits in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows

I64 = NDArray[np.int64]

SAMPLED = 8  # a sample has one row of so many
SMALLEST, ROWS_OF_CLUSTER = 2000, 4  # rows from which on a sample pays; the same for each cluster
FIRST_TAU = 0.1  # of the mean cost, if nothing is known of the prices
LEAST_TAU = 1e-4  # of the first


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
        tau = FIRST_TAU * cost or np.inf
        return cls(np.zeros(len(centers)), tau, LEAST_TAU * tau)


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """An optimal plan. A row without parts is in its label's cluster, a split one mostly there.

    `spread`: by how much the changes of the prices differ; `passes` over the rows; `paths` between
    clusters.
    """

    labels: Labels
    prices: Prices
    parts: RowParts
    spread: float
    passes: int
    paths: int


def transport(
    rows: Rows, centers: F64, supply: I64 | None, limits: UnitLimits, start: Prices | None = None
) -> TransportPlan:
    """The cheapest plan within the limits. `supply`: units of each row; None: one each.

    Pre: positive supplies, and k * low <= their sum <= k * high. Ties go to the lowest index where
    the limits leave a choice.
    """
    if start is None:
        start = _sampled_prices(rows, centers, supply, limits)
    values, labels = start.values.copy(), np.full(rows.n, -1, dtype=np.int32)
    high = min(limits.high, _total(rows, supply))
    *parts, spread, passes, paths = _native.transport(
        rows.view, centers, supply, limits.low, high, start.tau, values, labels
    )
    prices = Prices(values, max(spread, start.least_tau), start.least_tau)
    return TransportPlan(labels, prices, RowParts(*parts), spread, passes, paths)


def _total(rows: Rows, supply: I64 | None) -> int:
    return rows.n if supply is None else int(supply.sum())


def _sampled_prices(
    rows: Rows, centers: F64, supply: I64 | None, limits: UnitLimits
) -> Prices:
    """The prices of a sample, or zero for few rows."""
    if rows.n <= max(SMALLEST, ROWS_OF_CLUSTER * len(centers)):
        return Prices.zero(rows, centers)
    count = rows.n // SAMPLED
    places = np.arange(count) + np.random.default_rng(0).random(count)
    sample = np.minimum((places * (rows.n / count)).astype(np.int64), rows.n - 1)
    part = rows.subset(sample)
    units = None if supply is None else supply[sample]
    shared = limits.shared(_total(part, units), _total(rows, supply))
    prices = transport(part, centers, units, shared).prices
    return Prices(prices.values, max(prices.tau / 2, prices.least_tau), prices.least_tau)
