"""Where the rows lie, roughly, and along which axes: mean, spread, principal axes, all with noise.

With few features the axes are the features. Otherwise they are the first eigenvectors of the noisy
second moments, as many as stand out of the noise. Where those would drown in it, or there are too
many features to write them down, they are random directions, which no data decided.

Rows are pictured by `Axes.picture`: rows on a grid times axes on a coarse one. All products and
their sums are exact in float64, so a row's picture depends on that row alone, not on how a matrix
product is blocked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.privacy import noise
from kvariates.privacy.grid import Frames, summed
from kvariates.private.shrinking import shrunken, variance
from kvariates.private.task import F64, Cost, Receipts, Task, deviation, parts

FEW = 3  # features that are axes themselves
MANY = 1024  # features with half a million second moments
MOST_AXES = 10
BITS = 12  # of a coordinate of an axis
REACH = 1.5  # second moments are those of rows within so many deviations
BLOCK = 1 << 22  # values


@dataclass(frozen=True)
class Place:
    """About how many rows, their mean, and their mean squared distance to it."""

    n: float
    mean: F64
    spread: float


@dataclass(frozen=True, eq=False)
class Axes:
    basis: F64 | None  # (d, p); None: the features
    variances: F64  # (p,)
    rest: float  # of the spread, off the axes
    signal: F64 | None  # (d, q), orthonormal: where there is more than noise

    def picture(self, rows: F64) -> F64:
        """Every row on the axes."""
        return rows if self.basis is None else rows @ self.basis

    def lifted(self, points: F64, mean: F64) -> F64:
        """Points on the axes among the features, the rest of them as the mean's."""
        if self.basis is None:
            return points
        return np.asarray(mean + (points - mean @ self.basis) @ self.basis.T)


def place(task: Task, cost: Cost, receipts: Receipts) -> Place:
    """Pre: the domain is public. The mean is shrunken towards its middle."""
    domain = task.domain
    whole = Frames(np.zeros((1, domain.d)), np.array([domain.radius]))
    labels = np.zeros(len(task.rows), dtype=np.int32)
    ball, line = noise.Grid(1.0, domain.d, "l2"), noise.Grid(1.0, 1, "l1")
    exact = summed(task.rows, labels, 1, ball, whole, squares=True)
    root = 1.0 if "rho" in cost else math.sqrt(domain.d)
    adjacency, secret = task.adjacency, task.adjacency == "add-remove"
    adding, squaring, counting = parts(cost, [root, 1.0, float(secret)])
    n = float(len(task.rows))
    if secret:
        n = receipts.keep(
            noise.scalar(len(task.rows), adjacency=adjacency, label="number of rows", **counting)
        )
    n = max(1.0, n)
    sums = noise.sums(exact.totals, grid=ball, adjacency=adjacency, label="their sum", **adding)
    total = exact.squares.sum(axis=1, keepdims=True)  # a row's squares add up to 1 at most
    squares = noise.sums(
        total, grid=line, adjacency=adjacency, label="sum of their squares", **squaring
    )
    noise_squared = np.array([[domain.d * variance(sums[1]) / n**2]])
    mean = shrunken(receipts.keep(sums) / n, noise_squared)[0]
    left = float(receipts.keep(squares)[0, 0]) / n - float(mean @ mean)
    least = 3 * math.sqrt(variance(squares[1])) / n
    return Place(n, domain.radius * mean, domain.radius**2 * min(1.0, max(left, least)))


def axes(task: Task, where: Place, cost: Cost, receipts: Receipts) -> Axes:
    """Pre: `worthwhile`."""
    d, size = task.domain.d, REACH * math.sqrt(where.spread)
    upper = np.triu_indices(d)
    grid = noise.Grid(1.0, len(upper[0]), "l2")
    release = noise.sums(
        _second_moments(task, where, size)[upper], grid=grid, adjacency=task.adjacency,
        label="second moments", **cost,
    )  # fmt: skip
    matrix = np.zeros((d, d))
    matrix[upper] = receipts.keep(release) / where.n * size**2
    matrix = matrix + np.triu(matrix, 1).T
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(matrix))
    # The eigenvalues of such noise are up to sqrt(2 d) times its deviation.
    blur = math.sqrt(2 * d * variance(release[1])) / where.n * size**2
    p = int(np.clip((values > blur).sum(), min(2, d), min(MOST_AXES, d)))
    kept = np.maximum(values[:p], blur / 4)
    q = max(p, int((values > blur / 2).sum()))
    signal = np.ascontiguousarray(vectors[:, :q]) if q < d else None
    return Axes(_coarse(vectors[:, :p]), kept, max(0.0, where.spread - float(kept.sum())), signal)


def worthwhile(task: Task, where: Place, cost: Cost) -> bool:
    """Whether the noise of second moments will leave something of them."""
    d = task.domain.d
    if not FEW < d <= MANY:
        return False
    wide = d * (d + 1) // 2  # numbers of l2 norm 1 at most
    each = deviation(cost, task.adjacency, l1=math.sqrt(wide))
    return math.sqrt(2 * d) * each / where.n * REACH**2 < 0.5


def features(task: Task, where: Place, rng: np.random.Generator) -> Axes:
    """No data's axes: the features, or random directions if there are many."""
    d = task.domain.d
    if d <= MOST_AXES:
        return Axes(None, np.full(d, where.spread / d), 0.0, None)
    basis = np.linalg.qr(rng.normal(size=(d, MOST_AXES)))[0]
    share = where.spread / d
    return Axes(_coarse(basis), np.full(MOST_AXES, share), where.spread - MOST_AXES * share, None)


def _second_moments(task: Task, where: Place, size: float) -> F64:
    """Sums of z z', z = (x - mean) / size in the unit ball, on a grid whose products are exact."""
    d = task.domain.d
    grid = noise.Grid(1.0, d, "l2", n_max=2**42)
    total = np.zeros((d, d))
    step = max(1, BLOCK // d)
    for start in range(0, len(task.rows), step):
        z = noise.fixed((task.rows[start : start + step] - where.mean) / size, grid)
        total += z.T @ z
    return total


def _coarse(basis: F64) -> F64:
    return np.ascontiguousarray(np.rint(np.ldexp(basis, BITS)) * 2.0**-BITS)
