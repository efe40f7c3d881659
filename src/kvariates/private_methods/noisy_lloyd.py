"""Noisy NoisyLloyd: the loop of `refining.lloyd`, with centres that move to noisy means.

| what is lattice_sums | one row moves the sums by | serves |
|---|---|---|
| rows | the domain's radius | any start: `NoisyLloyd` (SuLQ; DP-Lloyd) |
| residuals x - c, clipped to the cluster's radius and in units of it | 1 | good starts: `step` |

A residual's noise is in proportion to its cluster's radius, not to the domain's. Residuals outside
are shortened, which is a bias towards the centre where it is, so radii must be about right; they
are public, or were paid for. All clusters' sums are one release: a row enters one of them.
The steps are counted beforehand: nothing but noisy counts and sums decides where centres go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.lattice import Balls, lattice_sums
from kvariates.data.rows import Labels, Rows
from kvariates.privacy import mechanisms
from kvariates.private_methods.public_start import spread_out
from kvariates.private_methods.shrinkage import shrunken, variance
from kvariates.private_methods.task import F64, Accountant, Cost, PrivateResult, PrivateTask
from kvariates.refining.assigners import Statistics
from kvariates.refining.lloyd import lloyd

I64 = NDArray[np.int64]

CLEAR = 4.0  # a centre moves if its noisy count is above so many scales of the count's noise
MAGNITUDE = 0.45  # of a centre, in the domain's radii (Su et al. 2016: 2 x 0.225)


@dataclass(frozen=True)
class StepCosts:
    """What one step may cost."""

    counts: Cost
    sums: Cost


@dataclass(frozen=True, eq=False)
class NoisyMeans:
    """Centres after a step, inside the domain, and the noisy counts they were made with."""

    centers: F64
    counts: I64


def step(
    task: PrivateTask,
    centers: F64,
    radii: F64,
    price: StepCosts,
    accountant: Accountant,
    label: str,
    signal: F64 | None = None,
) -> NoisyMeans:
    """One step on residuals. Pre: radii > 0, one for every centre, public or paid for.

    signal : orthonormal columns (d, q), public or paid for. Steps along them and steps across them
        are shrunken apart: where centres differ in few directions, the noise of the others goes.
    """
    made: list[NoisyMeans] = []

    def move(here: F64, labels: Labels, *_: object) -> F64:
        made.append(_from_residuals(task, here, labels, radii, price, accountant, label, signal))
        return made[-1].centers

    _walked(task, centers, move, 1)
    return made[0]


@dataclass(frozen=True)
class NoisyLloyd:
    """DP-Lloyd (Su et al. 2016; SuLQ k-means, Blum et al. 2005) from a public start.

    `steps` have equal shares of the budget.
    """

    steps: int = 5

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"Lloyd: steps must be at least 1; got {self.steps!r}.")

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant = Accountant()
        parts = task.costs([*shares(task)] * self.steps)
        prices = enumerate([StepCosts(*parts[i : i + 2]) for i in range(0, len(parts), 2)], start=1)

        def move(here: F64, labels: Labels, *_: object) -> F64:
            number, price = next(prices)
            return _from_rows(task, here, labels, price, accountant, f"step {number}").centers

        start = spread_out(task.domain, task.k, np.random.default_rng())
        centers = _walked(task, start, move, self.steps)
        return PrivateResult(centers, tuple(accountant.charges))


def shares(task: PrivateTask) -> tuple[float, float]:
    """Of counts and sums in a step: those with the least error of a centre of usual length.

    Counts cost MAGNITUDE^2 / epsilon_c^2 and sums d^2 / epsilon_s^2, up to the same factor; in
    zCDP MAGNITUDE^2 / rho_c and d / rho_s.
    """
    d = task.domain.d
    return (MAGNITUDE / d) ** (2 / 3) if task.pure else MAGNITUDE / math.sqrt(d), 1.0


def _walked(task: PrivateTask, centers: F64, move: Callable[..., F64], steps: int) -> F64:
    """Exactly so many steps. Labels and whether they changed stay here."""
    rows = Rows.of(task.rows)

    class Labels:
        def assign(self, centers: F64) -> Statistics:
            self.labels = rows.nearest(centers)
            return Statistics(np.empty(0), np.empty(0), np.empty(0, np.int64), -1)

    labels = Labels()
    return lloyd(
        labels,
        centers,
        lambda here, _: move(here, labels.labels),
        lambda s: s.iteration + 1 >= steps,
    ).centers


def _from_rows(
    task: PrivateTask,
    here: F64,
    labels: Labels,
    price: StepCosts,
    accountant: Accountant,
    label: str,
) -> NoisyMeans:
    grid = task.narrowest_grid
    exact = lattice_sums(task.rows, labels, task.k, grid)
    counted = _counts(task, exact.counts, price, accountant, f"{label}: rows of each centre")
    noisy = accountant.record(
        mechanisms.sums(
            exact.totals, grid=grid, adjacency=task.adjacency, label=f"{label}: sums of rows",
            **price.sums,
        )
    )  # fmt: skip
    at = here.copy()
    at[counted.clear] = noisy[counted.clear] / counted.values[counted.clear, None]
    return NoisyMeans(task.domain.inside(at), counted.values)


def _from_residuals(
    task: PrivateTask,
    here: F64,
    labels: Labels,
    radii: F64,
    price: StepCosts,
    accountant: Accountant,
    label: str,
    signal: F64 | None,
) -> NoisyMeans:
    grid = mechanisms.Lattice(1.0, task.domain.d, "l2")
    exact = lattice_sums(task.rows, labels, task.k, grid, Balls(here, radii))
    counted = _counts(task, exact.counts, price, accountant, f"{label}: rows of each centre")
    release = mechanisms.sums(
        exact.totals, grid=grid, adjacency=task.adjacency, label=f"{label}: sums of residuals",
        **price.sums,
    )  # fmt: skip
    noisy = accountant.record(release)
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
    return NoisyMeans(task.domain.inside(here + radii[:, None] * way), counted.values)


@dataclass(frozen=True, eq=False)
class _Counted:
    values: I64
    clear: NDArray[np.bool_]  # counts that are more than noise


def _counts(
    task: PrivateTask, exact: I64, price: StepCosts, accountant: Accountant, label: str
) -> _Counted:
    release = mechanisms.counts(exact, adjacency=task.adjacency, label=label, **price.counts)
    noisy = accountant.record(release)
    return _Counted(noisy, noisy > max(1.0, CLEAR * release[1].scale))
