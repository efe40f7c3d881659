"""Sets whose seeding law is known exactly, each with its own difficulty."""

from typing import NamedTuple

import numpy as np


class Small(NamedTuple):
    X: np.ndarray
    k: int
    weights: np.ndarray | None = None


_SIX = np.round(np.random.default_rng(20).normal(size=(6, 2)) * [4, 1], 2)
_FIVE = np.array([[0.0, 0], [1, 0], [0, 2], [5, 5], [6, 4]])

# Values are exact in float32, so that one law is that of both precisions.
SMALL = {
    "three of six": Small(_SIX.astype(np.float32), 3),
    "weighted": Small(_FIVE, 3, np.array([1.0, 4, 2, 0.5, 3])),
    "weights far apart": Small(_FIVE, 2, np.array([1e-3, 1.0, 1e-3, 2e-3, 1e-2])),
    "duplicates": Small(np.array([[0.0], [0], [0], [3], [3], [7]]), 2),
    "weighted duplicates": Small(
        np.array([[0.0, 1], [0, 1], [2, 2], [2, 2], [9, 0]]), 3, np.array([1.0, 2, 3, 1, 0.5])
    ),
    "zero weights": Small(
        np.array([[9.0], [100], [1], [-50], [4], [2]]), 3, np.array([1.0, 0, 2, 0, 1, 0])
    ),
    "every row": Small(_FIVE[:4], 4),
    "one outlier": Small(np.array([[0.0], [1], [2], [3], [4], [40]]), 3),
    "far from the origin": Small(_FIVE + 1024.0, 2),
    "zero rows": Small(np.array([[0.0, 0, 0], [0, 0, 2], [1, 0, 0], [0, 3, 0], [0, 0, 0]]), 2),
}


def groups(sizes, spread=0.02, d=3, seed=0):
    """Return rows in tight groups far apart, shuffled, and the group of each row."""
    rng = np.random.default_rng(seed)
    of = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centers = rng.uniform(-10, 10, size=(len(sizes), d))
    return centers[of] + rng.normal(scale=spread, size=(len(of), d)), of
