"""What can be said of the answers of a peer before it is trusted: they follow from bounded rows.

`PublicBounds` are known to all. `PeerLimits` are those of one peer: its own description, which was
checked against the public bounds, and the bounds. A check raises ValueError and names what is
wrong. Without public bounds only what a peer said of itself is checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.data.cluster_sums import SumScale
from kvariates.data.exact_sums import SMALLEST, carry_digits, to_float, unscaled
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64

SLACK = 1e-9  # relative; rounding errors of an honest peer are smaller
ROUNDING = 1e-12  # of a mean, relative to the largest value: rows that are equal have a spread
SAFE_LIMB = 2**61  # digits can be carried without overflow
UNIT_BITS = 92  # an exact sum is in units of 2^(exponent - 92): see `unscaled`


@dataclass(frozen=True, eq=False)
class PublicBounds:
    """The box in which all rows are, and the most rows (and the most weight) of one peer."""

    low: F64
    high: F64
    max_rows: float = math.inf

    @property
    def squared_diameter(self) -> float:
        return float(((self.high - self.low) ** 2).sum())

    @property
    def largest(self) -> float:
        """The largest absolute value."""
        return float(np.abs([self.low, self.high]).max())


@dataclass(frozen=True, eq=False)
class PeerLimits:
    """What one peer can answer: `n` rows of total weight `weight`.

    `largest`, `heaviest`: the largest absolute value and the largest weight that it described.
    """

    n: int
    weight: float
    bounds: PublicBounds | None = None
    largest: float = math.inf
    heaviest: float = math.inf

    @property
    def most_units(self) -> int:
        """The largest exact sum over the rows: each term is below 2^exponent."""
        return self.n << UNIT_BITS

    @property
    def most_row_cost(self) -> float:
        """The largest squared distance of a row to a centre inside the bounds."""
        if self.bounds is None:
            return math.inf
        rounding = (ROUNDING * self.bounds.largest) ** 2 * len(self.bounds.low)
        return self.bounds.squared_diameter * (1 + SLACK) + rounding

    @property
    def most_cost(self) -> float:
        """The largest sum of squared distances to centres inside the bounds."""
        return math.inf if self.bounds is None else self.weight * self.most_row_cost

    def description(self, d: int, scale: SumScale) -> None:
        """Check what a peer says of its rows. Pre: rows can have this scale."""
        if self.bounds is None:
            return
        most, features = self.bounds.max_rows, len(self.bounds.low)
        if d != features:
            raise ValueError(f"has {d} features, the public bounds have {features}")
        if self.n > most or self.weight > most * (1 + SLACK):
            raise ValueError(
                f"describes {self.n} rows of weight {self.weight:g}, at most {most:g} are possible"
            )
        heaviest = self.weight * (1 + SLACK) if self.n else 1.0  # without rows it is the usual one
        if scale.largest > self.bounds.largest or scale.heaviest > heaviest:
            raise ValueError("describes values outside the public bounds")

    def same_weight(self, value: float) -> float:
        """The potential without centres: the weight that the peer has described."""
        if not abs(value - self.weight) <= SLACK * self.weight:
            raise ValueError(f"its potential is {value:g}, its weight was {self.weight:g}")
        return self.weight

    def cost(self, value: float, name: str) -> float:
        """A sum of squared distances."""
        if not 0 <= value < math.inf:
            raise ValueError(f"its {name} is {value:g}")
        if value > self.most_cost:
            raise ValueError(f"its {name} is {value:g}, at most {self.most_cost:g} is possible")
        return value

    def exact_cost(self, value: Any) -> int:
        """A cost as `exact_total` returns it."""
        if not _is_integer(value):
            raise ValueError("its cost is not an integer")
        found: int = value
        self.cost(to_float(found), "cost")
        return found

    def points(self, points: Any, shape: tuple[int, int]) -> F64:
        """Rows that the peer shows."""
        if not _is_array(points, shape, np.float64) or not np.isfinite(points).all():
            raise ValueError(f"its rows should be finite, of shape {shape}")
        box = self.bounds
        if box is not None and not ((points >= box.low) & (points <= box.high)).all():
            raise ValueError("its row is outside the public bounds")
        if np.abs(points).max(initial=0.0) > self.largest:
            raise ValueError("its row has a larger value than it described")
        found: F64 = points
        return found

    def row_numbers(self, rows: I64) -> None:
        if rows.min(initial=0) < 0 or rows.max(initial=0) >= self.n:
            raise ValueError(f"its row numbers should be from 0 to {self.n - 1}")

    def row_weights(self, weights: F64) -> None:
        if not ((weights >= 0) & (weights <= self.heaviest)).all():
            raise ValueError(f"its row weights should be from 0 to {self.heaviest:g}")

    def row_costs(self, costs: F64) -> None:
        """Squared distances of single rows, without their weights."""
        most = self.most_row_cost
        if not ((costs >= 0) & (costs <= most) & np.isfinite(costs)).all():
            raise ValueError(f"the cost of a row should be finite, from 0 to {most:g}")

    def largest_term(self, value: Any, *, by_weight: bool) -> float:
        """The largest weight * cost of a row; infinite if that overflows."""
        found, most = float(value), math.inf
        if by_weight:
            most = self.heaviest
        elif self.bounds is not None:
            most = self.heaviest * self.most_row_cost * (1 + SLACK)
        if not 0 <= found <= most:
            raise ValueError(f"its largest cost is {found:g}, at most {most:g} is possible")
        return found

    def total_cost(self, total: int, exponent: int) -> None:
        """The sum of weight * cost, in units of the exponent."""
        self.cost(max(0.0, unscaled(total, exponent) - self._rounding(exponent)), "total")

    def total_weight(self, total: int, exponent: int) -> None:
        """The sum of all weights, in units of the exponent."""
        value, error = unscaled(total, exponent), SLACK * self.weight + self._rounding(exponent)
        if not abs(value - self.weight) <= error:
            raise ValueError(f"its weights add up to {value:g}, it described {self.weight:g}")

    def gain_bounds(self, bounds: F64, most: int, exponent: int) -> None:
        """Lower and upper bounds (m, 2) on gains, of which none is above the total `most`.

        An upper bound may be far too large: it comes from a filter of float32.
        """
        low, high = bounds.T
        total = unscaled(most, exponent) * (1 + SLACK) + self._rounding(exponent)
        if not (np.isfinite(bounds).all() and (low <= high).all() and (high >= 0).all()):
            raise ValueError("its bounds of gains are not finite, or not in order")
        if not (low <= total).all():
            raise ValueError(f"its gain is at least {low.max():g}, but its total is {total:g}")

    def _rounding(self, exponent: int) -> float:
        """Of a sum over the rows, one unit for each."""
        return unscaled(self.n, exponent)

    def counts(self, counts: I64, changed: Any) -> None:
        """The rows of each cluster, and how many labels changed."""
        if counts.min(initial=0) < 0:
            raise ValueError("a count is negative")
        if counts.max(initial=0) > self.n or sum(counts.tolist()) > self.n:
            raise ValueError(f"its counts add up to more than its {self.n} rows")
        if changed is not None and not (isinstance(changed, int) and 0 <= changed <= self.n):
            raise ValueError(f"the labels of {changed!r:.20} rows have changed")

    def limbs(self, limbs: I64, name: str) -> I64:
        """The limbs (levels, k, 3, d) of exact sums of at most `n` rows, with carried digits.

        Low limbs grow with every row that comes or goes; with the digits carried, only the sum
        counts: of a row, the high limb is below 2^31.
        """
        most = max(self.n, 1) << 31
        if max(-int(limbs.min(initial=0)), int(limbs.max(initial=0))) <= SAFE_LIMB:
            carried = carry_digits(limbs)
            high = carried[:, :, 0]
            if -most <= high.min(initial=0) and high.max(initial=0) <= most:
                return carried
        raise ValueError(f"the {name} are larger than those of {self.n} rows")

    def sums(self, sums: F64, weights: F64, exponent: int = SMALLEST) -> None:
        """The weighted sums (k, d) and the weights (k,) of the clusters.

        `exponent`: of the weights. Those that are far below the heaviest are rounded.
        """
        rounding = self._rounding(exponent)
        if not (np.isfinite(sums).all() and np.isfinite(weights).all()):
            raise ValueError("a sum or a weight is not finite")
        if weights.min(initial=0) < 0 or weights.sum() > self.weight * (1 + SLACK) + rounding:
            raise ValueError(f"its weights add up to more than {self.weight:g}, or one is negative")
        if self.bounds is None:
            return
        by = weights[:, None]
        error = self.bounds.largest * (SLACK * by + rounding)
        if not (
            (sums >= by * self.bounds.low - error) & (sums <= by * self.bounds.high + error)
        ).all():
            raise ValueError("a sum is not that of rows inside the public bounds")


def checked_array(array: Any, name: str, shape: tuple[int, ...], dtype: Any = np.int64) -> Any:
    """The array, if it has this shape and dtype."""
    if not _is_array(array, shape, dtype):
        raise ValueError(f"{name} should be {np.dtype(dtype)} of shape {shape}")
    return array


def checked_integers(values: Any, name: str, count: int, most: int) -> list[int]:
    """The list, if it has so many integers from 0 to `most`. They may be longer than 64 bits."""
    if not isinstance(values, list) or len(values) != count or not all(map(_is_integer, values)):
        raise ValueError(f"{name} should be {count} integers")
    if not all(0 <= value <= most for value in values):
        raise ValueError(f"{name} should be from 0 to {float(most):g}")
    return values


def _is_array(array: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
