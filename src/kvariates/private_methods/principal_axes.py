"""Where the rows lie, roughly, and along which axes: mean, spread, principal axes, all with noise.

With few features the axes are the features. Otherwise they are the first eigenvectors of the
second moments, as many as stand out of the noise: of all moments, or, where those would be too many
numbers, by a noisy power method (Hardt and Price 2014). Where they would drown in noise, or there
are too many features even so, they are random directions, which no data decided.

Rows are pictured by `Axes.picture`: rows on a grid times axes on a coarse one. All products and
their sums are exact in float64, so a row's picture depends on that row alone, not on how a matrix
product is blocked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.lattice import Balls, lattice_sums
from kvariates.privacy import mechanisms
from kvariates.privacy.ledger import Charge
from kvariates.private_methods.shrinkage import shrunken, variance
from kvariates.private_methods.task import F64, Accountant, Cost, PrivateTask, deviation, parts

FEW = 3  # features that are axes themselves
WIDE = 128  # features of which all second moments are asked for, at most; then a power method
MANY = 4096  # features of which any are
COLUMNS, ROUNDS = 24, 2  # of the power method
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


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Of noisy second moments."""

    values: F64  # from the largest on
    vectors: F64  # one a column
    blur: float  # values that noise alone would have


def place(task: PrivateTask, cost: Cost, accountant: Accountant) -> Place:
    """Pre: the domain is public. The mean is shrunken towards its middle."""
    domain = task.domain
    whole = Balls(np.zeros((1, domain.d)), np.array([domain.radius]))
    labels = np.zeros(len(task.rows), dtype=np.int32)
    ball, line = mechanisms.Lattice(1.0, domain.d, "l2"), mechanisms.Lattice(1.0, 1, "l1")
    exact = lattice_sums(task.rows, labels, 1, ball, whole, squares=True)
    root = 1.0 if "rho" in cost else math.sqrt(domain.d)
    adjacency, secret = task.adjacency, task.adjacency == "add-remove"
    adding, squaring, counting = parts(cost, [root, 1.0, float(secret)])
    n = float(len(task.rows))
    if secret:
        n = accountant.record(
            mechanisms.scalar(
                len(task.rows), adjacency=adjacency, label="number of rows", **counting
            )
        )
    n = max(1.0, n)
    sums = mechanisms.sums(
        exact.totals, grid=ball, adjacency=adjacency, label="their sum", **adding
    )
    total = exact.squares.sum(axis=1, keepdims=True)  # a row's squares add up to 1 at most
    squares = mechanisms.sums(
        total, grid=line, adjacency=adjacency, label="sum of their squares", **squaring
    )
    noise_squared = np.array([[domain.d * variance(sums[1]) / n**2]])
    mean = shrunken(accountant.record(sums) / n, noise_squared)[0]
    left = float(accountant.record(squares)[0, 0]) / n - float(mean @ mean)
    least = 3 * math.sqrt(variance(squares[1])) / n
    return Place(n, domain.radius * mean, domain.radius**2 * min(1.0, max(left, least)))


def axes(
    task: PrivateTask, where: Place, cost: Cost, accountant: Accountant, rng: np.random.Generator
) -> Axes:
    """Pre: `worthwhile`."""
    d = task.domain.d
    if d <= WIDE:
        found = _all_moments(task, where, cost, accountant)
    else:
        start = np.linalg.qr(rng.normal(size=(d, COLUMNS)))[0]
        found = _iterated(task, where, cost, accountant, start)
    values, blur = found.values, found.blur
    p = int(np.clip((values > blur).sum(), min(2, d), min(MOST_AXES, d)))
    kept = np.maximum(values[:p], blur / 4)
    q = max(p, int((values > blur / 2).sum()))
    signal = np.ascontiguousarray(found.vectors[:, :q]) if q < d else None
    rest = max(0.0, where.spread - float(kept.sum()))
    return Axes(_coarse(found.vectors[:, :p]), kept, rest, signal)


def worthwhile(task: PrivateTask, where: Place, cost: Cost) -> bool:
    """Whether the noise of second moments will leave something of them."""
    d = task.domain.d
    if not FEW < d <= MANY:
        return False
    rounds, numbers = (1, d * (d + 1) // 2) if d <= WIDE else (ROUNDS, d * COLUMNS)
    # Numbers of l2 norm 1 at most.
    each = deviation(parts(cost, [1.0] * rounds)[0], task.adjacency, l1=math.sqrt(numbers))
    return math.sqrt(2 * d) * each / where.n * REACH**2 < 0.5


def _all_moments(task: PrivateTask, where: Place, cost: Cost, accountant: Accountant) -> _Spectrum:
    d, size = task.domain.d, _size(where)
    upper = np.triu_indices(d)
    release = mechanisms.sums(
        _products(task, where, size)[upper], grid=mechanisms.Lattice(1.0, len(upper[0]), "l2"),
        adjacency=task.adjacency, label="second moments", **cost,
    )  # fmt: skip
    matrix = np.zeros((d, d))
    matrix[upper] = accountant.record(release) * size**2 / where.n
    matrix = matrix + np.triu(matrix, 1).T
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(matrix))
    return _Spectrum(values, vectors, _blur(d, release[1]) * size**2 / where.n)


def _iterated(
    task: PrivateTask, where: Place, cost: Cost, accountant: Accountant, vectors: F64
) -> _Spectrum:
    """The moments times a basis (d, columns), public at first, again and again."""
    d, size = task.domain.d, _size(where)
    grid = mechanisms.Lattice(1.0, vectors.size, "l2")
    for number, part in enumerate(parts(cost, [1.0] * ROUNDS), start=1):
        release = mechanisms.sums(
            _products(task, where, size, vectors).ravel(), grid=grid,
            adjacency=task.adjacency, label=f"second moments, round {number}", **part,
        )  # fmt: skip
        turned = accountant.record(release).reshape(vectors.shape)
        vectors, values, _ = np.linalg.svd(turned, full_matrices=False)
    # Noise in d directions has made every one of them longer.
    values = np.sqrt(np.maximum(0.0, values**2 - d * variance(release[1])))
    unit = size**2 / where.n
    return _Spectrum(values * unit, vectors, _blur(d, release[1]) * unit)


def _size(where: Place) -> float:
    return REACH * math.sqrt(where.spread)


def _blur(d: int, charge: Charge) -> float:
    """About the largest eigenvalue of such noise: sqrt(2 d) times its deviation."""
    return math.sqrt(2 * d * variance(charge))


def features(task: PrivateTask, where: Place, rng: np.random.Generator) -> Axes:
    """No data's axes: the features, or random directions if there are many."""
    d = task.domain.d
    if d <= MOST_AXES:
        return Axes(None, np.full(d, where.spread / d), 0.0, None)
    basis = np.linalg.qr(rng.normal(size=(d, MOST_AXES)))[0]
    share = where.spread / d
    return Axes(_coarse(basis), np.full(MOST_AXES, share), where.spread - MOST_AXES * share, None)


def _products(task: PrivateTask, where: Place, size: float, basis: F64 | None = None) -> F64:
    """Sums of z y', z = (x - mean) / size and y its picture on a basis, or z itself.

    z and y are pulled into unit balls, row by row, and on a grid whose products are exact; so are
    those of z and the basis, on a coarse grid.
    """
    turn = None if basis is None else _coarse(basis)
    ball = mechanisms.Lattice(1.0, task.domain.d, "l2", n_max=2**42)
    small = ball if basis is None else mechanisms.Lattice(1.0, basis.shape[1], "l2", n_max=2**42)
    total = np.zeros((ball.d, small.d))
    step = max(1, BLOCK // ball.d)
    for start in range(0, len(task.rows), step):
        z = mechanisms.quantize((task.rows[start : start + step] - where.mean) / size, ball)
        total += z.T @ (z if turn is None else mechanisms.quantize(z @ turn, small))
    return total


def _coarse(basis: F64) -> F64:
    return np.ascontiguousarray(np.rint(np.ldexp(basis, BITS)) * 2.0**-BITS)
