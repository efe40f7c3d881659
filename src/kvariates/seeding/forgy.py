"""Forgy: k different rows, picked one after the other in proportion to their weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import Rows
from kvariates.seeding.sampler import Seeds


def forgy(
    space: Rows, k: int, weight: NDArray[np.float64] | None, rng: np.random.Generator
) -> Seeds:
    """Pre: k <= n. Raises ValueError when fewer than k rows have a positive weight."""
    arrival = rng.exponential(size=space.n)
    if weight is not None:
        if np.count_nonzero(weight) < k:
            raise ValueError(
                f"init='random' needs {k} rows of positive weight, but only "
                f"{np.count_nonzero(weight)} have one; lower n_clusters or give weights."
            )
        # The k first of independent exponential clocks of rate w are a weighted draw without
        # replacement.
        with np.errstate(divide="ignore"):
            arrival /= weight
    first = np.argpartition(arrival, k - 1)[:k]
    indices = first[np.argsort(arrival[first])]
    return Seeds(space.take(indices), indices)
