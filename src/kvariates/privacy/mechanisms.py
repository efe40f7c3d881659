"""Releases: the noisy answer to a query, with its charge.

| query | epsilon (pure) | rho (zCDP) |
|---|---|---|
| counts, sums, histograms | discrete Laplace noise | discrete Gaussian noise |
| scores | permute-and-flip | exponential mechanism |

The cost of a charge is the value of OpenDP's privacy map for the mechanism that ran. It is never
above the cost that was given, and at most a few units in the last place below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from kvariates.privacy.budget import Cost
from kvariates.privacy.ledger import Charge, SensitivityNorm
from kvariates.privacy.noise_source import Calibrated, Law, calibrated, check_installed
from kvariates.privacy.query import Query, Scores
from kvariates.privacy.rounding import root_up, up
from kvariates.privacy.secret import Secret

T = TypeVar("T")
NORMS: dict[Law, SensitivityNorm] = {"laplace": "l1", "gaussian": "l2"}


@dataclass(frozen=True, eq=False)
class Release(Generic[T]):
    """What was released, and its charge."""

    value: T
    charge: Charge


def release(query: Query[T], cost: Cost) -> Release[T]:
    """The noisy answer to a query, for a cost."""
    noise = _noise(query, cost)
    return Release(query.answer(noise, query.values), _charge(query, noise, cost))


def charge_of(query: Query[T], cost: Cost) -> Charge:
    """The charge of a release, without making it. It does not depend on the query's values."""
    return _charge(query, _noise(query, cost), cost)


@dataclass
class Accountant:
    """Makes releases and records their charges."""

    charges: list[Charge] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_installed()  # inside of a computation on private rows, no error is shown

    def release(self, query: Secret[Query[T]], cost: Cost) -> Release[T]:
        """The release of a query; its charge is recorded."""
        made = query.map(lambda exact: release(exact, cost)).reveal("it has noise, and a charge")
        self.charges.append(made.charge)
        return made

    def publish(self, secret: Secret[T], charge: Charge) -> T:
        """A value that was computed with noise of its own; its charge is recorded."""
        self.charges.append(charge)
        return secret.reveal(f"charged: {charge.label}")


def _noise(query: Query[T], cost: Cost) -> Calibrated:
    """The mechanism with the least noise that keeps to the cost."""
    value, exact, adjacency = float(cost.value), _exact(cost), query.change or query.adjacency
    moved = query.sensitivity
    if isinstance(moved, Scores):
        # OpenDP's maps are range / scale and (range / scale)^2 / 8.
        far = moved.range(adjacency)
        if cost.pure:
            return calibrated("permute-and-flip", far, value, up(far / exact))
        return calibrated("exponential", far, value, root_up(far**2 / (8 * exact)))
    if cost.pure:
        l1 = moved.l1(adjacency)
        return calibrated("laplace", l1, value, up(l1 / exact))
    l2 = root_up(Fraction(moved.l2_squared(adjacency)))
    return calibrated("gaussian", l2, value, root_up(Fraction(l2) ** 2 / (2 * exact)))


def _charge(query: Query[T], noise: Calibrated, cost: Cost) -> Charge:
    moved, far = query.sensitivity, float(noise.sensitivity) * query.sensitivity.step
    return Charge(
        label=query.label,
        mechanism=noise.law,
        adjacency=query.adjacency,
        sensitivity=moved.sensitivity if isinstance(moved, Scores) else far,
        norm=NORMS.get(noise.law, "score"),
        scale=noise.scale * moved.step,
        epsilon=noise.cost if cost.pure else None,
        rho=None if cost.pure else noise.cost,
        parallel=query.parallel,
    )


def _exact(cost: Cost) -> Fraction:
    if not 0 < cost.value < math.inf:
        name = "epsilon" if cost.pure else "rho"
        raise ValueError(f"{name} must be a number > 0; got {cost.value!r}.")
    return Fraction(cost.value)
