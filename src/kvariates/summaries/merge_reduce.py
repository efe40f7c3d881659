"""The summaries of a stream: merge and reduce, a uniform sample, and the table of both.

A summary holds a bounded number of weighted points for any number of rows, all of the same features
and dtype. The result does not depend on how the rows are cut into batches. Its lists are replaced,
not changed, by `add` and `merge`: a shallow copy stays as it was.

**Merge and reduce.**

    rows fill a leaf; a full leaf is reduced to one bucket of level 0
    `fan_in` buckets of a level are joined and reduced to one bucket of the next level

n rows need about log(n / size) levels, and every row takes part in one reduction a level. Two
summaries are merged by adding up their buckets level by level, as digits of two numbers.

**A uniform sample, without replacement.** Every row gets an exponential key of rate weight, and the
rows of the smallest keys are kept. Their order is that of draws by weight without replacement
(Efraimidis and Spirakis 2006). A row of weight w has the smallest key as often as one of w equal
rows. The smallest keys of two reservoirs are those of one reservoir over both streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import RowBlocks
from kvariates.data.exact_sums import exact_total, from_float, to_float
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.numerics.elementary import expm1, log1p
from kvariates.summaries.weighted_points import (
    Reduction,
    State,
    SummaryOptions,
    WeightedPoints,
    coreset,
    kmeans_sharp,
    lightweight,
)
from kvariates.tables import Entry, Table

FAN_IN = 8  # a reduction to an eighth; larger leaves hardly lower the cost
LEAF_BYTES = 2**27
# Buckets are larger than the summary, so that the reductions before the last one hardly count.
LARGER, BUCKET_BYTES = 4, 2**24
MOST_PARTS = 256  # many small parts would take longer to copy than their rows


class MergeReduce:
    """The tree of buckets. A leaf and a bucket are multiples of `size`."""

    def __init__(self, options: SummaryOptions, reduction: Reduction) -> None:
        self._options, self._reduction = options, reduction
        self._levels: list[list[WeightedPoints]] = []
        self._leaf: list[WeightedPoints] = []  # its parts; one at least after the first rows

    def add(self, rows: WeightedPoints, rng: np.random.Generator) -> None:
        """Take in rows. They are copied."""
        self._levels = [list(level) for level in self._levels]
        self._leaf = self._leaf or [rows.take(slice(0))]
        first = 0
        while first < rows.n:
            room = math.prod(self._shape()) - sum(part.n for part in self._leaf)
            part = slice(first, first + room)
            piece = WeightedPoints(rows.points[part], rows.weights[part])
            first += piece.n
            if piece.n < room:
                self._leaf = [*self._leaf, piece.take(slice(None))]
                if len(self._leaf) > MOST_PARTS:
                    self._leaf = [WeightedPoints.joined(self._leaf)]
            else:
                leaf = WeightedPoints.joined([*self._leaf, piece])
                self._leaf = [leaf.take(slice(0))]
                self._push(0, leaf, rng)
                self._carry(rng)

    def merge(self, other: Any, rng: np.random.Generator) -> None:
        """Take in all that `other`, a summary of the same kind and options, has taken in."""
        pairs = zip_longest(self._levels, other._levels, fillvalue=())
        self._levels = [[*own, *others] for own, others in pairs]
        if other._leaf:
            leaf = WeightedPoints.joined(other._leaf)
            self._leaf = self._leaf or [leaf.take(slice(0))]
            self._carry(rng)
            self.add(leaf, rng)

    def points(self, rng: np.random.Generator) -> WeightedPoints:
        """At most `size` points for all rows so far. The summary does not change. Pre: any row."""
        parts = [bucket for level in self._levels for bucket in level] + self._leaf
        return self._reduction(WeightedPoints.joined(parts), self._options, rng)

    def rescale(self, factor: float) -> None:
        self._levels = [[bucket.scaled(factor) for bucket in level] for level in self._levels]
        self._leaf = [part.scaled(factor) for part in self._leaf]

    def to_dict(self) -> State:
        levels = [[bucket.to_dict() for bucket in level] for level in self._levels]
        leaf = WeightedPoints.joined(self._leaf).to_dict() if self._leaf else None
        return {"levels": levels, "leaf": leaf}

    def restore(self, state: State) -> None:
        """Continue from a state of `to_dict`. Pre: nothing was added."""
        self._levels = [
            [WeightedPoints.from_dict(bucket) for bucket in level] for level in state["levels"]
        ]
        leaf = state["leaf"]
        self._leaf = [] if leaf is None else [WeightedPoints.from_dict(leaf)]

    def _shape(self) -> tuple[int, int]:
        """The rows of a bucket, and the buckets of a leaf: fewer if rows are long."""
        X, size = self._leaf[0].points, self._options.size
        if sparse.issparse(X):
            return LARGER * size, FAN_IN
        n_bytes = size * X.shape[1] * X.dtype.itemsize
        larger = max(1, min(LARGER, BUCKET_BYTES // n_bytes))
        return larger * size, max(2, min(FAN_IN, LEAF_BYTES // (larger * n_bytes)))

    def _push(self, level: int, rows: WeightedPoints, rng: np.random.Generator) -> None:
        """Reduce rows to a bucket of a level."""
        if level == len(self._levels):
            self._levels.append([])
        bucket = replace(self._options, size=self._shape()[0])
        self._levels[level].append(self._reduction(rows, bucket, rng))

    def _carry(self, rng: np.random.Generator) -> None:
        """Reduce the buckets of every level that has enough of them."""
        fan_in, level = self._shape()[1], 0
        while level < len(self._levels):
            buckets = self._levels[level]
            while len(buckets) >= fan_in:
                joined = WeightedPoints.joined(buckets[:fan_in])
                del buckets[:fan_in]
                self._push(level + 1, joined, rng)
            level += 1


def summarize(blocks: RowBlocks, size: int, k: int, rng: np.random.Generator) -> WeightedPoints:
    """A coreset of at most `size` of the rows, for k clusters, in one pass. Pre: any row."""
    summary = MergeReduce(SummaryOptions(size, k), coreset)
    for block in blocks:
        summary.add(WeightedPoints.of(block.X, block.weight), rng)
    return summary.points(rng)


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """Rows, and the key of each."""

    rows: WeightedPoints
    keys: F64

    def scaled(self, factor: float) -> KeyedRows:
        """All weights times a factor. Rows whose weight vanishes are dropped."""
        rows = WeightedPoints(self.rows.points, self.rows.weights * factor)
        with np.errstate(over="ignore"):  # an infinite key is the largest one
            keys = self.keys / factor
        return KeyedRows(rows, keys).take(np.flatnonzero(rows.weights))

    def take(self, indices: I64) -> KeyedRows:
        return KeyedRows(self.rows.take(indices), self.keys[indices])


class Reservoir:
    """The `size` rows of the smallest keys. Between `add`s it holds up to twice as many."""

    def __init__(self, options: SummaryOptions) -> None:
        self._size = options.size
        self._parts: list[KeyedRows] = []
        self._dropped = np.inf  # the smallest key of a row that is not kept
        self._total = 0  # weight of all rows, exactly, in units of 2**-1074
        self._whole = True  # whether all weights are integers

    @property
    def complete(self) -> bool:
        """Whether every row is kept."""
        return not np.isfinite(self._dropped)

    def add(self, rows: WeightedPoints, rng: np.random.Generator) -> None:
        if not rows.n:
            return
        # E / weight is a key, E = -log(1 - u) being exponential. It is computed for few rows only.
        u = rng.random(rows.n)
        self._whole = self._whole and bool((rows.weights == np.rint(rows.weights)).all())
        self._total += exact_total(rows.weights)
        with np.errstate(over="ignore"):
            most = -expm1(-rows.weights.max() * self._dropped)
        perhaps = np.flatnonzero(u <= most)
        keys = -log1p(-u[perhaps]) / rows.weights[perhaps]
        small = keys < self._dropped
        self._append(KeyedRows(rows.take(perhaps[small]), keys[small]))

    def merge(self, other: Any, rng: np.random.Generator) -> None:
        self._total += other._total
        self._whole = self._whole and other._whole
        self._dropped = min(self._dropped, other._dropped)
        for part in other._parts:
            self._append(part)

    def points(self, rng: np.random.Generator) -> WeightedPoints:
        """The sample. Its weights add up to that of all rows.

        A row has its weight divided by its chance to be kept. These numbers are then scaled to the
        total, which changes nothing if all rows weigh the same. If all weights are integers, so
        are the new ones.
        """
        self._compact()
        rows = WeightedPoints.joined([part.rows for part in self._parts])
        if self.complete:
            return rows
        weights = rows.weights / -expm1(-rows.weights * self._dropped)
        total = to_float(self._total)
        weights *= total / weights.sum()
        if self._whole:
            weights = rounded_to_integers(weights, total, rng)
        return WeightedPoints(rows.points, weights).positive()

    def rescale(self, factor: float) -> None:
        self._total = from_float(to_float(self._total) * factor)
        self._dropped /= factor
        self._whole = False
        self._parts = [part.scaled(factor) for part in self._parts]

    def to_dict(self) -> State:
        self._compact()
        parts = [{**part.rows.to_dict(), "keys": part.keys} for part in self._parts]
        numbers = {"dropped": self._dropped, "total": self._total, "whole": self._whole}
        return {"parts": parts, **numbers}

    def restore(self, state: State) -> None:
        self._parts = [KeyedRows(WeightedPoints.from_dict(p), p["keys"]) for p in state["parts"]]
        self._dropped, self._total = state["dropped"], state["total"]
        self._whole = state["whole"]

    def _append(self, part: KeyedRows) -> None:
        self._parts = [*self._parts, part]
        held = sum(len(part.keys) for part in self._parts)
        if held > 2 * self._size or len(self._parts) > MOST_PARTS:
            self._compact()

    def _compact(self) -> None:
        """Keep the `size` rows of the smallest keys, in one part."""
        if not self._parts:
            return
        keys = np.concatenate([part.keys for part in self._parts])
        all_rows = KeyedRows(WeightedPoints.joined([part.rows for part in self._parts]), keys)
        if len(keys) > self._size:
            least = np.partition(keys, self._size)[self._size]
            self._dropped = min(self._dropped, float(least))
            all_rows = all_rows.take(np.sort(np.argpartition(keys, self._size)[: self._size]))
        self._parts = [all_rows]


def rounded_to_integers(weights: F64, total: float, rng: np.random.Generator) -> F64:
    """Integers that add up to the total, each a neighbour of its weight, and on average equal.

    Pre: the weights add up to the total, an integer.
    """
    ends = np.floor(np.cumsum(weights) + rng.random())
    ends[-1] = total
    return np.diff(ends, prepend=0.0)


MakeSummary = Callable[[SummaryOptions], MergeReduce | Reservoir]

UNBIASED = "Theorem 2"  # on the synopses; see `guarantees.streamed_seeding`


SYNOPSES: Table[MakeSummary] = Table(
    "synopsis",
    {
        "coreset": Entry(
            partial(MergeReduce, reduction=coreset),
            "Rows drawn by their share in the cost of a rough solution; the lowest cost.",
            theorem=UNBIASED,
        ),
        "lightweight": Entry(
            partial(MergeReduce, reduction=lightweight),
            "Rows drawn by their distance to the mean; faster than a coreset for many clusters.",
            theorem=UNBIASED,
        ),
        "reservoir": Entry(
            Reservoir,
            "A uniform sample of the rows; the fastest, but it can miss a small far cluster.",
            lost="if rows differ in weight, the weights of a sample are a little biased.",
        ),
        "k-means#": Entry(
            partial(MergeReduce, reduction=kmeans_sharp),
            "3 ln k rows in each of k rounds, drawn by D^2, in every part of the stream (Ailon et "
            "al. 2009).",
            lost="the weights of its synopses are biased: rows count for the nearest synopsis of "
            "their part of the stream.",
        ),
    },
)
