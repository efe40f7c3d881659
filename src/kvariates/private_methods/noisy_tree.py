"""The tree: a private summary of the rows, k-means on it, and noisy Lloyd steps from there.

| part | share of the budget with up to 3, up to 128, more features | where |
|---|---|---|
| number of rows, mean, spread | 2 %, 2 %, 2 % | `locate` |
| principal axes | -, 10 %, 25 % | `principal_axes` |
| levels of an adaptive partition along them | 28 %, 30 %, 12 % | `summaries.partition` |
| its leaves: counts, means, spreads | 33 %, 25 %, 13 % | `summaries.partition` |
| Lloyd steps on residuals | 37 %, 33 %, 48 % | `noisy_lloyd` |

If a part is left out, its share goes to the others. k-means on the leaves, weighted by their
counts, costs nothing. Noise is in proportion to the radius of a node or of a cluster, and so are
the errors, however large the domain is.

With few features the axes are the features. Otherwise they are the first eigenvectors of the second
moments, as many as are above the noise: of the full matrix, or, if that has too many numbers, by a
noisy power method (Hardt and Price 2014). If even that would be mostly noise, or there are too many
features, they are random directions, which do not depend on the data.

`Axes.project` multiplies rows on a lattice by axes on a coarser one. All products and their sums
are exact in float64. So the projection of a row depends on that row alone, not on how a matrix
product is blocked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.lattice_rows import Balls, Lattice, lattice_sums, quantize
from kvariates.data.rows import F64, Rows
from kvariates.privacy.budget import Cost
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import shrink
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import solve
from kvariates.private_methods.noisy_centers import CenterErrors, PassedCells, mean_costs
from kvariates.private_methods.noisy_lloyd import NoisyAssigner, StepCosts
from kvariates.private_methods.task import PrivateMethod, PrivateResult, PrivateTask, Traits
from kvariates.summaries import partition
from kvariates.summaries.partition import FEW_AXES, Chosen, Moments, Summary

FEW = 3  # up to so many features are axes themselves
WIDE = 128  # up to so many features all second moments are released; above, the power method
MANY = 4096  # up to so many features second moments are released at all
COLUMNS, ROUNDS = 24, 2  # of the power method
MOST_AXES = 10
BITS = 12  # of a coordinate of an axis
CLIP = 1.5  # deviations
BLOCK = 1 << 22  # values


@dataclass(frozen=True)
class RowsLocation:
    """About how many rows there are, their mean, and their mean squared distance to it."""

    n: float
    mean: F64
    spread: float

    @property
    def radius(self) -> float:
        """Rows are clipped to this distance of the mean for second moments."""
        return CLIP * math.sqrt(self.spread)


@dataclass(frozen=True, eq=False)
class Axes:
    """Axes of the partition, the variances along them, and the spread across them."""

    basis: F64 | None  # (d, p); None: the features
    variances: F64  # (p,)
    rest: float
    signal: F64 | None  # (d, q), orthonormal: the directions with more than noise

    def project(self, rows: F64) -> F64:
        """The coordinates of every row along the axes."""
        return rows if self.basis is None else rows @ self.basis

    def lift(self, points: F64, mean: F64) -> F64:
        """Points with these coordinates among the features; across the axes they equal the mean."""
        if self.basis is None:
            return points
        return np.asarray(mean + (points - mean @ self.basis) @ self.basis.T)


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Eigenvalues of noisy second moments, largest first, and eigenvectors, one a column."""

    values: F64
    vectors: F64
    noise: float  # about the largest eigenvalue of the noise alone


def locate(task: PrivateTask, cost: Cost) -> RowsLocation:
    """The noisy location of the rows. The mean is shrunken towards the domain's centre."""
    domain = task.domain
    balls = Balls(np.zeros((1, domain.d)), np.array([domain.radius]))
    ball, line = Lattice(1.0, domain.d, "l2"), Lattice(1.0, 1, "l1")
    exact = task.rows.map(
        lambda rows: lattice_sums(
            rows, np.zeros(len(rows), dtype=np.int32), 1, ball, balls, squares=True
        )
    )
    n: float | None = task.public_n
    secret = n is None
    sum_share = math.sqrt(domain.d) if cost.pure else 1.0
    sum_cost, square_cost, count_cost = cost.split([sum_share, 1.0, float(secret)])
    if n is None:
        n = task.number_of_rows(count_cost)
    n = max(1.0, n)
    total = exact.map(lambda of: of.totals)
    sums = task.sums(total, ball, "their sum", sum_cost)
    # The squares of a row add up to at most 1.
    added = exact.map(lambda of: of.squares.sum(axis=1, keepdims=True))
    squares = task.sums(added, line, "sum of their squares", square_cost)
    noise_squared = np.array([[domain.d * sums.charge.variance / n**2]])
    mean = shrink(sums.value / n, noise_squared)[0]
    left = float(squares.value[0, 0]) / n - float(mean @ mean)
    least = 3 * squares.charge.deviation / n
    return RowsLocation(n, domain.radius * mean, domain.radius**2 * min(1.0, max(left, least)))


def principal_axes(
    task: PrivateTask, location: RowsLocation, cost: Cost, rng: np.random.Generator
) -> Axes:
    """The principal axes that are above the noise. Pre: `worthwhile`."""
    d = task.domain.d
    if d <= WIDE:
        found = _all_moments(task, location, cost)
    else:
        start = np.linalg.qr(rng.normal(size=(d, COLUMNS)))[0]
        found = _power_method(task, location, cost, start)
    values, noise = found.values, found.noise
    p = int(np.clip((values > noise).sum(), min(2, d), min(MOST_AXES, d)))
    kept = np.maximum(values[:p], noise / 4)
    q = max(p, int((values > noise / 2).sum()))
    signal = np.ascontiguousarray(found.vectors[:, :q]) if q < d else None
    rest = max(0.0, location.spread - float(kept.sum()))
    return Axes(coarse(found.vectors[:, :p]), kept, rest, signal)


def worthwhile(task: PrivateTask, location: RowsLocation, cost: Cost) -> bool:
    """Whether second moments will be above their noise."""
    d = task.domain.d
    if not FEW < d <= MANY:
        return False
    rounds, numbers = (1, d * (d + 1) // 2) if d <= WIDE else (ROUNDS, d * COLUMNS)
    each = cost.split([1.0] * rounds)[0].deviation(task.adjacency, l1=math.sqrt(numbers))
    return math.sqrt(2 * d) * each / location.n * CLIP**2 < 0.5


def public_axes(task: PrivateTask, location: RowsLocation, rng: np.random.Generator) -> Axes:
    """Axes that do not depend on the data: the features, or random directions if they are many."""
    d, share = task.domain.d, location.spread / task.domain.d
    if d <= MOST_AXES:
        return Axes(None, np.full(d, share), 0.0, None)
    basis = np.linalg.qr(rng.normal(size=(d, MOST_AXES)))[0]
    rest = location.spread - MOST_AXES * share
    return Axes(coarse(basis), np.full(MOST_AXES, share), rest, None)


def _all_moments(task: PrivateTask, location: RowsLocation, cost: Cost) -> _Spectrum:
    """The eigenvectors of all second moments."""
    d, square = task.domain.d, location.radius**2
    upper = np.triu_indices(d)
    lattice = Lattice(1.0, len(upper[0]), "l2")
    exact = products(task, location).map(lambda of: of[upper])
    noisy = task.sums(exact, lattice, "second moments", cost)
    matrix = np.zeros((d, d))
    matrix[upper] = noisy.value * square / location.n
    matrix = matrix + np.triu(matrix, 1).T
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(matrix))
    return _Spectrum(values, vectors, _largest_noise(d, noisy.charge) * square / location.n)


def _power_method(task: PrivateTask, location: RowsLocation, cost: Cost, vectors: F64) -> _Spectrum:
    """Multiplies a basis (d, columns), public at first, by the second moments, several times."""
    d, unit = task.domain.d, location.radius**2 / location.n
    lattice = Lattice(1.0, vectors.size, "l2")
    for number, part in enumerate(cost.split([1.0] * ROUNDS), start=1):
        exact, label = products(task, location, vectors), f"second moments, round {number}"
        noisy = task.sums(exact.map(np.ravel), lattice, label, part)
        vectors, values, _ = np.linalg.svd(noisy.value.reshape(vectors.shape), full_matrices=False)
    # Noise in d directions has made every column longer.
    values = np.sqrt(np.maximum(0.0, values**2 - d * noisy.charge.variance))
    return _Spectrum(values * unit, vectors, _largest_noise(d, noisy.charge) * unit)


def _largest_noise(d: int, charge: Charge) -> float:
    """About the largest eigenvalue of the noise: sqrt(2 d) times its deviation."""
    return math.sqrt(2 * d * charge.variance)


def products(task: PrivateTask, location: RowsLocation, basis: F64 | None = None) -> Secret[F64]:
    """The sum of z y', z = (x - mean) / radius, y the projection of z on a basis, or z itself.

    z and y are clipped to unit balls, row by row, and rounded to a lattice on which products are
    exact, as is the product of z and the basis.
    """
    rounded = None if basis is None else coarse(basis)
    ball = Lattice(1.0, task.domain.d, "l2", n_max=2**42)
    small = ball if basis is None else Lattice(1.0, basis.shape[1], "l2", n_max=2**42)
    step = max(1, BLOCK // ball.d)

    def summed(rows: F64) -> F64:
        total = np.zeros((ball.d, small.d))
        for start in range(0, len(rows), step):
            z = quantize((rows[start : start + step] - location.mean) / location.radius, ball)
            total += z.T @ (z if rounded is None else quantize(z @ rounded, small))
        return total

    return task.rows.map(summed)


def coarse(basis: F64) -> F64:
    """The basis rounded to BITS bits."""
    return np.ascontiguousarray(np.rint(np.ldexp(basis, BITS)) * 2.0**-BITS)


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
        self.check_count("Tree: steps", self.steps, least=0)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        rng, task = np.random.default_rng(), task.without_charges()
        first, rest = task.cost.split([LOCATION_SHARE, 1 - LOCATION_SHARE])
        location = locate(task, first)
        few, some = task.domain.d <= FEW_AXES, task.domain.d <= WIDE
        plan = FEW_FEATURES if few else SOME_FEATURES if some else MANY_FEATURES
        axes_cost, others = rest.split([plan.axes, 1 - LOCATION_SHARE - plan.axes])
        if plan.axes and worthwhile(task, location, axes_cost):
            axes = principal_axes(task, location, axes_cost, rng)
        else:
            axes, others = public_axes(task, location, rng), rest
        usual = plan.steps_pure if task.pure else plan.steps
        steps = usual if self.steps is None else self.steps
        levels, leaves, last = others.split([plan.levels, plan.leaves, plan.lloyd * bool(steps)])
        summary = _summarize(task, location, axes, levels, leaves)
        points = task.domain.clip(axes.lift(summary.points, location.mean))
        centers = solve(task.domain, points, summary.weights, task.k, rng)
        leaves_of = PassedCells(points, summary.weights, summary.threshold, summary.error)
        counts, errors = leaves_of.counts(centers), OF_LEAVES
        if steps:
            radii = _radii(task, summary, points, centers, location.spread, axes.rest)
            costs = step_costs(last, steps, task.domain.d)
            assigner = NoisyAssigner(task, costs, radii, axes.signal)
            centers = assigner.refine(centers)
            counts, errors = assigner.cluster_counts, assigner.errors(centers)
        return PrivateResult(centers, task.charges, counts, errors=errors)


def _summarize(
    task: PrivateTask, location: RowsLocation, axes: Axes, levels: Cost, leaves: Cost
) -> Summary:
    """The noisy partition of the rows along the axes."""
    p = len(axes.variances)
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
    return partition.summarize(members, start, many, NoisyMoments(task, p, parts))


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

    def __call__(self, chosen: Secret[Chosen], balls: Balls, level: int) -> Moments:
        p, cost, task = self.p, self.costs[level], self.task
        leaves = level == len(self.costs) - 1
        ball, squares_ball = Lattice(1.0, p, "l2"), Lattice(1.0, 1 if leaves else p, "l1")
        share = count_share(cost, p)
        few = leaves and p <= FEW_AXES and not cost.pure
        shares = LEAF_SHARES if few else (share, 1 - 2 * share, share)
        label = "tree, leaves" if leaves else f"tree, level {level + 1}"
        exact = chosen.map(
            lambda of: lattice_sums(of.rows, of.labels, len(balls.radii), ball, balls, squares=True)
        )
        counted, totals = exact.map(lambda of: of.counts), exact.map(lambda of: of.totals)
        second, costs = exact.map(lambda of: of.squares), cost.split(shares)
        if leaves:
            second = second.map(lambda of: of.sum(axis=1, keepdims=True))
        counts = task.counts(counted, f"{label}: rows", costs[0])
        sums = task.sums(totals, ball, f"{label}: sums", costs[1])
        squares = task.sums(second, squares_ball, f"{label}: squares", costs[2])
        by = np.maximum(counts.value, 1.0)[:, None]
        return Moments(
            counts.value.astype(np.float64), sums.value / by, squares.value / by,
            *(one.charge.deviation for one in (counts, sums, squares)),
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
    costs, weights = rows.costs(centers, labels) + found.spreads + rest, found.weights
    mean = mean_costs(labels, costs, weights, k, spread)
    counts = np.bincount(labels, weights, minlength=k).astype(np.float64)
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
