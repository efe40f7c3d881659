"""The tree: a private summary of the rows, k-means on it, and noisy Lloyd steps from there.

| what | share of the budget, by features: up to 3, up to 128, more | where |
|---|---|---|
| how many rows, where, how wide | 2 %, 2 %, 2 % | `axes.place` |
| principal axes | -, 10 %, 25 % | `axes.axes` |
| levels of an adaptive partition along them | 28 %, 30 %, 12 % | `summaries.partition` |
| its leaves: counts, means, spreads | 33 %, 25 %, 13 % | `summaries.partition` |
| Lloyd steps, in units of each cluster's radius | 37 %, 33 %, 48 % | `lloyd.step` |

Shares of what is left out go to the others. k-means on the leaves, weighted by their counts, costs
nothing. Noise is in proportion to the radius of what it hides: of a node, of a cluster. So are the
errors, whatever the domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.rows import Rows
from kvariates.private_methods import principal_axes as along
from kvariates.private_methods import weighted_kmeans
from kvariates.private_methods.noisy_lloyd import StepCosts, step
from kvariates.private_methods.noisy_moments import NoisyMoments, count_share
from kvariates.private_methods.task import (
    F64,
    Accountant,
    Cost,
    PrivateResult,
    PrivateTask,
    deviation,
    parts,
)
from kvariates.summaries.partition import FEW_AXES, Summary, depth, root, shares, summary

PLACE = 0.02


@dataclass(frozen=True)
class Plan:
    """Shares of the budget, and into how many Lloyd steps the last goes, in zCDP and pure."""

    axes: float
    levels: float
    leaves: float
    walk: float
    steps: int
    steps_pure: int  # noise grows with their number, not with its root


FEW = Plan(axes=0.00, levels=0.28, leaves=0.33, walk=0.37, steps=40, steps_pure=8)
SOME = Plan(axes=0.10, levels=0.30, leaves=0.25, walk=0.33, steps=8, steps_pure=3)
WIDE = Plan(axes=0.25, levels=0.12, leaves=0.13, walk=0.48, steps=9, steps_pure=3)
COUNTS = 0.1  # of a Lloyd step, in zCDP
NARROW, NARROW_FEW = 1.5, 4.0  # a step's radius is at least so many deviations of a cluster,
ERROR = 0.05  # and more while the noise moves a centre by no more than so many


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
        first, rest = task.costs([PLACE, 1 - PLACE])
        where = along.place(task, first, accountant)
        plan = _plan(task.domain.d)
        turning, others = parts(rest, [plan.axes, 1 - PLACE - plan.axes])
        if plan.axes and along.worthwhile(task, where, turning):
            turned = along.axes(task, where, turning, accountant, rng)
        else:
            turned, others = along.features(task, where, rng), rest
        usual = plan.steps_pure if task.pure else plan.steps
        steps = usual if self.steps is None else self.steps
        levels, leaves, walk = parts(others, [plan.levels, plan.leaves, plan.walk * bool(steps)])
        found = _summary(task, where, turned, levels, leaves, accountant)
        points = task.domain.inside(turned.lifted(found.points, where.mean))
        centers = weighted_kmeans.solve(task.domain, points, found.weights, task.k, rng)
        clusters = _clusters(points, found, centers, where, turned)
        if steps:
            centers = _walked(task, centers, clusters, turned, walk, steps, accountant)
        return PrivateResult(centers, tuple(accountant.charges))


def _plan(d: int) -> Plan:
    return FEW if d <= FEW_AXES else SOME if d <= along.WIDE else WIDE


@dataclass(frozen=True, eq=False)
class _Clusters:
    counts: F64
    radii: F64  # root mean squared distances


def _summary(
    task: PrivateTask,
    where: along.Place,
    turned: along.Axes,
    levels: Cost,
    leaves: Cost,
    accountant: Accountant,
) -> Summary:
    rows = turned.picture(task.rows)
    p = rows.shape[1]
    counting = count_share(levels, p)

    def error(share: float) -> float:
        part = parts(levels, [share * counting, 1.0 - share * counting])[0]
        return deviation(part, task.adjacency)

    many = depth(where.n, p, task.k, error)
    costs = [*parts(levels, shares(many).tolist()), leaves]
    high = task.domain.half if turned.basis is None else np.full(p, 1.01 * task.domain.radius)
    mean = turned.picture(where.mean[None])[0]
    start = root(mean, turned.variances, -high, high, 1.01 * task.domain.radius)
    return summary(rows, start, many, NoisyMoments(task, rows, costs, accountant, "tree"))


def _clusters(
    points: F64, found: Summary, centers: F64, where: along.Place, turned: along.Axes
) -> _Clusters:
    """What the summary says of each centre's rows."""
    k = len(centers)
    if not len(points):
        return _Clusters(np.zeros(k), np.full(k, math.sqrt(where.spread)))
    space = Rows.of(np.ascontiguousarray(points))
    labels = space.nearest(centers)
    squared = found.weights * (space.costs(centers, labels) + found.spreads + turned.rest)
    counts = np.bincount(labels, found.weights, minlength=k).astype(np.float64)
    sums = np.bincount(labels, squared, minlength=k)
    mean = np.where(counts > 0, sums / np.maximum(counts, 1e-300), where.spread)
    return _Clusters(counts, np.sqrt(np.maximum(mean, 1e-3 * where.spread)))


def _walked(
    task: PrivateTask,
    centers: F64,
    clusters: _Clusters,
    turned: along.Axes,
    cost: Cost,
    steps: int,
    accountant: Accountant,
) -> F64:
    d, counts = task.domain.d, clusters.counts
    counting = COUNTS if "rho" in cost else 1 / (1 + 3 * math.sqrt(d))
    narrow = NARROW_FEW if d <= FEW_AXES else NARROW
    for number, part in enumerate(parts(cost, [1.0] * steps), start=1):
        price = StepCosts(*parts(part, [counting, 1 - counting]))
        noise = math.sqrt(d) * deviation(price.sums, task.adjacency, l1=math.sqrt(d))
        wide = np.maximum(narrow, ERROR * np.maximum(counts, 1.0) / noise)
        radii = np.minimum(wide * clusters.radii, 2 * task.domain.radius)
        means = step(
            task, centers, radii, price, accountant, f"step {number}", signal=turned.signal
        )
        centers, counts = means.centers, means.counts.astype(np.float64)
    return centers
