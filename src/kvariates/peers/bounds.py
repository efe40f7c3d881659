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
from kvariates.data.exact_sums import to_float
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64

SLACK = 1e-9  # relative; rounding errors of an honest peer are smaller
MOST_DIGITS = 53


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

    def check_points(self, points: F64) -> None:
        """ValueError if a point is outside the box."""
        if not ((points >= self.low) & (points <= self.high)).all():
            raise ValueError("its row is outside the public bounds")


@dataclass(frozen=True, eq=False)
class PeerLimits:
    """What one peer can answer: `n` rows of total weight `weight`."""

    n: int
    weight: float
    bounds: PublicBounds | None = None

    @property
    def most_cost(self) -> float:
        """The largest sum of squared distances to centres inside the bounds."""
        if self.bounds is None:
            return math.inf
        return self.weight * self.bounds.squared_diameter * (1 + SLACK)

    def description(self, d: int, scale: SumScale) -> None:
        """Check what a peer says of its rows."""
        _check_scale(scale)
        if self.bounds is None:
            return
        most, features = self.bounds.max_rows, len(self.bounds.low)
        if d != features:
            raise ValueError(f"has {d} features, the public bounds have {features}")
        if self.n > most or self.weight > most * (1 + SLACK):
            raise ValueError(
                f"describes {self.n} rows of weight {self.weight:g}, at most {most:g} are possible"
            )
        if scale.largest > self.bounds.largest or scale.heaviest > self.weight * (1 + SLACK):
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
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("its cost is not an integer")
        self.cost(to_float(value), "cost")
        return value

    def counts(self, counts: I64, changed: Any) -> None:
        """The rows of each cluster, and how many labels changed."""
        if counts.min(initial=0) < 0:
            raise ValueError("a count is negative")
        if counts.max(initial=0) > self.n or sum(counts.tolist()) > self.n:
            raise ValueError(f"its counts add up to more than its {self.n} rows")
        if changed is not None and not (isinstance(changed, int) and 0 <= changed <= self.n):
            raise ValueError(f"the labels of {changed!r:.20} rows have changed")

    def limbs(self, limbs: I64, name: str) -> I64:
        """The limbs of exact sums of at most `n` rows: of a row, each limb is below 2^31."""
        most = max(self.n, 1) << 31
        if limbs.min(initial=0) < -most or limbs.max(initial=0) > most:
            raise ValueError(f"the {name} are larger than those of {self.n} rows")
        return limbs

    def sums(self, sums: F64, weights: F64) -> None:
        """The weighted sums (k, d) and the weights (k,) of the clusters."""
        if not (np.isfinite(sums).all() and np.isfinite(weights).all()):
            raise ValueError("a sum or a weight is not finite")
        if weights.min(initial=0) < 0 or weights.sum() > self.weight * (1 + SLACK):
            raise ValueError(f"its weights add up to more than {self.weight:g}, or one is negative")
        if self.bounds is None:
            return
        by, error = weights[:, None], SLACK * self.bounds.largest * weights[:, None]
        if not (
            (sums >= by * self.bounds.low - error) & (sums <= by * self.bounds.high + error)
        ).all():
            raise ValueError("a sum is not that of rows inside the public bounds")


def _check_scale(scale: SumScale) -> None:
    """Values that could not be magnitudes would spoil the sums of all peers."""
    most = math.isfinite(scale.largest) and math.isfinite(scale.heaviest)
    if not most or min(scale.largest, scale.heaviest) < 0:
        raise ValueError("describes values or weights that are not finite")
    if not (scale.smallest > 0 and scale.lightest > 0 and 1 <= scale.digits <= MOST_DIGITS):
        raise ValueError("describes magnitudes that cannot be")
