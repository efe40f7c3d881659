"""Lloyd with limits on the sizes of the clusters.

The size of a cluster is the weight of its rows. An assignment within limits is a transport problem
(`data.transport_plan`). For rows of equal weight the solution is the best assignment. With unequal
weights the problem is NP-hard: the solution of the transport problem splits a few rows, each goes
to one cluster as a whole, and rows are moved until all limits hold. `gap` bounds what this costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kvariates.data.exact_sums import exact_total, to_float
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Labels, Rows
from kvariates.data.scans import F32, LabelChanges
from kvariates.data.transport_plan import Prices, TransportPlan, UnitLimits, transport
from kvariates.numerics.draws import I64
from kvariates.refining.lloyd import LloydResult, Stop, refine

ROUNDING = 1e-9  # of a limit: a size beyond it by less than that is within it
UNIT_ERROR = 1e-7  # of a limit: the most that weights may change by becoming whole units
UNITS = 2.0**50  # of all rows, if weights are not whole numbers
TIGHTER = 0.0, 0.5, 1.0  # times the heaviest row: tried in turn if no assignment is found


@dataclass(frozen=True)
class SizeLimits:
    """The least and the largest weight of a cluster; None: no limit."""

    low: float | None = None
    high: float | None = None

    def check(self, rows: int, weight: F64 | None, k: int) -> None:
        """ValueError if no sizes of k clusters within the limits add up to the weight."""
        supply = Supply.of(rows, weight, self)
        total, heaviest = supply.total, supply.heaviest
        has = f"X has n_samples={rows}" if weight is None else f"X has the weight {total:g}"
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(
                f"size_min={self.low:g} is above size_max={self.high:g}; swap them or give one."
            )
        if self.low is not None and supply.limits.low * k > supply.units:
            raise ValueError(
                f"size_min={self.low:g} and n_clusters={k} need a total size of at least "
                f"{supply.low_weight * k:g}, but {has}. Lower size_min to at most "
                f"{supply.fair(k):g}, or n_clusters."
            )
        if self.high is not None and supply.limits.high * k < supply.units:
            raise ValueError(
                f"size_max={self.high:g} and n_clusters={k} leave room for a total size of "
                f"{supply.high_weight * k:g}, but {has}. Raise size_max to at least "
                f"{supply.fair(k, up=True):g}, or n_clusters."
            )
        if self.high is not None and heaviest > self.high * (1 + ROUNDING):
            raise ValueError(
                f"A row has the weight {heaviest:g}, more than size_max={self.high:g}. Raise "
                "size_max, or divide the row into several of less weight."
            )


def check_units(error: float, weight: F64, limits: SizeLimits) -> None:
    """ValueError if weights in whole units differ too much from what they are.

    A lower limit below the lightest row asks for one row, so that its own size does not matter.
    """
    low = max(limits.low, float(weight.min())) if limits.low else None
    least = min((limit for limit in (low, limits.high) if limit), default=math.inf)
    if error > UNIT_ERROR * least:
        raise ValueError(
            f"Weights from {weight.min():.3g} to {weight.max():.3g} are too different for size "
            f"limits of {least:.3g}: leave out rows of almost no weight, limit large weights, or "
            "raise size_min and size_max (size_min=None: no lower limit)."
        )


@dataclass(frozen=True, eq=False)
class Supply:
    """Weights as whole numbers of units. Rows of no weight have no part in it."""

    index: I64 | None  # the rows of positive weight; None: all
    each: I64 | None  # the units of these rows; None: one each
    unit: float  # the weight of a unit
    units: int  # all together
    limits: UnitLimits  # of a cluster

    @classmethod
    def of(cls, rows: int, weight: F64 | None, limits: SizeLimits) -> Supply:
        weight = np.ones(rows) if weight is None else weight
        index = None if weight.all() else np.flatnonzero(weight)
        positive = weight if index is None else weight[index]
        total = math.fsum(positive)
        each = None
        if positive.min() == positive.max():
            unit, units = float(positive[0]), len(positive)
        else:
            whole = total < 2.0**53 and np.array_equal(positive, np.rint(positive))
            unit = 1.0 if whole else 2.0 ** math.ceil(math.log2(total / UNITS))
            each = np.maximum(np.rint(positive / unit), 1).astype(np.int64)
            units = int(each.sum())
            check_units(float(np.abs(each * unit - positive).sum()), positive, limits)
        low = 0 if limits.low is None else math.ceil(limits.low / unit * (1 - ROUNDING))
        high = units
        if limits.high is not None and limits.high < math.inf:
            high = min(units, math.floor(limits.high / unit * (1 + ROUNDING)))
        return cls(index, each, unit, units, UnitLimits(low, high))

    @property
    def total(self) -> float:
        return self.units * self.unit

    @property
    def heaviest(self) -> float:
        return self.unit * (1 if self.each is None else int(self.each.max()))

    @property
    def low_weight(self) -> float:
        return self.limits.low * self.unit

    @property
    def high_weight(self) -> float:
        return self.limits.high * self.unit

    def fair(self, k: int, *, up: bool = False) -> float:
        """The weight of equal clusters, rounded down or up to whole rows of equal weight."""
        units = -(-self.units // k) if up else self.units // k
        return units * self.unit

    def tightened(self, share: float, k: int) -> UnitLimits:
        """The limits drawn together by a share of the heaviest row, as far as all rows fit."""
        by = 0 if self.each is None else int(share * int(self.each.max()))
        low, high = self.limits.low, self.limits.high
        return UnitLimits(
            max(low, min(low + by, self.units // k)), min(high, max(high - by, -(-self.units // k)))
        )


class LimitedScan:
    """Assigns rows within size limits, for `InMemoryAssigner`. Prices are kept between calls.

    It never raises the cost: labels change only if that lowers the cost at the given centres.
    `gap`: the labels cost at most so much more than the best assignment to the last centres.
    """

    def __init__(self, rows: Rows, weight: F64 | None, limits: SizeLimits) -> None:
        self._supply = Supply.of(rows.n, weight, limits)
        index = self._supply.index
        self._all = rows
        self._rows = rows if index is None else rows.subset(index)
        self._weight = weight if weight is None or index is None else weight[index]
        self._prices: Prices | None = None
        self.gap = 0.0

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        """As `data.scans.Scan`; nothing is read from `moved` or written to `changes`."""
        index = self._supply.index
        if index is None:
            found = self._assigned(centers, labels)
        else:
            found = self._all.nearest(centers)  # rows of no weight are in no one's way
            found[index] = self._assigned(centers, labels[index])
        changed = int(np.count_nonzero(found != labels))
        labels[:] = found
        return changed

    def _assigned(self, centers: F64, before: Labels) -> Labels:
        supply = self._supply
        plan = transport(self._rows, centers, supply.each, supply.limits, self._prices)
        self._prices = plan.prices
        found = self._whole_rows(plan, centers)
        first = before[0] < 0
        if found is None and first:
            raise ValueError(self._not_found())
        best, cost = found, math.inf if found is None else self._cost(centers, found)
        if not first:
            kept = self._cost(centers, before)
            if best is None or kept <= cost:
                best, cost = before, kept
        assert best is not None  # noqa: S101
        self.gap = self._gap(plan, centers, cost)
        return best

    def _whole_rows(self, plan: TransportPlan, centers: F64) -> Labels | None:
        """Labels within the limits; None if none were found."""
        if not len(plan.parts.rows):
            return plan.labels
        supply, k = self._supply, len(centers)
        assert supply.each is not None  # noqa: S101
        for share in TIGHTER:
            if share:
                limits = supply.tightened(share, k)
                plan = transport(self._rows, centers, supply.each, limits, plan.prices)
            state = WholeRows.of(self._rows, centers, supply.each, plan.labels)
            found = repaired(state, supply.limits)
            if found is not None:
                return found
        return None

    def _not_found(self) -> str:
        s = self._supply
        return (
            f"No assignment with sizes from {s.low_weight:g} to {s.high_weight:g} was found: rows "
            f"cannot be divided, and their weights go up to {s.heaviest:g}. Let size_min and "
            f"size_max differ by more, e.g. by twice that weight."
        )

    def _cost(self, centers: F64, labels: Labels) -> float:
        return to_float(exact_total(self._rows.costs(centers, labels), self._weight))

    def _gap(self, plan: TransportPlan, centers: F64, cost: float) -> float:
        """The cost minus that of the plan with split rows, which no assignment is below."""
        parts = plan.parts
        if not len(parts.rows):
            return 0.0
        own = self._rows.costs(centers, plan.labels)
        own[parts.rows] = 0.0
        split = self._rows.subset(parts.rows).costs(centers, parts.clusters.astype(np.int32))
        weight: F64 = parts.units.astype(np.float64) * self._supply.unit
        least = to_float(exact_total(own, self._weight) + exact_total(split, weight))
        return max(0.0, cost - least)


def refine_within(
    limits: SizeLimits, unit: bool, data: HostData, centers: F64, stop: Stop, _: str = "auto",
    overwrite: bool = False,
) -> LloydResult:  # fmt: skip
    """`refine` with limits on the sizes of the clusters. Pre: `limits.check` has passed."""
    scan = LimitedScan(data.rows, data.weight, limits)
    result = refine(data, centers, stop, scan, unit, overwrite)
    return replace(result, assignment_gap=scan.gap)


# ---- Moves of whole rows between clusters until the sizes are within their limits ----------------
#
# Pre: few units are beyond the limits, as after a transport plan. A step moves one row, or
# exchanges two, so that fewer units are beyond the limits; of these steps it is the one with the
# least increase of the cost for each unit.


STEPS, STEPS_OF_CLUSTER = 100, 10  # at most
PARTNERS = 256  # rows of each of two clusters that are compared for an exchange


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Rows with their units, and the cluster of each with its cost."""

    rows: Rows
    centers: F64
    units: I64
    labels: Labels
    own: F64

    @classmethod
    def of(cls, rows: Rows, centers: F64, units: I64, labels: Labels) -> WholeRows:
        return cls(rows, centers, units, labels.copy(), rows.costs(centers, labels))

    def sizes(self) -> I64:
        sizes = np.zeros(len(self.centers), dtype=np.int64)
        np.add.at(sizes, self.labels, self.units)
        return sizes

    def more_in(self, cluster: int) -> F64:
        """By how much the squared distance of each row rises if it goes to this cluster."""
        return self.rows.costs(self.centers, np.full_like(self.labels, cluster)) - self.own

    def more_of(self, index: I64) -> F64:
        """The same for some rows and all clusters."""
        squares = self.rows.subset(index).distances(self.centers, squared=True)
        more: F64 = squares.astype(np.float64) - self.own[index][:, None]
        return more

    def move(self, row: int, cluster: int) -> None:
        self.labels[row] = cluster
        one = self.rows.subset(np.array([row]))
        self.own[row] = one.costs(self.centers, self.labels[row : row + 1])[0]


class RepairStep(NamedTuple):
    """Rows that change their clusters, and the increase of the cost for each unit saved."""

    price: float
    rows: tuple[int, ...] = ()
    clusters: tuple[int, ...] = ()


NONE = RepairStep(np.inf)


def beyond(sizes: I64, limits: UnitLimits) -> I64:
    """Units above or below the limits."""
    return np.maximum(sizes - limits.high, 0) + np.maximum(limits.low - sizes, 0)


def repaired(state: WholeRows, limits: UnitLimits) -> Labels | None:
    """Labels within the limits; None if no step leads there. `state` is changed."""
    sizes = state.sizes()
    for _ in range(STEPS + STEPS_OF_CLUSTER * len(sizes)):
        excess = beyond(sizes, limits)
        if not excess.any():
            return state.labels
        step = NONE
        for cluster in np.argsort(-excess, kind="stable")[: np.count_nonzero(excess)].tolist():
            step = _best_move(state, sizes, limits, cluster)
            if step is NONE:
                step = _best_exchange(state, sizes, limits, cluster)
            if step is not NONE:
                break
        if step is NONE:
            return None
        for row, cluster in zip(step.rows, step.clusters, strict=True):
            sizes[state.labels[row]] -= state.units[row]
            sizes[cluster] += state.units[row]
            state.move(row, cluster)
    return None


def _best_move(state: WholeRows, sizes: I64, limits: UnitLimits, cluster: int) -> RepairStep:
    """The best move of a row out of a cluster that is too large, or into one that is too small."""
    if sizes[cluster] < limits.low:
        index, targets = np.flatnonzero(state.labels != cluster), np.array([cluster])
        more = state.more_in(cluster)[index][:, None]
    else:
        index, targets = np.flatnonzero(state.labels == cluster), np.arange(len(sizes))
        more = state.more_of(index)
    if not len(index):
        return NONE
    own, units = state.labels[index].astype(np.int64)[:, None], state.units[index][:, None]
    saved = _saved(sizes, limits, own, targets[None, :], units)
    price = np.where(saved > 0, units * more / np.maximum(saved, 1), np.inf)
    i, j = np.unravel_index(int(np.argmin(price)), price.shape)
    if not np.isfinite(price[i, j]):
        return NONE
    return RepairStep(float(price[i, j]), (int(index[i]),), (int(targets[j]),))


def _saved(sizes: I64, limits: UnitLimits, a: I64, b: I64, net: I64) -> I64:
    """How many units fewer are beyond the limits if `net` units go from a to b; 0 if a is b."""
    before = beyond(sizes[a], limits) + beyond(sizes[b], limits)
    after = beyond(sizes[a] - net, limits) + beyond(sizes[b] + net, limits)
    return np.where(a == b, 0, before - after)


def _best_exchange(state: WholeRows, sizes: I64, limits: UnitLimits, cluster: int) -> RepairStep:
    """The best exchange of a row of this cluster with a row of another."""
    best = NONE
    inside = np.flatnonzero(state.labels == cluster)
    if not len(inside):
        return best
    leaving = state.units[inside][:, None] * state.more_of(inside)
    joining = state.units * state.more_in(cluster)
    for other in range(len(sizes)):
        outside = np.flatnonzero(state.labels == other)
        if other == cluster or not len(outside):
            continue
        a = np.argsort(leaving[:, other], kind="stable")[:PARTNERS]
        b = outside[np.argsort(joining[outside], kind="stable")[:PARTNERS]]
        net = state.units[inside[a]][:, None] - state.units[b][None, :]
        saved = _saved(sizes, limits, np.array(cluster), np.array(other), net)
        more = leaving[a, other][:, None] + joining[b][None, :]
        price = np.where(saved > 0, more / np.maximum(saved, 1), np.inf)
        i, j = np.unravel_index(int(np.argmin(price)), price.shape)
        if price[i, j] < best.price:
            rows = int(inside[a[i]]), int(b[j])
            best = RepairStep(float(price[i, j]), rows, (other, cluster))
    return best
