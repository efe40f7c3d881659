"""Tests whether numbers come from a density with a valley between two peaks.

One half of the numbers chooses three intervals of equal width, the middle one with the fewest
numbers. The other half counts again. If the density has no valley, a number of this half falls into
the middle interval at least as often as into one of the outer ones, wherever the intervals lie. So
the p-value of the counts holds, although the intervals were chosen by data.

Rounded numbers and counts have no density: intervals between two possible values are empty. Normal
noise of half a rounding step fills them: at two values with one step between them, it leaves no
valley.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import bdtr

from kvariates.numerics.draws import F64, I64

BINS = 24  # an interval is one to eight of these wide
MANY = 400  # numbers, from which on the outermost 1 % do not stretch the bins
SAME = 2.0**-48  # values closer than this part of them are equal up to rounding errors
SHARE = 0.1  # of the numbers have to be repeated ones, or they are not rounded
UNEVEN = 4  # a step is at most so many times as wide as the median one


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


class RoundedColumns:
    """How far the columns of X are rounded: a step for each, 0 if hardly any value is repeated."""

    def __init__(self, X: Any) -> None:
        self._steps = np.array([_step(*column) for column in _columns(X)])

    def fill(self, along: F64, direction: F64, rng: np.random.Generator) -> F64:
        """The projections of rows on a direction, with noise if the rows are rounded."""
        deviation = math.hypot(*(self._steps * direction)) / 2
        return along + rng.normal(0, deviation, size=len(along)) if deviation else along


def _columns(X: Any) -> Iterator[tuple[F64, int]]:
    """Of each column of X the values, and how many zeros are not among them."""
    if not sparse.issparse(X):
        yield from ((column, 0) for column in X.T)
    else:
        by_column = X.tocsc()
        for column in np.split(by_column.data, by_column.indptr[1:-1]):
            yield column, X.shape[0] - len(column)


def _step(values: F64, zeros: int) -> float:
    """The distance of repeated values to their nearest one that at least SHARE of all exceed.

    It is at most UNEVEN times the median over the different repeated values, so that one value far
    from all others, e.g. for "missing", does not count.
    """
    ordered = np.sort(np.append(values, 0.0) if zeros else values).astype(np.float64)
    starts = np.r_[True, np.diff(ordered) > SAME * np.abs(ordered[1:])]
    values, counts = ordered[starts], np.diff(np.flatnonzero(np.r_[starts, True]))
    if zeros:
        counts[np.searchsorted(values, 0.0, side="right") - 1] += zeros - 1
    repeated = counts > 1
    if len(values) == 1 or counts[repeated].sum() <= SHARE * counts.sum():
        return 0.0
    gaps = np.r_[np.inf, np.diff(values), np.inf]
    nearest = np.minimum(gaps[1:], gaps[:-1])
    order = np.argsort(np.where(repeated, nearest, 0))
    wide = nearest[order][np.searchsorted(np.cumsum(counts[order]), (1 - SHARE) * counts.sum())]
    return float(min(wide, UNEVEN * np.median(nearest[repeated])))


class Valley(NamedTuple):
    """Three intervals of bins with these edges.

    depth : how much the middle is below the sides, in standard deviations of the counts.
    """

    edges: F64
    intervals: Intervals
    depth: float

    @classmethod
    def of(cls, values: F64, edges: F64 | None = None) -> Valley | None:
        """The deepest one of these numbers; None if they are too close to each other."""
        ordered = np.sort(values)
        if edges is None:
            low, high = ordered[0], ordered[-1]
            if len(values) > MANY:
                low, high = np.quantile(ordered, (0.005, 0.995))
            edges = np.linspace(low, high, BINS + 1)
            if not (edges[1:] > edges[:-1]).all():
                return None
        return cls(edges, *deepest_valley(np.diff(_below(ordered, edges))))

    def counts(self, values: F64) -> ValleyCounts:
        """How many of these numbers lie in the valley and beside it."""
        sums, width = _below(np.sort(values), self.edges), self.intervals.width
        left, middle, right = (int(sums[at + width] - sums[at]) for at in self.intervals[:3])
        return ValleyCounts(middle, min(left, right))


def _below(ordered: F64, edges: F64) -> I64:
    """How many numbers lie below each edge; the last bin has its right edge, too."""
    below = np.searchsorted(ordered, edges)
    below[-1] = np.searchsorted(ordered, edges[-1], side="right")
    return below


def pooled_p_value(counts: Sequence[ValleyCounts]) -> float:
    """The p-value of "no valley" of counts together; 1 if nothing was counted.

    It is exact for one count. Two halves that count for each other are not independent, and small
    p-values are then somewhat too small.
    """
    middle, side = sum(c.middle for c in counts), sum(c.side for c in counts)
    return float(bdtr(middle, middle + side, 0.5)) if middle + side else 1.0


def deepest_valley(bins: I64) -> tuple[Intervals, float]:
    """The intervals whose middle lies furthest below the lower one of the outer two, and how far.

    The difference is measured in its standard deviations; wider intervals win a tie.
    """
    sums, windows = np.r_[0, np.cumsum(bins)], _windows(len(bins))
    inside = np.where(windows.within, sums[windows.end] - sums[:-1], -1)
    left = np.maximum.accumulate(inside, axis=1)
    right = np.maximum.accumulate(inside[:, ::-1], axis=1)[:, ::-1]
    rows = np.arange(len(inside))[:, None]
    outer = np.minimum(left[rows, windows.before], right[rows, windows.after])
    deep = (outer - inside) / np.sqrt(np.maximum(outer + inside, 1))
    deep[~windows.middle] = -np.inf
    depth = deep.max()
    row = int(np.flatnonzero((deep == depth).any(axis=1))[-1])
    deepest, width = np.flatnonzero(deep[row] == depth), row + 1
    at = int(deepest[len(deepest) // 2])
    first, last = np.argmax(inside[row, : at - row]), np.argmax(inside[row, at + width :])
    return Intervals(int(first), at, at + width + int(last), width), float(depth)


class Windows(NamedTuple):
    """All intervals of bins: a row for each width, a column for each bin they begin at."""

    end: I64  # the bin after the interval, or the last one
    within: NDArray[np.bool_]  # whether the interval ends within the bins
    before: I64  # the last bin at which an interval to the left can begin
    after: I64  # the first bin at which an interval to the right can begin
    middle: NDArray[np.bool_]  # whether there are intervals on both sides


@cache
def _windows(n: int) -> Windows:
    start, width = np.arange(n), np.arange(1, n // 3 + 1)[:, None]
    return Windows(
        np.minimum(start + width, n),
        start + width <= n,
        np.maximum(start - width, 0),
        np.minimum(start + width, n - 1),
        (start >= width) & (start + 2 * width <= n),
    )
