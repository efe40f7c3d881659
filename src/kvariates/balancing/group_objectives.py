"""What anti-clustering maximises.

For rows around their mean, "variance" is (a constant) - sum over groups of |S|^2 / size, where S is
the sum of a group's rows. Exchanging rows i of a and j of b changes it by O(d) work. If all groups
have the same size, it is that size times the sum of the groups' variances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.balancing.group_problem import Units
from kvariates.data.exchanges import (
    ExchangeEnd,
    ExchangeOptions,
    ExchangeUnits,
    Ints,
    exchange_distances,
    exchange_rows,
)
from kvariates.data.rows import F64, Floats, Labels
from kvariates.tables import Entry, Table

ROWS, DISTANCES = frozenset({"rows"}), frozenset({"distances"})
MOST_STEPS = 200  # of the least distance
POWERS = (2.0, 4.0, 8.0, 16.0)  # of the penalty of a small distance


@dataclass(frozen=True, eq=False)
class PairValues:
    """What two units u < v, and one unit u, add to the objective if they are in group g."""

    pair: F64  # (g, u, v), symmetric
    own: F64  # (g, u)


def best(ends: list[ExchangeEnd]) -> ExchangeEnd:
    """The end with the smallest value; of equal ones the first."""
    return min(ends, key=lambda end: end.values[-1])


@dataclass(frozen=True, eq=False)
class WithinSquares:
    """The sum of squared distances to the means of the groups. `columns` have mean 0."""

    columns: F64
    units: Units

    def value(self, labels: Labels) -> float:
        """The objective for the groups of all rows; larger is better."""
        count = np.bincount(labels)
        sums = [
            np.bincount(labels, weights=column, minlength=len(count)) for column in self.columns.T
        ]
        between = np.square(sums) / np.maximum(count, 1)
        return float(np.square(self.columns).sum() - between.sum())

    def search(
        self, exchanges: ExchangeUnits, starts: Labels, options: ExchangeOptions
    ) -> ExchangeEnd:
        """The best end of exchanges from the starts."""
        return best(exchange_rows(self.units.sums(self.columns), exchanges, starts, options))

    def pair_values(self, sizes: Ints) -> PairValues:
        """The objective as a sum over pairs of units, without constants."""
        sums = self.units.sums(self.columns)
        own = -np.square(sums).sum(axis=1)
        return PairValues(-2 * (sums @ sums.T) / sizes[:, None, None], own / sizes[:, None])


def constant_columns(X: F64) -> NDArray[np.bool_]:
    """Which columns differ by no more than rounding errors."""
    constant: NDArray[np.bool_] = X.std(axis=0) <= 1e-13 * np.abs(X).max(axis=0, initial=0.0)
    return constant


def centred(X: F64) -> F64:
    """Rows minus their mean."""
    return np.ascontiguousarray(X - X.mean(axis=0))


def standardised(X: F64) -> F64:
    """Columns of mean 0 and standard deviation 1; constant columns become 0."""
    constant = constant_columns(X)
    return np.ascontiguousarray(centred(X) / np.where(constant, 1.0, X.std(axis=0)) * ~constant)


def with_squares(X: F64) -> F64:
    """Standardised columns, and their squared deviations, standardised (Papenberg 2023)."""
    Z = standardised(X)
    return np.ascontiguousarray(np.hstack([Z, standardised(Z**2)]))


@dataclass(frozen=True, eq=False)
class Diversity:
    """The sum of distances within groups. `distances` are those of all pairs of rows."""

    distances: Floats
    units: Units

    def value(self, labels: Labels) -> float:
        member = np.eye(int(labels.max()) + 1)[labels]
        return float(sum(((self.distances @ member) * member).sum(axis=1)) / 2)

    def search(
        self, exchanges: ExchangeUnits, starts: Labels, options: ExchangeOptions
    ) -> ExchangeEnd:
        return best(exchange_distances(self._between(), exchanges, starts, options))

    def pair_values(self, sizes: Ints) -> PairValues:
        between = self._between().astype(np.float64)
        return PairValues(
            np.broadcast_to(between, (len(sizes), *between.shape)),
            np.zeros((len(sizes), len(between))),
        )

    def _between(self) -> Floats:
        """Sums of distances between units."""
        return over_units(self.distances, self.units, np.add)


def over_units(distances: Floats, units: Units, reduce: np.ufunc) -> Floats:
    """Distances between units: of all pairs of their rows, the sum or the least."""
    if units.n == len(distances):
        return distances
    order = np.argsort(units.of_row, kind="stable")
    first = np.flatnonzero(np.diff(units.of_row[order], prepend=-1))
    part = reduce.reduceat(distances[order], first, axis=0)
    out = np.ascontiguousarray(reduce.reduceat(part[:, order], first, axis=1))
    np.fill_diagonal(out, 0)
    return out


@dataclass(frozen=True, eq=False)
class Dispersion:
    """The least distance within groups.

    Exchanges lower a sum of penalties that grow steeply as distances get smaller. Then pairs at the
    least distance found get a penalty above that of all others together, so that exchanges lower
    their number. When none is left, the least distance has grown, and the next one is treated in
    the same way. Of groups with the same least distance, those with fewer such pairs are kept.
    """

    distances: Floats
    units: Units

    def value(self, labels: Labels) -> float:
        """Infinite if all groups have one row."""
        return _rank(self.distances, labels)[0]

    def search(
        self, exchanges: ExchangeUnits, starts: Labels, options: ExchangeOptions
    ) -> ExchangeEnd:
        between = over_units(self.distances, self.units, np.minimum).astype(np.float64)
        tries, sweeps, values = [*starts], 0, list[float]()
        for power in POWERS:
            ends = exchange_distances(_penalty(between, power), exchanges, starts, options)
            tries += [end.labels for end in ends]
            sweeps += max(end.n_sweeps for end in ends)
            if stopped := ends[0].stopped:
                break
        labels = max(tries, key=lambda labels: _rank(between, labels))
        for _ in range(MOST_STEPS):
            least, conflicts = _rank(between, labels)
            values.append(-least)
            if stopped or not np.isfinite(least):
                break
            penalty = _penalty(between, POWERS[-1], least)
            ends = exchange_distances(penalty, exchanges, np.stack([labels, *tries]), options)
            sweeps += max(end.n_sweeps for end in ends)
            stopped = ends[0].stopped
            better = max((end.labels for end in ends), key=lambda labels: _rank(between, labels))
            if _rank(between, better) <= (least, conflicts):
                break
            labels = better
        return ExchangeEnd(labels, sweeps, not stopped, tuple(values))


def _rank(between: Floats, labels: Labels) -> tuple[float, int]:
    """The least distance within groups, and minus the number of pairs that have it."""
    same = labels[:, None] == labels
    np.fill_diagonal(same, False)
    inside = between[same]
    least = float(inside.min(initial=np.inf))
    return least, -int(np.count_nonzero(inside == least))


def _penalty(between: F64, power: float, least: float = 0.0) -> F64:
    """Negative values for exchanges: pairs at smaller distances have a larger penalty.

    Each pair that is `least` apart has a larger penalty than all pairs at larger distances
    together, and each pair at a smaller distance a larger one than all of these.
    """
    above = between[between > least]
    unit = float(above.min(initial=np.inf))
    if not np.isfinite(unit):
        unit = 1.0
    penalty: F64 = (unit / np.maximum(between, unit)) ** power
    at_least = 2.0 * max(1.0, float(penalty[between > least].sum()))
    penalty[between == least] = at_least
    penalty[between < least] = at_least * 2.0 * np.count_nonzero(between == least)
    np.fill_diagonal(penalty, 0)
    return -penalty


GroupObjective = WithinSquares | Diversity | Dispersion
MakeObjective = Callable[[Any, Units], GroupObjective]

LOCAL = 'Exchanges end at a local optimum; method="exact" finds the optimum.'

GROUP_OBJECTIVES: Table[MakeObjective] = Table(
    "objective",
    {
        "variance": Entry(
            lambda X, units: WithinSquares(centred(X), units),
            "The sum of squared distances of rows to the mean of their group: groups have nearly "
            "the same means. With groups of equal size it is, up to a factor, the sum of their "
            "variances.",
            ROWS,
            lost=LOCAL,
        ),
        "kplus": Entry(
            lambda X, units: WithinSquares(with_squares(X), units),
            "The same for standardised columns and their squared deviations: groups have nearly "
            "the same means and spreads (Papenberg 2023).",
            ROWS,
            lost=LOCAL,
        ),
        "diversity": Entry(
            Diversity,
            "The sum of distances of all pairs of rows in one group.",
            DISTANCES,
            lost=LOCAL,
        ),
        "dispersion": Entry(
            Dispersion, "The least distance of two rows in one group.", DISTANCES, lost=LOCAL
        ),
    },
)
