"""A start that does not depend on the data: points of the domain far from each other."""

from __future__ import annotations

import numpy as np

from kvariates.private_methods.task import F64, Domain

TRIES = 50  # points drawn for each ball


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
