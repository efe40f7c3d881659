"""Where the rows are and along which axes they spread: noisy mean, spread and principal axes.

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
from kvariates.data.rows import F64
from kvariates.privacy.budget import Cost
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import Accountant, shrink
from kvariates.privacy.secret import Secret
from kvariates.private_methods.task import PrivateTask

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


def locate(task: PrivateTask, cost: Cost, accountant: Accountant) -> RowsLocation:
    """The noisy location of the rows. The mean is shrunken towards the domain's centre."""
    domain, adjacency = task.domain, task.adjacency
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
        n = accountant.release(task.number_of_rows(), count_cost).value
    n = max(1.0, n)
    total = exact.map(lambda of: of.totals)
    sums = accountant.sums(total, ball, adjacency, "their sum", sum_cost)
    # The squares of a row add up to at most 1.
    added = exact.map(lambda of: of.squares.sum(axis=1, keepdims=True))
    squares = accountant.sums(added, line, adjacency, "sum of their squares", square_cost)
    noise_squared = np.array([[domain.d * sums.charge.variance / n**2]])
    mean = shrink(sums.value / n, noise_squared)[0]
    left = float(squares.value[0, 0]) / n - float(mean @ mean)
    least = 3 * math.sqrt(squares.charge.variance) / n
    return RowsLocation(n, domain.radius * mean, domain.radius**2 * min(1.0, max(left, least)))


def principal_axes(
    task: PrivateTask,
    location: RowsLocation,
    cost: Cost,
    accountant: Accountant,
    rng: np.random.Generator,
) -> Axes:
    """The principal axes that are above the noise. Pre: `worthwhile`."""
    d = task.domain.d
    if d <= WIDE:
        found = _all_moments(task, location, cost, accountant)
    else:
        start = np.linalg.qr(rng.normal(size=(d, COLUMNS)))[0]
        found = _power_method(task, location, cost, accountant, start)
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


def _all_moments(
    task: PrivateTask, location: RowsLocation, cost: Cost, accountant: Accountant
) -> _Spectrum:
    """The eigenvectors of all second moments."""
    d, square = task.domain.d, location.radius**2
    upper = np.triu_indices(d)
    lattice = Lattice(1.0, len(upper[0]), "l2")
    exact = products(task, location).map(lambda of: of[upper])
    noisy = accountant.sums(exact, lattice, task.adjacency, "second moments", cost)
    matrix = np.zeros((d, d))
    matrix[upper] = noisy.value * square / location.n
    matrix = matrix + np.triu(matrix, 1).T
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(matrix))
    return _Spectrum(values, vectors, _largest_noise(d, noisy.charge) * square / location.n)


def _power_method(
    task: PrivateTask, location: RowsLocation, cost: Cost, accountant: Accountant, vectors: F64
) -> _Spectrum:
    """Multiplies a basis (d, columns), public at first, by the second moments, several times."""
    d, unit = task.domain.d, location.radius**2 / location.n
    lattice = Lattice(1.0, vectors.size, "l2")
    for number, part in enumerate(cost.split([1.0] * ROUNDS), start=1):
        exact, label = products(task, location, vectors), f"second moments, round {number}"
        noisy = accountant.sums(exact.map(np.ravel), lattice, task.adjacency, label, part)
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
