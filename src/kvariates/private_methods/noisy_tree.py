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

from kvariates.data.lattice_rows import Balls, Lattice, lattice_sums
from kvariates.data.rows import F64, Rows
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.secret import Secret
from kvariates.private_methods import principal_axes
from kvariates.private_methods.domain import solve
from kvariates.private_methods.noisy_centers import CenterErrors, PassedCells
from kvariates.private_methods.noisy_lloyd import (
    NoisyAssigner,
    ShrunkenMean,
    StepCosts,
)
from kvariates.private_methods.principal_axes import WIDE, Axes, RowsLocation
from kvariates.private_methods.task import (
    PrivateMethod,
    PrivateResult,
    PrivateTask,
    Traits,
    check_count,
)
from kvariates.summaries import partition
from kvariates.summaries.partition import FEW_AXES, Chosen, Moments, Summary

LOCATION_SHARE = 0.02
OF_LEAVES = CenterErrors(None, "centres are means of leaves that were chosen by their noisy counts")


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
LEAF_SHARES = (0.45, 0.45, 0.1)  # of counts, sums and squares, in leaves with few axes


# proof: tree.md
@dataclass(frozen=True)
class TreeMethod(PrivateMethod[PrivateTask]):
    """`steps`: noisy Lloyd steps after the summary; None: 40 with few features, 8 or 9 with more.

    With pure epsilon 8 and 3.
    """

    traits = Traits(counts=True)

    steps: int | None = None

    def __post_init__(self) -> None:
        check_count("Tree: steps", self.steps, least=0)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        rng, accountant = np.random.default_rng(), Accountant()
        first, rest = task.cost.split([LOCATION_SHARE, 1 - LOCATION_SHARE])
        location = principal_axes.locate(task, first, accountant)
        plan = _plan(task.domain.d)
        axes_cost, others = rest.split([plan.axes, 1 - LOCATION_SHARE - plan.axes])
        if plan.axes and principal_axes.worthwhile(task, location, axes_cost):
            axes = principal_axes.principal_axes(task, location, axes_cost, accountant, rng)
        else:
            axes, others = principal_axes.public_axes(task, location, rng), rest
        usual = plan.steps_pure if task.pure else plan.steps
        steps = usual if self.steps is None else self.steps
        levels, leaves, last = others.split([plan.levels, plan.leaves, plan.lloyd * bool(steps)])
        summary = _summarize(task, location, axes, (levels, leaves), accountant)
        points = task.domain.clip(axes.lift(summary.points, location.mean))
        centers = solve(task.domain, points, summary.weights, task.k, rng)
        counts = PassedCells(points, summary.weights, summary.threshold, summary.error).counts(
            centers
        )
        errors = OF_LEAVES
        if steps:
            radii = _radii(task, summary, points, centers, location.spread, axes.rest)
            costs = step_costs(last, steps, task.domain.d)
            assigner = NoisyAssigner(task, costs, accountant, radii)
            centers = assigner.refine(centers, ShrunkenMean(assigner, axes.signal))
            counts, errors = assigner.cluster_counts, assigner.errors(centers)
        return PrivateResult(centers, tuple(accountant.charges), counts, errors=errors)


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
    (levels, leaves), p = costs, len(axes.variances)
    rows = task.rows.map(axes.project)
    counting = count_share(levels, p)

    def error(share: float) -> float:
        part = levels.split([share * counting, 1.0 - share * counting])[0]
        return part.deviation(task.adjacency)

    many = partition.depth(location.n, p, task.k, error)
    parts = [*levels.split(partition.level_shares(many).tolist()), leaves]
    high = task.domain.half if axes.basis is None else np.full(p, 1.01 * task.domain.radius)
    mean = axes.project(location.mean[None])[0]
    start = partition.root(mean, axes.variances, -high, high, 1.01 * task.domain.radius)
    members = rows.map(partition.Members)
    return partition.summarize(members, start, many, NoisyMoments(task, p, parts, accountant))


def count_share(cost: Cost, p: int) -> float:
    """The share of counts in the cost of moments of p coordinates."""
    return 1 / (2 + math.sqrt(p)) if cost.pure else 1 / 3


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy moments of the task's rows, or of projections of them, level by level.

    `costs[level]` is the cost of the level; the last one is that of the leaves. A row x of a group
    with ball (c, r) is z = (x - c) / r clipped to the unit ball, and adds

        to the count of its group      1
        to the sum                     z      l2 <= 1, l1 <= sqrt(p)
        to the squares                 z^2    by coordinate; l1 <= 1, since |z| <= 1
                                              (in leaves only their sum |z|^2 <= 1)

    Groups are disjoint, and balls are public or were computed from releases. So each of the three
    is one release, whatever the number of groups. In zCDP the three have equal parts of the cost,
    with pure epsilon parts that make their scales equal. Leaves with few axes spend less on
    squares: small groups far away are found by counts and means.
    """

    task: PrivateTask
    p: int  # the number of axes
    costs: list[Cost]
    accountant: Accountant

    def __call__(self, chosen: Secret[Chosen], balls: Balls, level: int) -> Moments:
        p, cost, adjacency = self.p, self.costs[level], self.task.adjacency
        leaves = level == len(self.costs) - 1
        ball, squares_ball = Lattice(1.0, p, "l2"), Lattice(1.0, 1 if leaves else p, "l1")
        share = count_share(cost, p)
        few = leaves and p <= FEW_AXES and not cost.pure
        shares = LEAF_SHARES if few else (share, 1 - 2 * share, share)
        label = "tree, leaves" if leaves else f"tree, level {level + 1}"
        exact = chosen.map(
            lambda of: lattice_sums(of.rows, of.labels, len(balls.radii), ball, balls, squares=True)
        )
        made, costs = self.accountant, cost.split(shares)
        counts = made.counts(exact.map(lambda of: of.counts), adjacency, f"{label}: rows", costs[0])
        totals, second = exact.map(lambda of: of.totals), exact.map(lambda of: of.squares)
        sums = made.sums(totals, ball, adjacency, f"{label}: sums", costs[1])
        if leaves:
            second = second.map(lambda of: of.sum(axis=1, keepdims=True))
        squares = made.sums(second, squares_ball, adjacency, f"{label}: squares", costs[2])
        by = np.maximum(counts.value, 1.0)[:, None]
        return Moments(
            counts.value.astype(np.float64), sums.value / by, squares.value / by,
            *(math.sqrt(one.charge.variance) for one in (counts, sums, squares)),
        )  # fmt: skip


def _radii(
    task: PrivateTask, found: Summary, points: F64, centers: F64, spread: float, rest: float
) -> ResidualRadii:
    """The radii by the summary: by the weight and the spread of the rows of each centre."""
    k = task.k
    if not len(points):
        return ResidualRadii(task, np.zeros(k), np.full(k, math.sqrt(spread)))
    rows = Rows.of(np.ascontiguousarray(points))
    labels = rows.nearest(centers)
    squared = found.weights * (rows.costs(centers, labels) + found.spreads + rest)
    counts = np.bincount(labels, found.weights, minlength=k).astype(np.float64)
    sums = np.bincount(labels, squared, minlength=k)
    mean = np.where(counts > 0, sums / np.maximum(counts, 1e-300), spread)
    return ResidualRadii(task, counts, np.sqrt(np.maximum(mean, 1e-3 * spread)))


@dataclass(frozen=True, eq=False)
class ResidualRadii:
    """The radius to which residuals are clipped: wide where noise is small beside the count."""

    task: PrivateTask
    counts: F64  # before the first step
    spreads: F64  # the root of the mean squared distance of each cluster

    def __call__(self, counts: F64 | None, cost: Cost) -> F64:
        d, domain = self.task.domain.d, self.task.domain
        counts = self.counts if counts is None else counts
        noise = math.sqrt(d) * cost.deviation(self.task.adjacency, l1=math.sqrt(d))
        narrow = NARROW_FEW if d <= FEW_AXES else NARROW
        deviations = np.maximum(narrow, ERROR * np.maximum(counts, 1.0) / noise)
        return np.asarray(np.minimum(deviations * self.spreads, 2 * domain.radius))


def step_costs(cost: Cost, steps: int, d: int) -> list[StepCosts]:
    """The costs of steps on residuals of d features."""
    counting = 1 / (1 + 3 * math.sqrt(d)) if cost.pure else COUNT_SHARE
    parts = cost.split([1.0] * steps)
    return [StepCosts(*part.split([counting, 1 - counting])) for part in parts]
