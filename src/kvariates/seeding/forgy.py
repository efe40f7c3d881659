"""Forgy: k different rows, picked one after the other in proportion to their weights."""

from __future__ import annotations

import numpy as np

from kvariates.numerics.draws import F64, I64


def forgy(n: int, k: int, weight: F64 | None, rng: np.random.Generator) -> I64:
    """Pre: k <= n. Raises ValueError when fewer than k rows have a positive weight."""
    arrival = rng.exponential(size=n)
    if weight is not None:
        if np.count_nonzero(weight) < k:
            raise ValueError(
                f"init='random' needs {k} rows of positive weight, but only "
                f"{np.count_nonzero(weight)} have one; lower n_clusters or give weights."
            )
        # The k first of independent exponential times of rate w are a weighted draw without
        # replacement.
        with np.errstate(divide="ignore"):
            arrival /= weight
    first = np.argpartition(arrival, k - 1)[:k]
    return first[np.argsort(arrival[first])]
