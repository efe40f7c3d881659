"""A partition of rows that adapts to where they are: a tree whose nodes know their rows' moments.

    level by level, every open node
        is seen in a frame: its guessed centre, and a radius around it
        is measured: how many rows, their mean, their variances, all in units of the frame
        is cut at the mean, across the axis of the largest variance, if it has enough rows; and
        its halves again, where their means are guessed to be: four children for one measure
        rows outside_radius its radius go to a fifth child (in the first levels, of many axes)

How a node is measured is an argument (`Measure`): with noise that was paid for, or exactly. Nothing
else is known of the rows, so that the leaves are as private as the measure. Errors of a measure are
in proportion to the frame's radius, which is why frames follow the rows and not the cells.

The leaves, each a mean with a count and a spread, are the summary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.lattice import Balls, outside_radius

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Labels = NDArray[np.int32]
Mask = NDArray[np.bool_]

FEW_AXES = 3
GROWTH = 1.2  # of a level's share of the budget, from one to the next
BLOCK = 1 << 20
HALF_MEAN, HALF_VARIANCE = 0.8, 0.4  # of half a Gaussian: its mean's offset, and its variance


@dataclass(frozen=True)
class Rules:
    """When to cut, and what to keep; in units of the error of a count."""

    clear: float  # rows of a node that is cut, at least
    least: float  # rows of a leaf that is kept, at least
    leaves: int  # enough for each centre
    wide: float  # a frame's radius in its rows' guessed deviations
    cuts: int  # in two, from one measure to the next
    far_levels: int  # in which rows outside_radius the frame go to a child of their own


# With few axes cells are small in all directions: frames may be wide, and small nodes still tell
# something. With many, a cell says little about where its rows are.
FEW = Rules(clear=12.0, least=2.75, leaves=1024, wide=6.0, cuts=2, far_levels=0)
MANY = Rules(clear=12.0, least=3.0, leaves=128, wide=3.0, cuts=2, far_levels=2)


def rules(axes: int) -> Rules:
    """Those for so many axes."""
    return FEW if axes <= FEW_AXES else MANY


@dataclass(frozen=True, eq=False)
class Moments:
    """Of every node: rows, means, mean squares, in units of its frame, with standard errors.

    The errors are those of totals: of a count, of a coordinate's sum, of a square's sum. Of leaves
    only the sum of all squares is asked for: one column.
    """

    counts: F64
    means: F64
    squares: F64
    errors: tuple[float, float, float]


# What the rows with these labels (negative: none) are like in these frames, asked at this level.
Measure = Callable[[Labels, Balls, int], Moments]


@dataclass(frozen=True, eq=False)
class Nodes:
    """All nodes so far; one that was halved lives on as its own left half."""

    centers: F64  # guessed or measured
    variances: F64
    low: F64  # corners of the cell
    high: F64
    open: Mask
    ball: float  # all rows are within this of the origin

    def __len__(self) -> int:
        return len(self.centers)

    @property
    def reach(self) -> F64:
        """How far from the centres their rows may be: to a corner, or across the ball."""
        apart = np.maximum(self.high - self.centers, self.centers - self.low)
        across = np.linalg.norm(self.centers, axis=1) + self.ball
        return np.asarray(np.minimum(np.linalg.norm(apart, axis=1), across))

    @property
    def frames(self) -> Balls:
        radii, wide = self.reach, rules(self.centers.shape[1]).wide
        radii = np.minimum(radii, wide * np.sqrt(self.variances.sum(axis=1)))
        return Balls(self.centers, np.maximum(radii, 1e-9 * radii.max(initial=1e-290)))

    def take(self, which: I64) -> Nodes:
        fields: dict[str, Any] = {name: getattr(self, name)[which] for name in FIELDS}
        return replace(self, **fields)

    def put(self, which: I64, others: Nodes) -> Nodes:
        """These nodes are replaced."""
        fields: dict[str, Any] = {name: getattr(self, name).copy() for name in FIELDS}
        for name, values in fields.items():
            values[which] = getattr(others, name)
        return replace(self, **fields)

    def joined(self, *more: Nodes) -> Nodes:
        parts = (self, *more)
        fields: dict[str, Any] = {
            name: np.concatenate([getattr(p, name) for p in parts]) for name in FIELDS
        }
        return replace(self, **fields)


FIELDS = ("centers", "variances", "low", "high", "open")


@dataclass(frozen=True, eq=False)
class Summary:
    points: F64
    weights: F64
    spreads: F64  # mean squared distances of the points' rows to them


def root(center: F64, variances: F64, low: F64, high: F64, ball: float) -> Nodes:
    """One node for all rows, which are between `low` and `high`, and in a ball of that radius."""
    at, yes = np.clip(center, low, high)[None], np.ones(1, dtype=bool)
    return Nodes(at, variances[None], low[None], high[None], yes, ball)


def summary(rows: F64, start: Nodes, levels: int, measure: Measure) -> Summary:
    """Cut `levels` times, then measure the leaves. Pre: `start` is one node."""
    nodes, labels = start, np.zeros(len(rows), dtype=np.int32)
    for level in range(levels):
        nodes = _cut(rows, labels, nodes, level, measure)
    frames = nodes.frames
    found = measure(labels, frames, levels)
    kept = found.counts > rules(rows.shape[1]).least * found.errors[0]
    means = _shrunken(found)
    points = np.clip(nodes.centers + means * frames.radii[:, None], nodes.low, nodes.high)
    spread = _blended(
        found.squares.sum(axis=1) - np.square(means).sum(axis=1),
        nodes.variances.sum(axis=1) / frames.radii**2,
        found.errors[2] / np.maximum(found.counts, 1.0),
    )
    return Summary(points[kept], found.counts[kept], (spread * frames.radii**2)[kept])


def shares(levels: int) -> F64:
    """Of the levels in a budget: deep nodes have few rows and want small errors."""
    weights = np.power(GROWTH, np.arange(levels, dtype=np.float64))
    return np.asarray(weights / weights.sum())


def depth(rows: float, axes: int, k: int, error: Callable[[float], float]) -> int:
    """Levels until leaves eight times as heavy as their mean could not be cut again, or enough.

    `error` is that of a count at a level with a given share of the levels' budget. Enough are some
    hundred leaves for each of k centres.
    """
    levels, rule = 1, rules(axes)
    while rule.cuts * levels < math.log2(rule.leaves * k):
        heavy = 8 * rows / 2 ** (rule.cuts * (levels + 1))
        if heavy < rule.clear * error(float(shares(levels + 1)[-1])):
            break
        levels += 1
    return levels


def _cut(rows: F64, labels: Labels, nodes: Nodes, level: int, measure: Measure) -> Nodes:
    """The nodes of the next level; `labels` are changed in place."""
    rule = rules(rows.shape[1])
    opened = np.flatnonzero(nodes.open)
    before = nodes.take(opened)
    frames = before.frames
    seen = _numbers(opened, len(nodes))[labels]
    outside = level < rule.far_levels
    far = (
        np.flatnonzero(outside_radius(rows, seen, frames))
        if outside
        else np.empty(0, dtype=np.int64)
    )
    own = seen[far]
    seen[far] = -1
    found = measure(seen, frames, level)
    clear = np.flatnonzero((found.counts > rule.clear * found.errors[0]) | (level == 0))

    cut, still = opened[clear], np.zeros(len(nodes), dtype=bool)
    nodes = replace(nodes, open=still).put(cut, _learnt(before, found, frames).take(clear))
    if outside:
        gone = _numbers(clear, len(opened))[own]
        labels[far[gone >= 0]] = len(nodes) + gone[gone >= 0]
        nodes = nodes.joined(_around(before.take(clear), frames.radii[clear], rule.wide))
    for _ in range(rule.cuts):
        first = len(nodes)
        nodes = _halved(rows, labels, nodes, cut)
        cut = np.concatenate([cut, np.arange(first, len(nodes))])
    return nodes


def _halved(rows: F64, labels: Labels, nodes: Nodes, which: I64) -> Nodes:
    """These nodes become their own left children; their right ones come last, in order."""
    parents = nodes.take(which)
    axis = np.argmax(parents.variances, axis=1)
    left, right = _halves(parents, axis)
    _move_right(rows, labels, _numbers(which, len(nodes))[labels], axis, left.high, len(nodes))
    return nodes.put(which, left).joined(right)


def _numbers(which: I64, size: int) -> Labels:
    """0, 1, ... for these, -1 for the others, and for -1."""
    numbers = np.full(size + 1, -1, dtype=np.int32)
    numbers[which] = np.arange(len(which))
    return numbers


def _learnt(nodes: Nodes, found: Moments, frames: Balls) -> Nodes:
    """Centres and variances as measured, as far as the measure is better than the guess."""
    means, radii = _shrunken(found), frames.radii[:, None]
    error = found.errors[2] / np.maximum(found.counts, 1.0)[:, None]
    variances = _blended(found.squares - means**2, nodes.variances / radii**2, error)
    centers = np.clip(nodes.centers + means * radii, nodes.low, nodes.high)
    return replace(nodes, centers=centers, variances=variances * radii**2)


def _shrunken(found: Moments) -> F64:
    """Means, less what their errors are likely to have added to their length."""
    by = np.maximum(found.counts, 1.0)[:, None]
    squares = np.einsum("ij,ij->i", found.means, found.means)[:, None]
    added = found.means.shape[1] * (found.errors[1] / by) ** 2
    return np.asarray(found.means * np.maximum(0.0, 1 - added / np.maximum(squares, 1e-300)))


def _blended(own: F64, guess: F64, error: F64) -> F64:
    """A measured variance and a guess that may be off by half of it, by their precisions."""
    own, doubt = np.maximum(own, 0.02 * guess), (guess / 2) ** 2
    return np.asarray((own * doubt + guess * error**2) / (doubt + error**2))


def _halves(nodes: Nodes, axis: I64) -> tuple[Nodes, Nodes]:
    """What is below the centre on this axis, and what is above, with guessed moments."""
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
    left = Nodes(below, variances, nodes.low, high, yes, nodes.ball)
    right = Nodes(above, variances, low, nodes.high, yes, nodes.ball)
    return left, right


def _around(nodes: Nodes, radii: F64, wide: float) -> Nodes:
    """What is in these cells but outside_radius their frames; closed where nothing can be."""
    p, reach = nodes.centers.shape[1], nodes.reach
    variances = np.repeat(reach[:, None] ** 2 / (wide**2 * p), p, axis=1)
    return replace(nodes, variances=variances, open=reach > 1.01 * radii)


def _move_right(
    rows: F64, labels: Labels, parent: Labels, axis: I64, high: F64, first: int
) -> None:
    """Rows above their parent's cut get its right child, of which the numbers begin at `first`."""
    cut = high[np.arange(len(axis)), axis]
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        inside = np.flatnonzero(parent[block] >= 0)
        own = parent[block][inside]
        above = rows[block][inside, axis[own]] > cut[own]
        labels[block][inside[above]] = first + own[above]
