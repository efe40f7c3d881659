"""Moves whole rows between clusters until the sizes are within their limits.

Pre: few units are beyond the limits, as after a transport plan. A step moves one row, or exchanges
two, so that fewer units are beyond the limits; of these steps it is the one with the least increase
of the cost for each unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvariates.data.rows import F64, Labels, Rows
from kvariates.data.transport_plan import I64, UnitLimits

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
