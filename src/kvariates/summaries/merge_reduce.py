"""The summaries of a stream, and the one that most of them are: merge and reduce.

    rows fill a leaf; a full leaf is reduced to one bucket of level 0
    `fan_in` buckets of a level are joined and reduced to one bucket of the next level

n rows need about log(n / size) levels, and every row takes part in one reduction a level. Two
summaries are merged by adding up their buckets level by level, as digits of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import RowBlocks
from kvariates.summaries.coreset import coreset, kmeans_sharp, lightweight
from kvariates.summaries.reservoir import Reservoir
from kvariates.summaries.weighted_points import (
    Reduction,
    State,
    StreamSummary,
    SummaryOptions,
    WeightedPoints,
)
from kvariates.tables import Entry, Table

FAN_IN = 8  # a reduction to an eighth; larger leaves hardly lower the cost
LEAF_BYTES = 2**27
# Buckets are larger than the summary, so that the reductions before the last one hardly count.
LARGER, BUCKET_BYTES = 4, 2**24


class MergeReduce:
    """The tree of buckets."""

    def __init__(self, options: SummaryOptions, reduction: Reduction) -> None:
        self._options, self._reduction = options, reduction
        self._levels: list[list[WeightedPoints]] = []
        self._leaf: RowBuffer | None = None  # made when the features are known
        # New memory for every leaf would cost as much as copying the rows into it. A leaf that was
        # reduced is used again after the next `copy`: until then, the copy before may need it.
        self._reduced: RowBuffer | None = None
        self._spare: RowBuffer | None = None

    def add(self, rows: WeightedPoints, rng: np.random.Generator) -> None:
        if self._leaf is None:
            self._leaf = RowBuffer.for_rows(rows.points, self._options.size)
        first = 0
        while first < rows.n:
            leaf = self._leaf
            part = slice(first, first + leaf.capacity - leaf.n)
            piece = WeightedPoints(rows.points[part], rows.weights[part])
            first += piece.n
            if piece.n == leaf.capacity:
                self._push(piece, rng)  # a whole leaf need not be copied
            else:
                leaf.add(piece)
                if leaf.n == leaf.capacity:
                    self._push(leaf.rows(), rng)
                    self._leaf, self._spare, self._reduced = self._empty_leaf(), None, leaf

    def merge(self, other: MergeReduce, rng: np.random.Generator) -> None:
        for level, buckets in enumerate(other._levels):
            self._level(level).extend(buckets)
        if other._leaf is None:
            return
        if self._leaf is None:
            self._leaf = other._leaf.empty_copy()
        self._carry(rng)
        self.add(other._leaf.rows(), rng)

    def points(self, rng: np.random.Generator) -> WeightedPoints:
        return self._reduction(WeightedPoints.joined(self._parts()), self._options, rng)

    def rescale(self, factor: float) -> None:
        self._levels = [[bucket.scaled(factor) for bucket in level] for level in self._levels]
        if self._leaf is not None:
            rows = self._leaf.rows().scaled(factor)
            self._leaf = self._leaf.empty_copy()
            self._leaf.add(rows)

    def copy(self) -> MergeReduce:
        copy = MergeReduce(self._options, self._reduction)
        copy._levels = [list(level) for level in self._levels]
        copy._leaf = None if self._leaf is None else self._leaf.copy()
        copy._spare = self._reduced or self._spare
        return copy

    def to_dict(self) -> State:
        levels = [[bucket.to_dict() for bucket in level] for level in self._levels]
        leaf = None if self._leaf is None else self._leaf.to_dict()
        return {"levels": levels, "leaf": leaf}

    def restore(self, state: State) -> None:
        self._levels = [
            [WeightedPoints.from_dict(bucket) for bucket in level] for level in state["levels"]
        ]
        if state["leaf"] is not None:
            self._leaf = RowBuffer.from_dict(state["leaf"], self._options.size)

    def _parts(self) -> list[WeightedPoints]:
        leaf = [] if self._leaf is None else [self._leaf.rows()]
        return [bucket for level in self._levels for bucket in level] + leaf

    def _level(self, level: int) -> list[WeightedPoints]:
        while len(self._levels) <= level:
            self._levels.append([])
        return self._levels[level]

    def _push(self, leaf: WeightedPoints, rng: np.random.Generator) -> None:
        self._level(0).append(self._reduction(leaf, self._bucket_options, rng))
        self._carry(rng)

    @property
    def _bucket_options(self) -> SummaryOptions:
        assert self._leaf is not None  # noqa: S101
        return replace(self._options, size=self._leaf.bucket)

    def _empty_leaf(self) -> RowBuffer:
        """A leaf in the spare memory, or in new memory."""
        assert self._leaf is not None  # noqa: S101
        return self._leaf.empty_copy() if self._spare is None else self._spare.emptied()

    def _carry(self, rng: np.random.Generator) -> None:
        """Reduce the buckets of every level that has enough of them."""
        assert self._leaf is not None  # noqa: S101
        fan_in, level = self._leaf.capacity // self._leaf.bucket, 0
        while level < len(self._levels):
            buckets = self._levels[level]
            while len(buckets) >= fan_in:
                full = self._spare = self._empty_leaf()
                for bucket in buckets[:fan_in]:
                    full.add(bucket)
                del buckets[:fan_in]
                reduced = self._reduction(full.rows(), self._bucket_options, rng)
                self._level(level + 1).append(reduced)
            level += 1


class RowBuffer:
    """Room for the rows of a leaf, which is reduced to a bucket. Dense rows are copied."""

    def __init__(self, like: Any, bucket: int, fan_in: int) -> None:
        self.n, self.bucket, self.capacity = 0, bucket, bucket * fan_in
        capacity = self.capacity
        self._like = like[:0].copy()
        self._sparse: list[WeightedPoints] | None = [] if sparse.issparse(like) else None
        self._weights = np.empty(capacity)
        if self._sparse is None:
            self._points = np.empty((capacity, like.shape[1]), dtype=like.dtype)

    @classmethod
    def for_rows(cls, X: Any, size: int) -> RowBuffer:
        """A leaf for rows like these: a multiple of `size` that depends on features and dtype."""
        larger, fan_in = LARGER, FAN_IN
        if not sparse.issparse(X):
            n_bytes = size * X.shape[1] * X.dtype.itemsize
            larger = max(1, min(LARGER, BUCKET_BYTES // n_bytes))
            fan_in = max(2, min(FAN_IN, LEAF_BYTES // (larger * n_bytes)))
        return cls(X, larger * size, fan_in)

    def add(self, rows: WeightedPoints) -> None:
        """Pre: there is room."""
        if self._sparse is not None:
            self._sparse.append(rows.take(slice(None)))
        else:
            self._points[self.n : self.n + rows.n] = rows.points
            self._weights[self.n : self.n + rows.n] = rows.weights
        self.n += rows.n

    def rows(self) -> WeightedPoints:
        """Without a copy."""
        if self._sparse is not None:
            self._sparse = [WeightedPoints.joined([_none(self._like), *self._sparse])]
            return self._sparse[0]
        return WeightedPoints(self._points[: self.n], self._weights[: self.n])

    def copy(self) -> RowBuffer:
        """Shares the memory, which is only written behind the rows; one of both may be used on."""
        copy = object.__new__(RowBuffer)
        copy.__dict__.update(self.__dict__)
        copy._sparse = None if self._sparse is None else list(self._sparse)
        return copy

    def emptied(self) -> RowBuffer:
        """Without rows, in the same memory."""
        copy = self.copy()
        copy.n, copy._sparse = 0, None if self._sparse is None else []
        return copy

    def empty_copy(self) -> RowBuffer:
        return RowBuffer(self._like, self.bucket, self.capacity // self.bucket)

    def to_dict(self) -> State:
        return self.rows().take(slice(None)).to_dict()

    @classmethod
    def from_dict(cls, state: State, size: int) -> RowBuffer:
        rows = WeightedPoints.from_dict(state)
        buffer = cls.for_rows(rows.points, size)
        buffer.add(rows)
        return buffer


def _none(like: Any) -> WeightedPoints:
    return WeightedPoints(like, np.empty(0))


def summarize(blocks: RowBlocks, size: int, k: int, rng: np.random.Generator) -> WeightedPoints:
    """A coreset of at most `size` of the rows, for k clusters, in one pass. Pre: any row."""
    summary = MergeReduce(SummaryOptions(size, k), coreset)
    for block in blocks:
        summary.add(WeightedPoints.of(block.X, block.weight), rng)
    return summary.points(rng)


MakeSummary = Callable[[SummaryOptions], StreamSummary]

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
