"""Cost: what a release may cost, an epsilon (pure privacy) or a rho (zCDP)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.rounding import split


@dataclass(frozen=True)
class Cost:
    """Either an epsilon or a rho."""

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("Give either epsilon or rho.")

    @property
    def pure(self) -> bool:
        return self.rho is None

    @property
    def value(self) -> float:
        """The epsilon, or the rho."""
        return self.epsilon if self.rho is None else self.rho  # type: ignore[return-value]

    def split(self, shares: Sequence[float]) -> list[Cost]:
        """The cost in parts proportional to `shares`. Together they never cost more."""
        parts = split(self.value, shares)
        return [Cost(epsilon=part) if self.pure else Cost(rho=part) for part in parts]

    def deviation(self, adjacency: Adjacency, *, l1: float = 1.0, l2: float = 1.0) -> float:
        """About the standard deviation of the noise of one number.

        l1, l2 : how far one row more moves all numbers of the release.
        """
        twice = 1.0 if adjacency == "add-remove" else 2.0
        if self.pure:
            return twice * math.sqrt(2) * l1 / self.value
        return twice * l2 / math.sqrt(2 * self.value)
