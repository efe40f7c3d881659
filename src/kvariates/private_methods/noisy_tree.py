"""The tree: a private summary of the rows, k-means on it, and noisy Lloyd steps from there.

| part | share of the budget with up to 3, up to 128, more features | module |
|---|---|---|
| number of rows, mean, spread | 2 %, 2 %, 2 % | `principal_axes` |
| principal axes | -, 10 %, 25 % | `principal_axes` |
| levels of an adaptive partition along them | 28 %, 30 %, 12 % | `summaries.partition` |
| its leaves: counts, means, spreads | 33 %, 25 %, 13 % | `summaries.partition` |
| Lloyd steps on residuals | 37 %, 33 %, 48 % | `noisy_lloyd` |

If a part is left out, its share goes to the others. k-means on the leaves, weighted by their
counts, costs nothing. Noise is in proportion to the radius of a node or of a cluster, and so are
the errors, however large the domain is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.rows import Rows
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods import weighted_kmeans
from kvariates.private_methods.noisy_lloyd import NoisyAssigner, ShrunkenMean, StepCosts
from kvariates.private_methods.noisy_moments import NoisyMoments, count_share
from kvariates.private_methods.principal_axes import (
    WIDE,
    Axes,
    RowsLocation,
    locate,
    principal_axes,
    public_axes,
    worthwhile,
)
from kvariates.private_methods.task import F64, PrivateResult, PrivateTask
from kvariates.summaries.partition import FEW_AXES, Summary, depth, level_shares, root, summarize

LOCATION_SHARE = 0.02


@dataclass(frozen=True)
class Plan:
    """Shares of the budget, and the number of Lloyd steps in zCDP and with pure epsilon."""

    axes: float
    levels: float
    leaves: float
    lloyd: float
    steps: int
    steps_pure: int  # fewer: noise grows with their number, not with its root


FEW_FEATURES = Plan(axes=0.00, levels=0.28, leaves=0.33, lloyd=0.37, steps=40, steps_pure=8)
SOME_FEATURES = Plan(axes=0.10, levels=0.30, leaves=0.25, lloyd=0.33, steps=8, steps_pure=3)
MANY_FEATURES = Plan(axes=0.25, levels=0.12, leaves=0.13, lloyd=0.48, steps=9, steps_pure=3)
COUNT_SHARE = 0.1  # of a Lloyd step, in zCDP
NARROW, NARROW_FEW = 1.5, 4.0  # the least radius of a step, in deviations of a cluster
ERROR = 0.05  # the radius grows while noise moves a centre by at most so many deviations


@dataclass(frozen=True)
class TreeMethod:
    """`steps`: noisy Lloyd steps after the summary; None: 40 with few features, 8 or 9 with more.

    With pure epsilon 8 and 3.
    """

    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise ValueError(f"Tree: steps must not be negative; got {self.steps!r}.")

    def __call__(self, task: PrivateTask) -> PrivateResult:
        rng, accountant = np.random.default_rng(), Accountant()
        first, rest = task.costs([LOCATION_SHARE, 1 - LOCATION_SHARE])
        location = locate(task, first, accountant)
        plan = _plan(task.domain.d)
        axes_cost, others = rest.split([plan.axes, 1 - LOCATION_SHARE - plan.axes])
        if plan.axes and worthwhile(task, location, axes_cost):
            axes = principal_axes(task, location, axes_cost, accountant, rng)
        else:
            axes, others = public_axes(task, location, rng), rest
        usual = plan.steps_pure if task.pure else plan.steps
        steps = usual if self.steps is None else self.steps
        levels, leaves, last = others.split([plan.levels, plan.leaves, plan.lloyd * bool(steps)])
        summary = _summarize(task, location, axes, (levels, leaves), accountant)
        points = task.domain.clip(axes.lift(summary.points, location.mean))
        centers = weighted_kmeans.solve(task.domain, points, summary.weights, task.k, rng)
        if steps:
            spreads = _spreads(points, summary, centers, location.spread, axes.rest)
            assigner = NoisyAssigner(
                task, _step_costs(last, steps, task.domain.d), accountant, _Radii(task, spreads)
            )
            centers = assigner.refine(centers, ShrunkenMean(assigner, axes.signal))
        return PrivateResult(centers, tuple(accountant.charges))


def _plan(d: int) -> Plan:
    return FEW_FEATURES if d <= FEW_AXES else SOME_FEATURES if d <= WIDE else MANY_FEATURES


def _summarize(
    task: PrivateTask,
    location: RowsLocation,
    axes: Axes,
    costs: tuple[Cost, Cost],
    accountant: Accountant,
) -> Summary:
    """The noisy partition of the rows along the axes. `costs` are those of levels and leaves."""
    rows, (levels, leaves) = axes.project(task.rows), costs
    p = rows.shape[1]
    counting = count_share(levels, p)

    def error(share: float) -> float:
        part = levels.split([share * counting, 1.0 - share * counting])[0]
        return part.deviation(task.adjacency)

    many = depth(location.n, p, task.k, error)
    parts = [*levels.split(level_shares(many).tolist()), leaves]
    high = task.domain.half if axes.basis is None else np.full(p, 1.01 * task.domain.radius)
    mean = axes.project(location.mean[None])[0]
    start = root(mean, axes.variances, -high, high, 1.01 * task.domain.radius)
    return summarize(rows, start, many, NoisyMoments(task, rows, parts, accountant, "tree"))


@dataclass(frozen=True, eq=False)
class _Spreads:
    """The weight of each cluster, and the root of its mean squared distance."""

    counts: F64
    radii: F64


def _spreads(points: F64, found: Summary, centers: F64, spread: float, rest: float) -> _Spreads:
    """The spread of the rows of each centre, by the summary."""
    k = len(centers)
    if not len(points):
        return _Spreads(np.zeros(k), np.full(k, math.sqrt(spread)))
    rows = Rows.of(np.ascontiguousarray(points))
    labels = rows.nearest(centers)
    squared = found.weights * (rows.costs(centers, labels) + found.spreads + rest)
    counts = np.bincount(labels, found.weights, minlength=k).astype(np.float64)
    sums = np.bincount(labels, squared, minlength=k)
    mean = np.where(counts > 0, sums / np.maximum(counts, 1e-300), spread)
    return _Spreads(counts, np.sqrt(np.maximum(mean, 1e-3 * spread)))


@dataclass(frozen=True, eq=False)
class _Radii:
    """The radius to which residuals are clipped: wide where noise is small beside the count."""

    task: PrivateTask
    spreads: _Spreads

    def __call__(self, counts: F64 | None, cost: Cost) -> F64:
        d, domain = self.task.domain.d, self.task.domain
        counts = self.spreads.counts if counts is None else counts
        noise = math.sqrt(d) * cost.deviation(self.task.adjacency, l1=math.sqrt(d))
        narrow = NARROW_FEW if d <= FEW_AXES else NARROW
        deviations = np.maximum(narrow, ERROR * np.maximum(counts, 1.0) / noise)
        return np.asarray(np.minimum(deviations * self.spreads.radii, 2 * domain.radius))


def _step_costs(cost: Cost, steps: int, d: int) -> list[StepCosts]:
    counting = 1 / (1 + 3 * math.sqrt(d)) if cost.pure else COUNT_SHARE
    parts = cost.split([1.0] * steps)
    return [StepCosts(*part.split([counting, 1 - counting])) for part in parts]
