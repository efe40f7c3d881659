"""Rows on a card: a dense array and what is asked of all rows once a fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.cuda.card import Card, CardArray
from kvariates.data.exact_sums import LIMBS, ExactSums, exact_total_of_pieces, exponent_of, to_float
from kvariates.data.rows import F64, NARROWEST, OVERFLOW, VANISH, WIDEST
from kvariates.numerics.draws import I64

FILE, BLOCK = "rows.cu", 256
TYPES = {"float16": "half_t", "float32": "float", "float64": "double"}
MOST_COUNTERS = 48 * 1024  # bytes of shared memory, for the counts of labels
BIN_BYTES = 4 * 4 * 2048  # of shared memory, for the pieces of exact sums


def defines_of(rows: CardArray) -> dict[str, Any]:
    """The macros of kernels that read rows."""
    small = {"SMALL_REAL": 1} if rows.dtype == np.float16 else {}
    return {"REAL": TYPES[rows.dtype.name], **small}


def blocks_for(card: Card, threads: int, each: int = BLOCK) -> int:
    """Blocks for so many threads, at most what the card runs at once a few times over."""
    return max(1, min(-(-threads // each), 16 * int(card.processors)))


@dataclass(frozen=True, eq=False)
class CardRows:
    """n rows of d features on a card. Pre: finite (see `bad_row`)."""

    card: Card
    X: CardArray

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows, or float32 if they are of float16."""
        return np.dtype(np.float32) if self.X.dtype == np.float16 else self.X.dtype

    def run(self, name: str, threads: int, *args: Any, shared: int = 0) -> None:
        grid, defines = blocks_for(self.card, threads), defines_of(self.X)
        self.card.run(FILE, name, grid, BLOCK, *args, shared=shared, defines=defines)

    # -- once a fit --------------------------------------------------------------------------------

    @cached_property
    def _found(self) -> tuple[float, float, int]:
        words = np.array([0, 2**64 - 1, self.n], dtype=np.uint64)
        found = self.card.put(words)
        self.run("inspect", self.n * self.d, self.X, self.n, self.d, found)
        largest, smallest, bad = found.get()
        some = smallest != words[1]
        values = np.array([largest, smallest if some else 0], dtype=np.uint64).view(np.float64)
        return float(values[0]), float(values[1]) if some else np.inf, int(bad)

    @property
    def magnitudes(self) -> tuple[float, float]:
        """The largest absolute value, and the smallest that is not zero (infinity if none is)."""
        return self._found[:2]

    @property
    def bad_row(self) -> int | None:
        """The first row with NaN or infinity."""
        return self._found[2] if self._found[2] < self.n else None

    def unit(self) -> tuple[CardRows, int | None]:
        """The rows scaled to length one, and the first row of zeros, which has no direction."""
        out, zero = (
            self.card.empty(self.X.shape, self.X.dtype),
            self.card.put(np.array([self.n], dtype=np.uint64)),
        )
        self.run("unit_rows", 16 * self.n, self.X, self.n, self.d, out, zero)
        first = int(zero.get()[0])
        return CardRows(self.card, out), first if first < self.n else None

    def spread(self) -> float:
        """As `Rows.spread`."""
        mean = self._column_sums().values / self.n
        cost = self.costs(self.card.put(mean), None)
        spread = rounded_total(self.exact_total(cost, None)) / (self.n * self.d)
        if not spread < WIDEST:
            raise ValueError(OVERFLOW)
        if spread < NARROWEST and self._varies():
            raise ValueError(VANISH)
        return spread

    def _column_sums(self) -> ExactSums:
        exponent = exponent_of(self.magnitudes[0])
        limbs = self.card.zeros((LIMBS, self.d), np.int64)
        grid = blocks_for(self.card, self.n * self.d)
        grid = max(grid, -(-self.d // BLOCK))
        step = grid * BLOCK // self.d
        args = self.X, self.n, self.d, step, exponent, limbs
        self.card.run(FILE, "column_sums", grid, BLOCK, *args, defines=defines_of(self.X))
        return ExactSums(limbs.get().reshape(1, 1, LIMBS, self.d), exponent)

    def _varies(self) -> bool:
        rows = self.X.get()
        return bool((rows != rows[0]).any())

    # -- for centres -------------------------------------------------------------------------------

    def take(self, indices: I64) -> CardArray:
        """The rows at `indices` in float64."""
        at = self.card.put(np.ascontiguousarray(indices, dtype=np.int64))
        out = self.card.empty((len(indices), self.d), np.float64)
        self.run("take", len(indices) * self.d, self.X, self.d, at, len(indices), out)
        return out

    def costs(self, centers: CardArray, labels: CardArray | None) -> CardArray:
        """Squared distance of every row to the centre it is labelled with (None: the first)."""
        cost = self.card.empty(self.n, np.float64)
        threads = self.n if self.d < 16 else 16 * self.n
        self.run("measure", threads, self.X, self.n, self.d, centers, labels, cost)
        return cost

    def distances(self, centers: CardArray, *, squared: bool) -> CardArray:
        k = len(centers)
        out = self.card.empty((self.n, k), self.dtype)
        self.run("distances", self.n * k, self.X, self.n, self.d, centers, k, int(squared), out)
        return out

    def exact_total(self, terms: CardArray, weight: CardArray | None) -> int | None:
        """Sum of (weighted) terms that are not negative, in units of 2**-1074; None if infinite."""
        total = ExactTotal(self.card)
        total.add(self, terms, weight)
        return total.value

    def total_cost(self, cost: CardArray, weight: CardArray | None) -> float:
        """As `data.rows.total_cost`."""
        return rounded_total(self.exact_total(cost, weight))

    def no_labels(self) -> CardArray:
        """An array of labels that are -1."""
        labels = self.card.empty(self.n, np.int32)
        self.run("no_labels", self.n, labels, self.n)
        return labels

    def counts(self, labels: CardArray, k: int) -> NDArray[np.int64]:
        counts = self.card.zeros(k, np.int64)
        self.add_counts(labels, counts)
        return counts.get()

    def add_counts(self, labels: CardArray, counts: CardArray) -> None:
        """Add the rows of each label to `counts`."""
        k = len(counts)
        own = 4 * k if 4 * k <= MOST_COUNTERS else 0
        self.run("count_labels", self.n, labels, self.n, k, own, counts, shared=own)


class ExactTotal:
    """An exact sum of terms that are not negative, and may be those of several `CardRows`."""

    def __init__(self, card: Card) -> None:
        self._pieces = card.zeros((2048, 4), np.int64)

    def add(self, rows: CardRows, terms: CardArray, weight: CardArray | None) -> None:
        rows.run("exact_bins", rows.n, terms, weight, rows.n, self._pieces, shared=BIN_BYTES)

    @property
    def value(self) -> int | None:
        """In units of 2**-1074; None if infinite."""
        return exact_total_of_pieces(self._pieces.get())


def rounded_total(total: int | None) -> float:
    """In float64."""
    try:
        return np.inf if total is None else to_float(total)
    except OverflowError:
        return np.inf


def upload(card: Card, values: F64 | None) -> CardArray | None:
    """A copy on the card, if there are values."""
    return None if values is None else card.put(np.ascontiguousarray(values, dtype=np.float64))
