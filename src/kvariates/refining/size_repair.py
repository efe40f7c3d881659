"""Moves whole rows between clusters until the sizes are within their limits.

Pre: few units are beyond the limits, as after a transport plan. A step moves one row, or exchanges
two, so that fewer units are beyond the limits; of these steps it is the one with the least increase
of the cost for each unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvariates.data.rows import F64, Labels, Rows
from kvariates.data.transport_plan import I64, UnitLimits

STEPS, STEPS_OF_CLUSTER = 100, 10  # at most
PARTNERS = 256  # rows of each of two clusters that are compared for an exchange


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Rows with their units, and the cluster of each."""

    rows: Rows
    centers: F64
    units: I64
    labels: Labels

    def sizes(self) -> I64:
        sizes = np.zeros(len(self.centers), dtype=np.int64)
        np.add.at(sizes, self.labels, self.units)
        return sizes

    def costs(self, index: I64, clusters: Iterable[int]) -> F64:
        """Squared distances of some rows to the centres of some clusters."""
        rows = self.rows.subset(index)
        label = np.empty(len(index), dtype=np.int32)
        return np.column_stack(
            [rows.costs(self.centers, np.full_like(label, cluster)) for cluster in clusters]
        )

    def own_costs(self, index: I64) -> F64:
        return self.rows.subset(index).costs(self.centers, self.labels[index])


class RepairStep(NamedTuple):
    """Rows that change their clusters, and the increase of the cost for each unit saved."""

    price: float
    rows: tuple[int, ...] = ()
    clusters: tuple[int, ...] = ()


NONE = RepairStep(np.inf)


def beyond(sizes: I64, limits: UnitLimits) -> I64:
    """Units above or below the limits."""
    return np.maximum(sizes - limits.high, 0) + np.maximum(limits.low - sizes, 0)


def repaired(start: WholeRows, limits: UnitLimits) -> Labels | None:
    """Labels within the limits; None if no step leads there."""
    state = WholeRows(start.rows, start.centers, start.units, start.labels.copy())
    sizes = state.sizes()
    for _ in range(STEPS + STEPS_OF_CLUSTER * len(sizes)):
        excess = beyond(sizes, limits)
        if not excess.any():
            return state.labels
        step = NONE
        for cluster in np.argsort(-excess, kind="stable")[: np.count_nonzero(excess)]:
            step = _best_move(state, sizes, limits, int(cluster))
            if step is NONE:
                step = _best_exchange(state, sizes, limits, int(cluster))
            if step is not NONE:
                break
        if step is NONE:
            return None
        for row, cluster in zip(step.rows, step.clusters, strict=True):
            sizes[state.labels[row]] -= state.units[row]
            sizes[cluster] += state.units[row]
            state.labels[row] = cluster
    return None


def _best_move(state: WholeRows, sizes: I64, limits: UnitLimits, cluster: int) -> RepairStep:
    """The best move of a row out of a cluster that is too large, or into one that is too small."""
    inside = state.labels == cluster
    into = sizes[cluster] < limits.low
    index = np.flatnonzero(~inside if into else inside)
    if not len(index):
        return NONE
    own, units = state.labels[index].astype(np.int64), state.units[index]
    targets = np.array([cluster]) if into else np.arange(len(sizes))
    saved = _saved(sizes, limits, own[:, None], targets[None, :], units[:, None])
    more = state.costs(index, targets) - state.own_costs(index)[:, None]
    price = np.where(saved > 0, units[:, None] * more / np.maximum(saved, 1), np.inf)
    place = np.unravel_index(int(np.argmin(price)), price.shape)
    if not np.isfinite(price[place]):
        return NONE
    return RepairStep(float(price[place]), (int(index[place[0]]),), (int(targets[place[1]]),))


def _saved(sizes: I64, limits: UnitLimits, a: I64, b: I64, net: I64) -> I64:
    """How many units fewer are beyond the limits if `net` units go from a to b; 0 if a is b."""
    before = beyond(sizes[a], limits) + beyond(sizes[b], limits)
    after = beyond(sizes[a] - net, limits) + beyond(sizes[b] + net, limits)
    return np.where(a == b, 0, before - after)


def _best_exchange(state: WholeRows, sizes: I64, limits: UnitLimits, cluster: int) -> RepairStep:
    """The best exchange of a row of this cluster with a row of another."""
    best = NONE
    inside = np.flatnonzero(state.labels == cluster)
    for other in range(len(sizes)):
        outside = np.flatnonzero(state.labels == other)
        if other == cluster or not len(outside) or not len(inside):
            continue
        leaving, joining = (
            state.units[rows] * (state.costs(rows, [to])[:, 0] - state.own_costs(rows))
            for rows, to in ((inside, other), (outside, cluster))
        )
        a, b = (np.argsort(x, kind="stable")[:PARTNERS] for x in (leaving, joining))
        net = state.units[inside[a]][:, None] - state.units[outside[b]][None, :]
        saved = _saved(sizes, limits, np.array(cluster), np.array(other), net)
        more = leaving[a][:, None] + joining[b][None, :]
        price = np.where(saved > 0, more / np.maximum(saved, 1), np.inf)
        i, j = np.unravel_index(int(np.argmin(price)), price.shape)
        if price[i, j] < best.price:
            rows = int(inside[a[i]]), int(outside[b[j]])
            best = RepairStep(float(price[i, j]), rows, (other, cluster))
    return best
