"""Tests whether numbers come from a density with a valley between two peaks.

One half of the numbers chooses three intervals of equal width, the middle one with the fewest
numbers. The other half counts again. If the density has no valley, a number of this half falls into
the middle interval at least as often as into one of the outer ones, wherever the intervals lie. So
the p-value of the counts holds, although the intervals were chosen by data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr

from kvariates.numerics.draws import F64, I64

BINS = 24  # an interval is one to eight of these wide
MANY = 400  # numbers, from which on the outermost 1 % do not stretch the bins


class Intervals(NamedTuple):
    """Three intervals: the bins they begin at, and their width in bins."""

    left: int
    middle: int
    right: int
    width: int


class ValleyCounts(NamedTuple):
    """How many numbers lie in the valley, and how many in the lower one of its sides."""

    middle: int
    side: int


def valley_counts(chooses: F64, counts: F64) -> ValleyCounts:
    """The counts of the second half in the intervals that the first half chooses."""
    ends = (0.005, 0.995) if len(chooses) > MANY else (0.0, 1.0)
    low, high = np.quantile(chooses, ends)
    edges = np.linspace(low, high, BINS + 1)
    if not (np.diff(edges) > 0).all():
        return ValleyCounts(0, 0)
    found = deepest_valley(np.histogram(chooses, edges)[0])
    sums = np.r_[0, np.cumsum(np.histogram(counts, edges)[0])]
    left, middle, right = (int(sums[at + found.width] - sums[at]) for at in found[:3])
    return ValleyCounts(middle, min(left, right))


def pooled_p_value(counts: Sequence[ValleyCounts]) -> float:
    """The p-value of "no valley" of counts together; 1 if nothing was counted.

    It is exact for one count. Two halves that count for each other are not independent, and small
    p-values are then somewhat too small.
    """
    middle, side = sum(c.middle for c in counts), sum(c.side for c in counts)
    return float(bdtr(middle, middle + side, 0.5)) if middle + side else 1.0


def deepest_valley(bins: I64) -> Intervals:
    """The intervals whose middle lies furthest below the lower one of the outer two.

    The difference is measured in its standard deviations; wider intervals win a tie.
    """
    sums, best, depth = np.r_[0, np.cumsum(bins)], Intervals(0, 1, 2, 1), -np.inf
    for width in range(1, len(bins) // 3 + 1):
        inside = sums[width:] - sums[:-width]
        middle = np.arange(width, len(inside) - width)
        left = np.maximum.accumulate(inside)[middle - width]
        right = np.maximum.accumulate(inside[::-1])[::-1][middle + width]
        outer, counted = np.minimum(left, right), inside[middle]
        deep = (outer - counted) / np.sqrt(np.maximum(outer + counted, 1))
        deepest = np.flatnonzero(deep == deep.max())
        at = int(middle[deepest[len(deepest) // 2]])
        if deep.max() >= depth:
            first, last = np.argmax(inside[: at - width + 1]), np.argmax(inside[at + width :])
            depth = deep.max()
            best = Intervals(int(first), at, at + width + int(last), width)
    return best
