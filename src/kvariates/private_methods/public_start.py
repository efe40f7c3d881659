"""Places that no data decided: points of the domain far from each other."""

from __future__ import annotations

import numpy as np

from kvariates.private_methods.task import F64, Domain


def spread_out(domain: Domain, k: int, rng: np.random.Generator) -> F64:
    """Points of the domain far from each other and from its border, whatever the data.

    Su et al.'s packing of k balls of equal radii, the largest for which a few draws succeed.
    """
    low, high = 0.0, float(domain.half.min())
    best = _inner(domain, 0.0, k, rng)
    for _ in range(12):
        radius = (low + high) / 2
        packed = _packed(domain, radius, k, rng)
        if packed is None:
            high = radius
        else:
            low, best = radius, packed
    return best


def _packed(
    domain: Domain, radius: float, k: int, rng: np.random.Generator, tries: int = 50
) -> F64 | None:
    centers = np.empty((0, domain.d))
    for _ in range(k):
        drawn = _inner(domain, radius, tries, rng)
        apart = np.linalg.norm(drawn[:, None] - centers, axis=2).min(axis=1, initial=np.inf)
        if apart.max() < 2 * radius:
            return None
        centers = np.vstack([centers, drawn[apart.argmax()]])
    return centers


def _inner(domain: Domain, margin: float, k: int, rng: np.random.Generator) -> F64:
    """Uniform points at least `margin` away from the border."""
    if not domain.ball:
        return rng.uniform(-1.0, 1.0, (k, domain.d)) * (domain.half - margin)
    way = rng.normal(size=(k, domain.d))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return way * (domain.radius - margin) * rng.random((k, 1)) ** (1 / domain.d)
