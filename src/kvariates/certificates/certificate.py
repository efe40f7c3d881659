"""A certificate: a lower bound on the cost of any k medoids or centres, and what it says in words.

A bound from a sample rests on `smallest_mean`, the inequality of Chernoff and Hoeffding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvariates.notebook_html import boxed, shortened

USELESS = 1.0  # a gap above which a bound tells hardly anything


@dataclass(frozen=True)
class Certificate:
    """Proof that no k medoids (or centres) cost less than `lower_bound`."""

    lower_bound: float
    cost: float  # of the medoids or centres that were found
    confidence: float  # 1 if the bound is exact
    sample: int | None  # how many points were drawn
    iterations: int
    rounded: bool = False  # up to a whole number, as all weights and distances are
    centers: str = "medoids"  # what was found, in words
    missing: str | None = None  # why no bound was computed
    only_rounding: bool = False  # the whole cost is rounding errors of the centres

    @property
    def gap(self) -> float:
        """The most by which the cost can exceed the optimum, as a part of the optimum.

        0 if the whole cost is rounding errors.
        """
        if self.cost <= self.lower_bound or self.only_rounding:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.inf

    def __str__(self) -> str:
        if self.missing is not None:
            return f"no bound was computed: {self.missing}"
        if self.gap > USELESS:
            return "no useful bound"
        how = "certified"
        if self.sample is not None:
            how = f"{100 * self.confidence:.6g} % confidence, from a sample of {self.sample:,}"
        if self.gap == 0:
            return f"optimal{' up to rounding' if self.only_rounding else ''} ({how})"
        return f"within {_percent(self.gap)} of optimal ({how})"

    def __repr__(self) -> str:
        words = shortened(str(self), 200)
        return f"Certificate({words!r}, cost={self.cost:.6g}, lower_bound={self.lower_bound:.6g})"

    def _repr_html_(self) -> str:
        said = str(self)
        return boxed(f"{said[0].upper()}{said[1:]}", self.explain().splitlines())

    def explain(self) -> str:
        """What was proved, and how, in plain words."""
        cost = f"The {self.centers} cost {self.cost:.6g}."
        if self.missing is not None:
            return f"{cost}\nNo bound was computed: {self.missing}."
        if self.only_rounding:
            return f"{cost}\nThis is only rounding error: every row is equal to its centre."
        lines = [
            cost,
            f"No choice of as many {self.centers} costs less than {self.lower_bound:.6g},",
            f"so these are {self}."
            if self.gap <= USELESS
            else "which is less than half of the cost: no useful bound.",
        ]
        if self.sample is not None:
            lines.append(
                f"The bound comes from {self.sample:,} points drawn at random; of certificates "
                f"like this one, at most {100 * (1 - self.confidence):.3g} % are wrong."
            )
        else:
            lines.append("That was checked against every distance; no chance is involved.")
        if self.rounded:
            lines.append("All distances and weights are whole: the bound is the next whole number.")
        return "\n".join(lines)


def _percent(part: float) -> str:
    """Rounded up, so that no more is promised than was proved; at least 0.0001 %."""
    digits = max(0, 1 - math.floor(math.log10(100 * part)))
    scale = 10.0 ** min(digits, 4)
    return f"{math.ceil(100 * part * scale * (1 - 1e-12)) / scale:.12g} %"


def smallest_mean(seen: float, size: int, alpha: float) -> float:
    """The lower confidence bound on the mean of numbers in [0, 1] whose sample mean is `seen`."""
    low, high = 0.0, min(seen, 1.0)
    for _ in range(100):
        middle = (low + high) / 2
        if size * _divergence(seen, middle) > math.log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def _divergence(p: float, q: float) -> float:
    """KL(p || q) of two Bernoulli laws, for q <= p; infinite if q is 0 and p is not."""
    if not 0 < q < 1:
        return math.inf if q < p else 0.0
    ones = p * math.log(p / q) if p > 0 else 0.0
    return ones + (0.0 if p >= 1 else (1 - p) * math.log((1 - p) / (1 - q)))
