"""The world's cities with differential privacy: what three budgets cost.

Each city is a row, and the number of its people is left out: a private fit has no weights. The
domain is the globe, which is known without the data. The cities are not secret, so the cost can be
measured; with secret rows, every fit would spend its budget.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.demo.cities import REGIONS, Array, Cities
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.privacy.price import Price, price

EPSILONS = (0.01, 0.1, 1.0)
DELTA = 1e-6  # far below one over the number of cities
RUNS = 10


@dataclass(frozen=True, eq=False)
class PrivateCities:
    """Fits for each budget, and the price of privacy."""

    plain_centers: Array  # of k-means without privacy
    models: tuple[PrivateKMeans, ...]  # one for each epsilon: the one of median cost
    ratios: Array  # of the costs of these models to the cost without privacy
    price: Price


def fit_privately(
    cities: Cities, runs: int = RUNS, done: Callable[[float], Any] = lambda _: None
) -> PrivateCities:
    """Fit `runs` times for each budget. `done` is told the part that is complete."""
    X, made = cities.places, list[PrivateKMeans]()

    def make(epsilon: float) -> PrivateKMeans:
        done(len(made) / (runs * len(EPSILONS)))
        made.append(PrivateKMeans(REGIONS, epsilon=epsilon, delta=DELTA, radius=1.0))
        return made[-1]

    best = KMeans(REGIONS, n_init=10, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of small budgets: the page shows their cost
        found = price(make, X, EPSILONS, against=best.inertia_, runs=runs)
    middle = np.argsort(found.ratios, axis=1, kind="stable")[:, (runs - 1) // 2]
    chosen = tuple(made[runs * i + int(run)] for i, run in enumerate(middle))
    ratios = found.ratios[np.arange(len(middle)), middle]
    return PrivateCities(best.cluster_centers_, chosen, ratios, found)
