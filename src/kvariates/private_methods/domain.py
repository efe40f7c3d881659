"""The public domain of private rows; and what costs no privacy in it.

That is a public start (`spread_out`), and k-means on points that are already released (`solve`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.data.host_data import HostData
from kvariates.data.lattice_rows import Lattice, quantize, quantize_sparse
from kvariates.data.rows import F64, Rows
from kvariates.fitting import FitOptions, fit_kmeans
from kvariates.objectives.objective import SquaredEuclidean
from kvariates.privacy.secret import Secret

SHOWN = 8  # features that are written out in words


@dataclass(frozen=True, eq=False)
class Domain:
    """Where rows may be: a box, or (`ball`) a ball. Public. Points are relative to its centre."""

    center: F64
    half: F64  # half the sides of the smallest box around it
    radius: float  # of the smallest ball around it
    ball: bool

    @classmethod
    def box(cls, low: F64, high: F64) -> Domain:
        half = (high - low) / 2
        radius = float(np.linalg.norm(half)) * (1 + 1e-12)  # corners stay inside
        return cls(low + half, half, radius, ball=False)

    @classmethod
    def around(cls, center: F64, radius: float) -> Domain:
        return cls(center, np.full(len(center), float(radius)), float(radius), ball=True)

    @property
    def d(self) -> int:
        return len(self.center)

    @cached_property
    def lattice(self) -> Lattice:
        return Lattice(self.radius, self.d, "l2")

    @cached_property
    def l1_lattice(self) -> Lattice:
        """Of a box: the lattice of sums with the least l1 sensitivity."""
        return Lattice(float(self.half.sum()) * (1 + 1e-12), self.d, "l1")

    @cached_property
    def widest(self) -> int:
        """The largest l1 distance of two rows, in steps of the lattice."""
        largest = self.lattice.l1("add-remove")
        if not self.ball:
            sides = (math.floor(Fraction(side) / Fraction(self.lattice.step)) for side in self.half)
            largest = min(largest, sum(sides))
        return 2 * largest

    def words(self) -> str:
        if self.ball:
            return f"a ball of radius {self.radius:g} around {_short(self.center)}"
        low, high = self.center - self.half, self.center + self.half
        if self.d > 1 and (low == low[0]).all() and (high == high[0]).all():
            return f"{low[0]:g} to {high[0]:g} in each of {self.d} features"
        sides = [f"x{j} {low[j]:g} to {high[j]:g}" for j in range(min(self.d, SHOWN))]
        return ", ".join(sides) + (", ..." if self.d > SHOWN else "")

    def rows(self, X: NDArray[np.floating]) -> Secret[F64]:
        """Rows of X centred, clipped and rounded towards the centre, each independently.

        X may be CSR if the centre of the domain is the origin; then so is the secret.
        """
        half = None if self.ball else self.half
        if sparse.issparse(X):
            return Secret(quantize_sparse(X, self.lattice, half))
        return Secret(quantize(X, self.lattice, self.center, half))

    def clip(self, points: F64) -> F64:
        """Centred points, moved into the domain."""
        if not self.ball:
            return np.clip(points, -self.half, self.half)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(points * (self.radius / np.maximum(norms, self.radius)))


def _short(point: F64) -> str:
    """A point in few words: all its numbers if they are few or equal."""
    if (point == point[0]).all():
        return f"{point[0]:g} in each of {len(point)} features"
    shown = ", ".join(f"{value:g}" for value in point[:SHOWN])
    return f"({shown}{', ...' if len(point) > SHOWN else ''})"


RUNS = 5
MAX_ITER = 300
TRIES = 50  # points drawn for each ball of a start


def solve(domain: Domain, points: F64, weight: F64, k: int, rng: np.random.Generator) -> F64:
    """k-means on weighted points. Pre: weights > 0.

    If there are at most k points, they are the centres, and public points are added.
    """
    if len(points) <= k:
        fill = spread_out(domain, k, rng)[len(points) :]
        return np.concatenate([points, fill])
    return kmeans(points, weight, k, RUNS, MAX_ITER, rng)


def kmeans(
    points: F64, weight: F64 | None, k: int, n_init: int, max_iter: int, rng: np.random.Generator
) -> F64:
    """The centres of the best of several runs of LS++ and Lloyd. Pre: at least k points."""
    data = HostData(Rows.of(np.ascontiguousarray(points)), weight)
    options = FitOptions(k, "ls++", n_init=n_init, max_iter=max_iter, tol=0.0)
    found = fit_kmeans(data, SquaredEuclidean(), options, rng)
    return np.asarray(found.centers, dtype=np.float64)


def spread_out(domain: Domain, k: int, rng: np.random.Generator) -> F64:
    """Points of the domain far from each other and from its border.

    Su et al.'s packing of k balls with the same radius, the largest for which a few draws succeed.
    """
    low, high = 0.0, float(domain.half.min())
    best = _draw_inside(domain, 0.0, k, rng)
    for _ in range(12):
        radius = (low + high) / 2
        packed = _pack(domain, radius, k, rng)
        if packed is None:
            high = radius
        else:
            low, best = radius, packed
    return best


def _pack(domain: Domain, radius: float, k: int, rng: np.random.Generator) -> F64 | None:
    """The centres of k disjoint balls inside the domain, or None if they were not found."""
    centers = np.empty((0, domain.d))
    for _ in range(k):
        drawn = _draw_inside(domain, radius, TRIES, rng)
        distance = np.linalg.norm(drawn[:, None] - centers, axis=2).min(axis=1, initial=np.inf)
        if distance.max() < 2 * radius:
            return None
        centers = np.vstack([centers, drawn[distance.argmax()]])
    return centers


def _draw_inside(domain: Domain, margin: float, count: int, rng: np.random.Generator) -> F64:
    """Uniform points at least `margin` away from the border."""
    if not domain.ball:
        return rng.uniform(-1.0, 1.0, (count, domain.d)) * (domain.half - margin)
    unit = rng.normal(size=(count, domain.d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit * (domain.radius - margin) * rng.random((count, 1)) ** (1 / domain.d)
