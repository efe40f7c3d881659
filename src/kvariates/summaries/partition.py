"""An adaptive partition of rows: a tree whose nodes estimate the moments of their rows.

    level by level, for every open node
        a ball is chosen: its estimated centre, and a radius around it
        its rows are measured: their number, mean and variances, in units of the ball
        if it has enough rows, it is cut at the mean, across the axis of the largest variance, and
        its halves are cut again at their guessed means: four children for one measure
        rows outside the ball go to a fifth child (in the first levels, with many axes)

How rows are measured is an argument (`Measure`): with noise, or exactly. Nothing else is known of
the rows, so the leaves are as private as the measure. The errors of a measure are in proportion to
the radius of the ball, so balls follow the rows and not the cells.

The leaves, each a mean with a count and a spread, are the summary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates.data.lattice_rows import Balls, outside_radius
from kvariates.data.rows import Labels
from kvariates.numerics.draws import F64, I64
from kvariates.privacy.mechanisms import shrink
from kvariates.privacy.secret import Secret

FEW_AXES = 3
GROWTH = 1.2  # of the share of a level in the budget, from one level to the next
BLOCK = 1 << 20  # rows
HALF_MEAN, HALF_VARIANCE = 0.8, 0.4  # of half a Gaussian: the offset of its mean, its variance


@dataclass(frozen=True)
class Rules:
    """When a node is cut, and which leaves are kept."""

    cut: float  # the least count of a node that is cut, in errors of a count
    keep: float  # the least count of a leaf that is kept, in errors of a count
    leaves: int  # enough for each centre
    wide: float  # the radius of a ball in guessed deviations of its rows
    cuts: int  # in two, from one measure to the next
    far_levels: int  # in which rows outside the ball go to a child of their own


# With few axes cells are small in all directions: balls may be wide, and small nodes are useful.
# With many axes a cell says little about where its rows are.
FEW = Rules(cut=12.0, keep=2.75, leaves=1024, wide=6.0, cuts=2, far_levels=0)
MANY = Rules(cut=12.0, keep=3.0, leaves=128, wide=3.0, cuts=2, far_levels=2)


def rules(axes: int) -> Rules:
    """The rules for so many axes."""
    return FEW if axes <= FEW_AXES else MANY


@dataclass(frozen=True, eq=False)
class Moments:
    """For every node the count, mean and mean squares of its rows, in units of its ball.

    The errors are standard errors of totals: of a count, of a coordinate's sum, of a square's sum.
    Leaves have one column of squares: the sum of all.
    """

    counts: F64
    means: F64
    squares: F64
    count_error: float
    sum_error: float
    square_error: float


class Chosen(NamedTuple):
    """Rows, and the number of the ball of each; negative: of none."""

    rows: F64
    labels: Labels


class Members:
    """Rows and the node of each. Nothing of it is returned but to a `Measure`."""

    def __init__(self, rows: F64) -> None:
        self.rows, self.labels = rows, np.zeros(len(rows), dtype=np.int32)
        self._far: I64 = np.empty(0, dtype=np.int64)  # rows outside the balls of the last measure
        self._far_own: Labels = np.empty(0, dtype=np.int32)

    def chosen(self, numbers: Labels, balls: Balls, *, inside: bool) -> Chosen:
        """The rows of the nodes with a number; with `inside`, only those in the node's ball."""
        own = numbers[self.labels]
        self._far = np.empty(0, dtype=np.int64)
        if inside:
            self._far = np.flatnonzero(outside_radius(self.rows, own, balls))
        self._far_own = own[self._far]
        own[self._far] = -1
        return Chosen(self.rows, own)

    def move_far(self, numbers: Labels, first: int) -> None:
        """Rows outside the ball of a node that has a number go to the node first + number."""
        moved = numbers[self._far_own]
        self.labels[self._far[moved >= 0]] = first + moved[moved >= 0]

    def move_right(self, numbers: Labels, axis: I64, high: F64, first: int) -> None:
        """Rows above the cut of a node that has a number go to the node first + number."""
        parent = numbers[self.labels]
        cut = high[np.arange(len(axis)), axis]
        for start in range(0, len(self.rows), BLOCK):
            block = slice(start, start + BLOCK)
            inside = np.flatnonzero(parent[block] >= 0)
            own = parent[block][inside]
            above = self.rows[block][inside, axis[own]] > cut[own]
            self.labels[block][inside[above]] = first + own[above]


Measure = Callable[[Secret[Chosen], Balls, int], Moments]
"""From the chosen rows, the ball of each number and the level to moments."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """All nodes so far. A node that is halved becomes its left half."""

    centers: F64  # guessed or measured
    variances: F64
    low: F64  # corners of the cell
    high: F64
    open: NDArray[np.bool_]
    largest: float  # norm of any row

    def __len__(self) -> int:
        return len(self.centers)

    @property
    def reach(self) -> F64:
        """The largest possible distance of rows to their centres."""
        corner = np.maximum(self.high - self.centers, self.centers - self.low)
        other_side = np.linalg.norm(self.centers, axis=1) + self.largest
        return np.asarray(np.minimum(np.linalg.norm(corner, axis=1), other_side))

    @property
    def balls(self) -> Balls:
        radii, wide = self.reach, rules(self.centers.shape[1]).wide
        radii = np.minimum(radii, wide * np.sqrt(self.variances.sum(axis=1)))
        # Cells without an extent, as those at a corner of the domain, still need a unit.
        least = max(1e-9 * radii.max(initial=0.0), 1e-30 * self.largest)
        return Balls(self.centers, np.maximum(radii, least))

    def take(self, which: I64) -> Nodes:
        fields: dict[str, Any] = {name: getattr(self, name)[which] for name in FIELDS}
        return replace(self, **fields)

    def put(self, which: I64, others: Nodes) -> Nodes:
        """The nodes, with those at `which` replaced."""
        fields: dict[str, Any] = {name: getattr(self, name).copy() for name in FIELDS}
        for name, values in fields.items():
            values[which] = getattr(others, name)
        return replace(self, **fields)

    def append(self, more: Nodes) -> Nodes:
        fields: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in FIELDS
        }
        return replace(self, **fields)


FIELDS = ("centers", "variances", "low", "high", "open")


@dataclass(frozen=True, eq=False)
class Summary:
    """Weighted points for the rows."""

    points: F64
    weights: F64
    spreads: F64  # mean squared distances of the points' rows to them
    threshold: float  # that the weights passed
    error: float  # of a weight


def root(center: F64, variances: F64, low: F64, high: F64, largest: float) -> Nodes:
    """One node for all rows, which are between `low` and `high` and have norms up to `largest`."""
    at, yes = np.clip(center, low, high)[None], np.ones(1, dtype=bool)
    return Nodes(at, variances[None], low[None], high[None], yes, largest)


def summarize(members: Secret[Members], start: Nodes, levels: int, measure: Measure) -> Summary:
    """Cut `levels` times, then measure the leaves. Pre: `start` is one node."""
    nodes = start
    for level in range(levels):
        nodes = _cut(members, nodes, level, measure)
    balls, every = nodes.balls, np.arange(len(nodes), dtype=np.int32)
    found = measure(members.map(lambda of: of.chosen(every, balls, inside=False)), balls, levels)
    threshold = rules(start.centers.shape[1]).keep * found.count_error
    kept = found.counts > threshold
    means = _shrunken_means(found)
    points = np.clip(nodes.centers + means * balls.radii[:, None], nodes.low, nodes.high)
    spread = _combine(
        found.squares.sum(axis=1) - np.square(means).sum(axis=1),
        nodes.variances.sum(axis=1) / balls.radii**2,
        found.square_error / np.maximum(found.counts, 1.0),
    )
    spreads = (spread * balls.radii**2)[kept]
    return Summary(points[kept], found.counts[kept], spreads, threshold, found.count_error)


def level_shares(levels: int) -> F64:
    """The shares of the levels in a budget. They grow, since deep nodes have few rows."""
    weights = np.power(GROWTH, np.arange(levels, dtype=np.float64))
    return np.asarray(weights / weights.sum())


def depth(rows: float, axes: int, k: int, error: Callable[[float], float]) -> int:
    """The number of levels: until there are enough leaves for k centres, or leaves are too small.

    Leaves are too small if one with eight times the mean count could not be cut again. `error` is
    the error of a count at a level with a given share of the budget of the levels.
    """
    levels, rule = 1, rules(axes)
    while rule.cuts * levels < math.log2(rule.leaves * k):
        heavy = 8 * rows / 2 ** (rule.cuts * (levels + 1))
        if heavy < rule.cut * error(float(level_shares(levels + 1)[-1])):
            break
        levels += 1
    return levels


def _cut(members: Secret[Members], nodes: Nodes, level: int, measure: Measure) -> Nodes:
    """The nodes of the next level. The rows of `members` move to them."""
    rule = rules(nodes.centers.shape[1])
    opened = np.flatnonzero(nodes.open)
    before = nodes.take(opened)
    balls, numbers, far = before.balls, _numbers(opened, len(nodes)), level < rule.far_levels
    found = measure(members.map(lambda of: of.chosen(numbers, balls, inside=far)), balls, level)
    clear = np.flatnonzero((found.counts > rule.cut * found.count_error) | (level == 0))

    cut, closed = opened[clear], np.zeros(len(nodes), dtype=bool)
    nodes = replace(nodes, open=closed).put(cut, _update(before, found, balls).take(clear))
    if far:
        moved, first = _numbers(clear, len(opened)), len(nodes)
        members.map(lambda of: of.move_far(moved, first))
        nodes = nodes.append(_far_children(before.take(clear), balls.radii[clear], rule.wide))
    for _ in range(rule.cuts):
        first = len(nodes)
        nodes = _halve(members, nodes, cut)
        cut = np.concatenate([cut, np.arange(first, len(nodes))])
    return nodes


def _halve(members: Secret[Members], nodes: Nodes, which: I64) -> Nodes:
    """These nodes become their left children; their right children are appended, in order."""
    parents = nodes.take(which)
    axis = np.argmax(parents.variances, axis=1)
    left, right = _halves(parents, axis)
    numbers = _numbers(which, len(nodes))
    members.map(lambda of: of.move_right(numbers, axis, left.high, len(nodes)))
    return nodes.put(which, left).append(right)


def _numbers(which: I64, size: int) -> Labels:
    """A table with 0, 1, ... at `which` and -1 elsewhere, also at index -1."""
    numbers = np.full(size + 1, -1, dtype=np.int32)
    numbers[which] = np.arange(len(which))
    return numbers


def _update(nodes: Nodes, found: Moments, balls: Balls) -> Nodes:
    """The nodes with measured centres and variances, combined with the guessed variances."""
    means, radii = _shrunken_means(found), balls.radii[:, None]
    error = found.square_error / np.maximum(found.counts, 1.0)[:, None]
    variances = _combine(found.squares - means**2, nodes.variances / radii**2, error)
    centers = np.clip(nodes.centers + means * radii, nodes.low, nodes.high)
    return replace(nodes, centers=centers, variances=variances * radii**2)


def _shrunken_means(found: Moments) -> F64:
    by = np.maximum(found.counts, 1.0)[:, None]
    return shrink(found.means, found.means.shape[1] * (found.sum_error / by) ** 2)


def _combine(measured: F64, guess: F64, error: F64) -> F64:
    """A measured variance and a guess with an error of half of it, weighted by precision."""
    measured, doubt = np.maximum(measured, 0.02 * guess), (guess / 2) ** 2
    return np.asarray((measured * doubt + guess * error**2) / (doubt + error**2))


def _halves(nodes: Nodes, axis: I64) -> tuple[Nodes, Nodes]:
    """The halves below and above the centre on an axis, with guessed moments."""
    at = (np.arange(len(nodes)), axis)
    cut = nodes.centers[at]
    off = np.zeros_like(nodes.centers)
    off[at] = HALF_MEAN * np.sqrt(nodes.variances[at])
    variances = nodes.variances.copy()
    variances[at] *= HALF_VARIANCE
    low, high = nodes.low.copy(), nodes.high.copy()
    low[at] = high[at] = cut
    yes = np.ones(len(nodes), dtype=bool)
    below = np.clip(nodes.centers - off, nodes.low, high)
    above = np.clip(nodes.centers + off, low, nodes.high)
    left = Nodes(below, variances, nodes.low, high, yes, nodes.largest)
    right = Nodes(above, variances, low, nodes.high, yes, nodes.largest)
    return left, right


def _far_children(nodes: Nodes, radii: F64, wide: float) -> Nodes:
    """Children for the rows outside the balls of nodes; closed if there can be none."""
    p, reach = nodes.centers.shape[1], nodes.reach
    variances = np.repeat(reach[:, None] ** 2 / (wide**2 * p), p, axis=1)
    return replace(nodes, variances=variances, open=reach > 1.01 * radii)
