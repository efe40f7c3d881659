"""Promises as values: what a theorem gives, what it needs, where it is stated.

A model carries a guarantee only while everything the theorem needs is true of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Guarantee:
    """E[cost] <= factor * (cost of the best k centres)."""

    name: str
    factor: float
    needs: tuple[str, ...]
    stated: str


def kmeans_plusplus_bound(k: int) -> Guarantee:
    """Plain D^2 seeding: the expectation is over the draws, before or after any refinement."""
    return Guarantee(
        name="k-means++",
        factor=8 * (math.log(k) + 2),
        needs=("squared Euclidean distance", "plain draws (n_local_trials=1)"),
        stated="Arthur and Vassilvitskii 2007, Theorem 3.1; Nock et al. 2016, Theorem 2",
    )
