"""Noise on integers, each release with its charge.

| released | one row moves it by (add-remove; replace-one) |
|---|---|
| `counts` of disjoint cells | l1: 1; 2. l2: 1; sqrt 2 |
| `scalar`, one count | 1; 1, or as `counts` in a parallel group |
| `sums` of rows on a grid | the largest l1 or l2 norm in the grid's ball; twice that |
| `choose`, the best of some scores | the range of the scores' changes |
| `cells_above` a threshold | as `counts`; empty cells are sampled by number |

For epsilon (pure) the noise is discrete Laplace, for rho (zCDP) discrete Gaussian; `choose` is
permute-and-flip for epsilon and the exponential mechanism for rho.
Every function takes one of the two and returns (value, Charge). The charge's cost is what
OpenDP's privacy map says of the mechanism that ran: never above what was asked for, and a few units
in the last place below it. Pages in `proofs/` say why each bound holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvariates.data.lattice import F64, Lattice, quantize
from kvariates.privacy.empty_cells import Passing, empty_cells
from kvariates.privacy.ledger import Adjacency, Charge, Norm
from kvariates.privacy.noise_source import (
    _REPEATABLE_NOISE_FOR_TESTS_ONLY,
    LARGEST,
    Calibrated,
    Law,
    calibrated,
)
from kvariates.privacy.rounding import root_up, up

__all__ = [
    "_REPEATABLE_NOISE_FOR_TESTS_ONLY",
    "Above",
    "Lattice",
    "Passing",
    "cells_above",
    "choose",
    "counts",
    "empty_cells",
    "quantize",
    "scalar",
    "sums",
]

I64 = NDArray[np.int64]
SCORE_STEPS = 2**20  # a score's sensitivity is at least so many steps of its grid


@dataclass(frozen=True)
class Above:
    """The cells of a histogram whose noisy counts are above a threshold.

    Merge the two kinds before anything is shown or decided: that a cell which passed is occupied
    was not paid for.
    """

    occupied: I64  # which of the counts that were given
    occupied_counts: I64
    empty: Passing  # which of the empty cells, by number, and their counts


def counts(
    values: ArrayLike,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    adjacency: Adjacency,
    label: str,
    parallel: str | None = None,
) -> tuple[I64, Charge]:
    """Noisy counts of disjoint cells: every row is counted in one cell at most.

    Empty cells are cells: give them all, or use `cells_above`.
    """
    noise, charge = _of_counts(2, epsilon, rho, adjacency, label, parallel)
    return _noisy(noise, _integers(values)), charge


def scalar(
    value: int,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    adjacency: Adjacency,
    label: str,
    parallel: str | None = None,
) -> tuple[int, Charge]:
    """One noisy count.

    A row that is replaced moves one count by 1; but in a parallel group it may move two, one each.
    """
    moved = 1 if parallel is None else 2
    noise, charge = _of_counts(moved, epsilon, rho, adjacency, label, parallel)
    return int(_noisy(noise, _integers([value]))[0]), charge


def cells_above(
    values: ArrayLike,
    empty: int,
    threshold: float,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    adjacency: Adjacency,
    label: str,
    parallel: str | None = None,
) -> tuple[Above, Charge]:
    """The cells with a noisy count above a public threshold, of `values` and `empty` empty cells.

    As if `counts` were called with the empty cells too and only what passes were looked at, in
    time proportional to what passes. Cells may be chosen by the data only as occupied or empty;
    together they must be a public set.
    """
    noise, charge = _of_counts(2, epsilon, rho, adjacency, label, parallel)
    noisy = _noisy(noise, _integers(values))
    which = np.flatnonzero(noisy > threshold)
    passing = empty_cells(
        empty, threshold, noise.scale, law="gaussian" if epsilon is None else "laplace"
    )
    return Above(which, noisy[which], passing), charge


def sums(
    values: ArrayLike,
    *,
    grid: Lattice,
    epsilon: float | None = None,
    rho: float | None = None,
    adjacency: Adjacency,
    label: str,
    parallel: str | None = None,
) -> tuple[F64, Charge]:
    """Noisy sums (.., d) of rows that `quantize` put on the grid; a row enters one sum at most."""
    steps = grid.steps(np.asarray(values, dtype=np.float64))
    if steps.ndim == 0 or steps.shape[-1] != grid.d:
        raise ValueError(f"sums must have {grid.d} columns; their shape is {steps.shape}.")
    l1, l2_squared = grid.l1(adjacency), grid.l2_squared(adjacency)
    noise, norm, moved = _additive(epsilon, rho, l1, l2_squared)
    charge = _charge(
        noise, label, moved * grid.step, norm, noise.scale * grid.step, rho is not None, parallel
    )
    return _noisy(noise, steps).astype(np.float64) * grid.step, charge


def choose(
    scores: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float | None = None,
    rho: float | None = None,
    adjacency: Adjacency,
    label: str,
    monotone: bool,
    error: float = 0.0,
    parallel: str | None = None,
) -> tuple[int, Charge]:
    """The index of a high score: the higher, the likelier.

    sensitivity : how much one more row changes any score, at most.
    monotone : one more row moves all scores up, or all down. (Costs that add up do: give -cost.)
    error : how far a score may be from its exact value, where the caller's sums round.

    The scale is sensitivity / epsilon for monotone scores under add-remove, twice that if either
    fails, and four times if both do. With rho the law is P(i) ~ exp(score / scale); with epsilon
    it is permute-and-flip, of the same cost and never less useful.
    """
    cost, pure = _cost(epsilon, rho), epsilon is not None
    law: Law = "permute-and-flip" if pure else "exponential"
    step = math.ldexp(1.0, math.frexp(sensitivity)[1] - 1) / SCORE_STEPS
    spread = _spread(sensitivity, error, step, monotone, adjacency)
    # OpenDP's maps: spread / scale, and (spread / scale)^2 / 8 for the law has that range.
    start = up(spread / cost) if pure else root_up(spread**2 / (8 * cost))
    noise = calibrated(law, spread, float(cost), start)
    charge = _charge(
        noise, label, sensitivity, "score", noise.scale * step, rho is not None, parallel
    )
    return int(noise(_score_steps(scores, step))), charge


def _spread(
    sensitivity: float, error: float, step: float, monotone: bool, adjacency: Adjacency
) -> int:
    """The range, in steps, of the scores' changes between neighbours, after rounding down.

    A change in [low, high] becomes one in [floor(low), ceil(high)]. Adding a constant to all
    scores changes nothing, so that only the range counts.
    """
    if not 0 < sensitivity < math.inf or not 0 <= error < math.inf:
        raise ValueError("sensitivity must be a number > 0, and error a number >= 0.")
    low, high = Fraction(0 if monotone else -sensitivity), Fraction(sensitivity)
    if adjacency == "replace-one":
        low, high = low - high, high - low
    slack = 2 * Fraction(error)
    return math.ceil((high + slack) / Fraction(step)) - math.floor((low - slack) / Fraction(step))


def _score_steps(scores: ArrayLike, step: float) -> list[int]:
    """Scores on their grid, rounded down; the division by a power of two is exact."""
    raw = np.asarray(scores, dtype=np.float64)
    if raw.ndim != 1 or not len(raw) or not np.isfinite(raw).all():
        raise ValueError("scores must be a list of finite numbers, at least one.")
    with np.errstate(over="ignore", under="ignore"):
        quotients = np.floor(raw / step)
    quotients[(raw < 0) & (quotients == 0)] = -1.0  # where the division underflowed
    # Clipping moves no two neighbours' scores further apart.
    steps: list[int] = np.clip(quotients, -LARGEST, LARGEST).astype(np.int64).tolist()
    return steps


def _of_counts(
    moved: int,
    epsilon: float | None,
    rho: float | None,
    adjacency: Adjacency,
    label: str,
    parallel: str | None,
) -> tuple[Calibrated, Charge]:
    """Noise for counts, of which a row that is replaced moves `moved` by one each."""
    moved = 1 if adjacency == "add-remove" else moved
    noise, norm, far = _additive(epsilon, rho, moved, moved)
    return noise, _charge(noise, label, far, norm, noise.scale, rho is not None, parallel)


def _additive(
    epsilon: float | None, rho: float | None, l1: int, l2_squared: int
) -> tuple[Calibrated, Norm, float]:
    """Laplace noise for epsilon, Gaussian noise for rho, with the norm and the sensitivity."""
    cost = _cost(epsilon, rho)
    if epsilon is not None:
        return calibrated("laplace", l1, epsilon, up(l1 / cost)), "l1", float(l1)
    l2 = root_up(Fraction(l2_squared))
    start = root_up(Fraction(l2) ** 2 / (2 * cost))
    return calibrated("gaussian", l2, float(cost), start), "l2", l2


def _charge(
    noise: Calibrated,
    label: str,
    sensitivity: float,
    norm: Norm,
    scale: float,
    concentrated: bool,
    parallel: str | None,
) -> Charge:
    return Charge(
        label=label,
        mechanism=noise.law,
        sensitivity=sensitivity,
        norm=norm,
        scale=scale,
        epsilon=None if concentrated else noise.cost,
        rho=noise.cost if concentrated else None,
        parallel=parallel,
    )


def _noisy(noise: Calibrated, values: I64) -> I64:
    flat = noise(values.ravel()) if values.size else []
    return np.array(flat, dtype=np.int64).reshape(values.shape)


def _integers(values: ArrayLike) -> I64:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"counts must be integers; got {array.dtype}.")
    return array.astype(np.int64)


def _cost(epsilon: float | None, rho: float | None) -> Fraction:
    """The one of the two that was given."""
    name, cost = ("epsilon", epsilon) if rho is None else ("rho", rho)
    if cost is None or None not in (epsilon, rho):
        raise ValueError("Give either epsilon or rho.")
    if not 0 < cost < math.inf:
        raise ValueError(f"{name} must be a number > 0; got {cost!r}.")
    return Fraction(cost)
