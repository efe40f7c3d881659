"""Privacy claims, and what the probabilities of one event say about them.

| claim | an event of probability p on one data set and q on its neighbour shows |
|---|---|
| (epsilon, delta) | epsilon >= log((p - delta) / q) |
| rho-zCDP | rho >= D_a(p, q) / a for every order a > 1, D_a Renyi's divergence of two coins |

The second holds by data processing: whether the event happened is a function of the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kvariates.numerics.draws import F64

ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 8), np.geomspace(2.5, 256, 12)])


@dataclass(frozen=True)
class Approximate:
    """(epsilon, delta); pure where delta is 0."""

    epsilon: float
    delta: float = 0.0

    @property
    def value(self) -> float:
        return self.epsilon

    def least(self, p: F64, q: F64) -> F64:
        """The smallest value of a mechanism with probabilities at least p and at most q."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(p - self.delta, 0.0)) - np.log(q)).clip(min=0.0)

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else "")


@dataclass(frozen=True)
class Concentrated:
    """rho-zCDP (Bun and Steinke 2016)."""

    rho: float

    @property
    def value(self) -> float:
        return self.rho

    def least(self, p: F64, q: F64) -> F64:
        # Renyi's divergence of the coins grows as p grows and q shrinks, while p > q.
        larger = np.asarray(p > q)
        p, q, order = p[..., None], q[..., None], ORDERS
        with np.errstate(divide="ignore", invalid="ignore"):
            heads = order * np.log(p) + (1 - order) * np.log(q)
            tails = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
            rho = np.logaddexp(heads, tails) / ((order - 1) * order)
        return np.where(larger, np.nanmax(np.where(np.isnan(rho), 0.0, rho), axis=-1), 0.0)

    def __str__(self) -> str:
        return f"rho = {self.rho:g}"


Claim = Approximate | Concentrated


# --- bounds of probabilities, from counts ----------------------------------------------------


def low(k: int, n: int, error: float) -> float:
    """Clopper and Pearson's lower bound of the probability of an event seen k times of n."""
    return 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, error))


def high(k: int, n: int, error: float) -> float:
    """Clopper and Pearson's upper bound."""
    return 1.0 if k == n else float(special.betainccinv(k + 1, n - k, error))


def about(k: NDArray[Any], n: float, error: float) -> tuple[F64, F64]:
    """Both bounds, approximately. They only serve to choose an event."""
    with_event, without = _poisson(k, error), _poisson(n - k, error)
    lower = np.maximum(with_event[0], n - without[1]).clip(0.0, n) / n
    upper = np.minimum(with_event[1], n - without[0]).clip(0.0, n) / n
    return lower, upper


def _poisson(k: NDArray[Any], error: float) -> tuple[F64, F64]:
    """Bounds of the mean of a count, by Wilson and Hilferty's approximation."""
    z, some, more = -special.ndtri(error), np.maximum(k, 1e-9), k + 1
    lower = some * (1 - 1 / (9 * some) - z / (3 * np.sqrt(some))).clip(min=0.0) ** 3
    upper = more * (1 - 1 / (9 * more) + z / (3 * np.sqrt(more))) ** 3
    return lower, upper
