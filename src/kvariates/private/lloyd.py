"""Noisy Lloyd: the loop of `refining.lloyd`, with centres that move to noisy means.

| what is summed | one row moves the sums by | serves |
|---|---|---|
| rows | the domain's radius | any start: `Lloyd` (SuLQ; DP-Lloyd) |
| residuals x - c, clipped to the cluster's radius and in units of it | 1 | good starts: `step` |

A residual's noise is in proportion to its cluster's radius, not to the domain's. Residuals outside
are shortened, which is a bias towards the centre where it is, so radii must be about right; they
are public, or were paid for. All clusters' sums are one release: a row enters one of them.
The steps are counted beforehand: nothing but noisy counts and sums decides where centres go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.geometry.euclidean import Labels, Space
from kvariates.privacy import noise
from kvariates.privacy.grid import Frames, summed
from kvariates.private.packing import spread_out
from kvariates.private.shrinking import shrunken, variance
from kvariates.private.task import F64, Cost, Receipts, Released, Task
from kvariates.refining.lloyd import Move, Walk

I64 = NDArray[np.int64]

CLEAR = 4.0  # a centre moves if its noisy count is above so many scales of the count's noise
MAGNITUDE = 0.45  # of a centre, in the domain's radii (Su et al. 2016: 2 x 0.225)


@dataclass(frozen=True)
class Price:
    """What one step may cost."""

    counts: Cost
    sums: Cost


@dataclass(frozen=True, eq=False)
class Means:
    """Centres after a step, inside the domain, and the noisy counts they were made with."""

    centers: F64
    counts: I64


def step(
    task: Task,
    centers: F64,
    radii: F64,
    price: Price,
    receipts: Receipts,
    label: str,
    signal: F64 | None = None,
) -> Means:
    """One step on residuals. Pre: radii > 0, one for every centre, public or paid for.

    signal : orthonormal columns (d, q), public or paid for. Steps along them and steps across them
        are shrunken apart: where centres differ in few directions, the noise of the others goes.
    """
    made: list[Means] = []

    def move(here: F64, labels: Labels, *_: object) -> F64:
        made.append(_from_residuals(task, here, labels, radii, price, receipts, label, signal))
        return made[-1].centers

    _walked(task, centers, move, 1)
    return made[0]


@dataclass(frozen=True)
class Lloyd:
    """DP-Lloyd (Su et al. 2016; SuLQ k-means, Blum et al. 2005) from a public start.

    `steps` have equal shares of the budget.
    """

    steps: int = 5

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"Lloyd: steps must be at least 1; got {self.steps!r}.")

    def __call__(self, task: Task) -> Released:
        receipts = Receipts()
        parts = task.costs([*shares(task)] * self.steps)
        prices = enumerate([Price(*parts[i : i + 2]) for i in range(0, len(parts), 2)], start=1)

        def move(here: F64, labels: Labels, *_: object) -> F64:
            number, price = next(prices)
            return _from_rows(task, here, labels, price, receipts, f"step {number}").centers

        start = spread_out(task.domain, task.k, np.random.default_rng())
        centers = _walked(task, start, move, self.steps)
        return Released(centers, tuple(receipts.charges))


def shares(task: Task) -> tuple[float, float]:
    """Of counts and sums in a step: those with the least error of a centre of usual length.

    Counts cost MAGNITUDE^2 / epsilon_c^2 and sums d^2 / epsilon_s^2, up to the same factor; in
    zCDP MAGNITUDE^2 / rho_c and d / rho_s.
    """
    d = task.domain.d
    return (MAGNITUDE / d) ** (2 / 3) if task.pure else MAGNITUDE / math.sqrt(d), 1.0


def _walked(task: Task, centers: F64, move: Move, steps: int) -> F64:
    """Exactly so many steps. Labels and whether they changed stay here."""
    walk = Walk(Space.of(task.rows), centers, "lloyd")
    for _ in walk.steps(move, steps):
        pass
    return walk.centers


def _from_rows(
    task: Task, here: F64, labels: Labels, price: Price, receipts: Receipts, label: str
) -> Means:
    grid = task.narrowest_grid
    exact = summed(task.rows, labels, task.k, grid)
    counted = _counts(task, exact.counts, price, receipts, f"{label}: rows of each centre")
    noisy = receipts.keep(
        noise.sums(
            exact.totals, grid=grid, adjacency=task.adjacency, label=f"{label}: sums of rows",
            **price.sums,
        )
    )  # fmt: skip
    at = here.copy()
    at[counted.clear] = noisy[counted.clear] / counted.values[counted.clear, None]
    return Means(task.domain.inside(at), counted.values)


def _from_residuals(
    task: Task,
    here: F64,
    labels: Labels,
    radii: F64,
    price: Price,
    receipts: Receipts,
    label: str,
    signal: F64 | None,
) -> Means:
    grid = noise.Grid(1.0, task.domain.d, "l2")
    exact = summed(task.rows, labels, task.k, grid, Frames(here, radii))
    counted = _counts(task, exact.counts, price, receipts, f"{label}: rows of each centre")
    release = noise.sums(
        exact.totals, grid=grid, adjacency=task.adjacency, label=f"{label}: sums of residuals",
        **price.sums,
    )  # fmt: skip
    noisy = receipts.keep(release)
    clear, by = counted.clear, counted.values[counted.clear, None]
    way = np.zeros_like(here)
    each = variance(release[1]) / by**2
    way[clear] = noisy[clear] / by
    if signal is None:
        way[clear] = shrunken(way[clear], grid.d * each)
    else:
        along = way[clear] @ signal @ signal.T
        q = signal.shape[1]
        way[clear] = shrunken(along, q * each) + shrunken(way[clear] - along, (grid.d - q) * each)
    return Means(task.domain.inside(here + radii[:, None] * way), counted.values)


@dataclass(frozen=True, eq=False)
class _Counted:
    values: I64
    clear: NDArray[np.bool_]  # counts that are more than noise


def _counts(task: Task, exact: I64, price: Price, receipts: Receipts, label: str) -> _Counted:
    release = noise.counts(exact, adjacency=task.adjacency, label=label, **price.counts)
    noisy = receipts.keep(release)
    return _Counted(noisy, noisy > max(1.0, CLEAR * release[1].scale))
