"""Queries: what a private release is made from, and how far one row moves it.

| constructor | what is released | one row moves it by (add-remove; replace-one) |
|---|---|---|
| `count_query` | noisy counts of disjoint cells | l1: 1; 2. l2: 1; sqrt 2 |
| `total_query` | one noisy count | 1; 1, or as `count_query` in a parallel group |
| `sum_query` | noisy sums of rows on a lattice | the largest norm in its ball; twice that |
| `capped_sum_query` | one noisy sum of integers between 0 and a cap | the cap; the cap |
| `score_query` | the index of a high score | the range of the changes of the scores |
| `histogram_query` | the cells with a noisy count above a threshold | as `count_query` |

A query is made of exact values and must not be shown. `mechanisms.release` answers it. The pages in
`proofs/` show why each bound holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kvariates.data.lattice_rows import Adjacency, Lattice
from kvariates.numerics.draws import F64, I64
from kvariates.privacy.empty_cells import Passing, TailLaw, sample_passing
from kvariates.privacy.noise_source import LARGEST, Calibrated

T = TypeVar("T")

SCORE_STEPS = 2**20  # the sensitivity of a score is at least so many steps of its rounding


@dataclass(frozen=True)
class CellCounts:
    """The sensitivity of counts. A replaced row moves `replaced` of them by one each."""

    replaced: int = 2
    step: float = 1.0

    def l1(self, adjacency: Adjacency) -> int:
        return 1 if adjacency == "add-remove" else self.replaced

    def l2_squared(self, adjacency: Adjacency) -> int:
        return self.l1(adjacency)


@dataclass(frozen=True)
class CappedSum:
    """The sensitivity of one sum of integers in 0..most, of one for each row.

    A replaced row moves it by the difference of two such integers, which is not more.
    """

    most: int
    step: float

    def l1(self, adjacency: Adjacency) -> int:
        return self.most

    def l2_squared(self, adjacency: Adjacency) -> int:
        return self.most**2


@dataclass(frozen=True)
class Scores:
    """The sensitivity of scores.

    sensitivity : how much one more row changes any score, at most.
    monotone : one more row moves all scores up, or all down. (Costs that add up do: give -cost.)
    error : how far a score may be from its exact value, if it was rounded.
    """

    sensitivity: float
    monotone: bool
    error: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.sensitivity < math.inf or not 0 <= self.error < math.inf:
            raise ValueError("sensitivity must be a number > 0, and error a number >= 0.")

    @property
    def step(self) -> float:
        """Scores are rounded down to multiples of this power of two."""
        return math.ldexp(1.0, math.frexp(self.sensitivity)[1] - 1) / SCORE_STEPS

    def range(self, adjacency: Adjacency) -> int:
        """The range, in steps, of the changes of rounded scores between neighbours.

        A change in [low, high] becomes one in [floor(low), ceil(high)]. A constant added to all
        scores changes nothing, so only the range counts.
        """
        low, high = Fraction(0 if self.monotone else -self.sensitivity), Fraction(self.sensitivity)
        if adjacency == "replace-one":
            low, high = low - high, high - low
        slack, step = 2 * Fraction(self.error), Fraction(self.step)
        return math.ceil((high + slack) / step) - math.floor((low - slack) / step)


@dataclass(frozen=True, eq=False)
class Query(Generic[T]):
    """What a release is made from.

    values : the exact integers, in steps of the sensitivity. Secret.
    sensitivity : how far one row moves them; the norm is l1 for an epsilon, l2 for a rho.
    adjacency : which data sets are neighbours.
    change : how the summed or compared elements change between neighbours, if not as rows do: one
        row more may replace an element by another, for example the result of a block of rows.
    label : the name of the release in the ledger.
    answer : from the noise and the values to what is released.
    parallel : why this and other queries of the same group are about disjoint rows, or None.
    """

    values: I64 = field(repr=False)
    sensitivity: CellCounts | CappedSum | Lattice | Scores
    adjacency: Adjacency
    label: str
    answer: Callable[[Calibrated, I64], T] = field(repr=False)
    parallel: str | None = None
    change: Adjacency | None = None


# proof: counts.md
def count_query(counts: ArrayLike, adjacency: Adjacency, label: str) -> Query[I64]:
    """Counts of disjoint cells: every row is in one cell at most.

    Empty cells count too: give all of them, or use `histogram_query`.
    """
    return Query(_integers(counts), CellCounts(), adjacency, label, add_noise)


# proof: counts.md
def total_query(
    count: int, adjacency: Adjacency, label: str, parallel: str | None = None
) -> Query[int]:
    """One count. A replaced row moves it by 1; in a parallel group it may move two counts."""
    moved = CellCounts(1 if parallel is None else 2)
    return Query(_integers([count]), moved, adjacency, label, _one, parallel)


# proof: sums.md
def sum_query(
    sums: ArrayLike,
    lattice: Lattice,
    adjacency: Adjacency,
    label: str,
    change: Adjacency | None = None,
) -> Query[F64]:
    """Sums (.., d) of rows that `quantize` put on the lattice; a row is in one sum at most."""
    steps = lattice.steps(np.asarray(sums, dtype=np.float64))
    if steps.ndim == 0 or steps.shape[-1] != lattice.d:
        raise ValueError(f"sums must have {lattice.d} columns; their shape is {steps.shape}.")

    def answer(noise: Calibrated, values: I64) -> F64:
        return np.asarray(add_noise(noise, values) * lattice.step)

    return Query(steps, lattice, adjacency, label, answer, change=change)


def capped_sum_query(
    total: int, sensitivity: CappedSum, adjacency: Adjacency, label: str
) -> Query[int]:
    """One sum of integers in 0..most, one for each row, in steps of the sensitivity."""
    return Query(_integers([total]), sensitivity, adjacency, label, _one)


# proof: choose.md
def score_query(
    scores: ArrayLike,
    sensitivity: Scores,
    adjacency: Adjacency,
    label: str,
    change: Adjacency | None = None,
    parallel: str | None = None,
) -> Query[int]:
    """The index of a high score; the higher a score, the likelier its index.

    The scale is sensitivity / epsilon for monotone scores under add-remove, twice that if one of
    the two does not hold, four times that if neither does. With rho the law is P(i) ~ exp(score /
    scale); with epsilon it is permute-and-flip, of the same cost and never less useful.
    """
    steps = score_steps(scores, sensitivity.step)

    def answer(noise: Calibrated, values: I64) -> int:
        return int(noise(values))

    return Query(steps, sensitivity, adjacency, label, answer, parallel, change)


@dataclass(frozen=True, eq=False)
class Histogram:
    """The occupied cells of a public set of cells 0 .. number - 1, ascending, and their counts."""

    cells: I64
    counts: I64
    number: int


# proof: empty_cells.md
def histogram_query(
    histogram: Histogram, threshold: float, adjacency: Adjacency, label: str
) -> Query[Passing]:
    """The cells with a noisy count above a public threshold, and these counts.

    It has the law of `count_query` on all cells, empty ones too, of which only those above the
    threshold are looked at; but takes time in proportion to the occupied and passing cells.
    """
    answer = partial(_cells_above, histogram, threshold)
    return Query(_integers(histogram.counts), CellCounts(), adjacency, label, answer)


def add_noise(noise: Calibrated, values: I64) -> I64:
    """Values with noise, each independent."""
    flat = noise(values.ravel()) if values.size else []
    return np.array(flat, dtype=np.int64).reshape(values.shape)


def _one(noise: Calibrated, values: I64) -> int:
    return int(add_noise(noise, values)[0])


def score_steps(scores: ArrayLike, step: float) -> I64:
    """Scores divided by the step, a power of two, and rounded down."""
    raw = np.asarray(scores, dtype=np.float64)
    if raw.ndim != 1 or not len(raw) or not np.isfinite(raw).all():
        raise ValueError("scores must be a list of finite numbers, at least one.")
    with np.errstate(over="ignore", under="ignore"):
        quotients = np.floor(raw / step)
    quotients[(raw < 0) & (quotients == 0)] = -1.0  # where the division underflowed
    # Clipping does not move the scores of neighbours further apart.
    return np.clip(quotients, -LARGEST, LARGEST).astype(np.int64)


def _cells_above(histogram: Histogram, threshold: float, noise: Calibrated, values: I64) -> Passing:
    """The cells that pass, occupied and empty ones merged, since which is which is secret."""
    noisy, occupied = add_noise(noise, values), histogram.cells
    above = np.flatnonzero(noisy > threshold)
    law: TailLaw = "laplace" if noise.law == "laplace" else "gaussian"
    empty = sample_passing(histogram.number - len(occupied), threshold, noise.scale, law=law)
    # The i-th empty cell is the i-th number that is not an occupied cell's.
    before = np.searchsorted(occupied - np.arange(len(occupied)), empty.cells, side="right")
    cells = np.concatenate([occupied[above], empty.cells + before])
    order = np.argsort(cells)
    return Passing(cells[order], np.concatenate([noisy[above], empty.counts])[order])


def _integers(values: ArrayLike) -> I64:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"counts must be integers; got {array.dtype}.")
    return array.astype(np.int64)
