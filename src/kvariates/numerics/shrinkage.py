"""Shrinks noisy vectors by what their noise is likely to have added to their length."""

from __future__ import annotations

import numpy as np

from kvariates.numerics.draws import F64


def shrink(vectors: F64, noise_squared: F64) -> F64:
    """Every row times 1 - E|noise|^2 / |row|^2, or times 0 if that is negative.

    The factor with the least squared error is |truth|^2 / (|truth|^2 + E|noise|^2); its denominator
    is about |row|^2. `noise_squared` is a column.
    """
    squares = np.square(vectors).sum(axis=1, keepdims=True)  # the same bits on every machine
    factors: F64 = np.maximum(0.0, 1.0 - noise_squared / np.maximum(squares, 1e-300))
    return vectors * factors
