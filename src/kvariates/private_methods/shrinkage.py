"""Steps with noise of a known size are shortened by what the noise is likely to have added."""

from __future__ import annotations

import numpy as np

from kvariates.privacy.ledger import Charge
from kvariates.private_methods.task import F64


def shrunken(way: F64, noise_squared: F64) -> F64:
    """Steps times 1 - E|noise|^2 / |step|^2 where that is positive, else no step.

    The least squared error has the factor |truth|^2 / (|truth|^2 + E|noise|^2), of which the
    denominator is about |step|^2.
    """
    squares = np.einsum("ij,ij->i", way, way)[:, None]
    factors: F64 = np.maximum(0.0, 1.0 - noise_squared / np.maximum(squares, 1e-300))
    return way * factors


def variance(charge: Charge) -> float:
    """Of the noise of one released number."""
    return (2.0 if charge.mechanism == "laplace" else 1.0) * charge.scale**2
