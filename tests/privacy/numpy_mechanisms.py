"""Small mechanisms in NumPy whose epsilon is known exactly, and a planted mistake in each.

A mechanism takes rows, the number of outputs and a generator; `planted=True` makes the mistake.
Without it the claim is nearly tight, so these also test for false alarms. `runs` catch the mistake
for each of ten seeds (`python -m experiments.audit` measures how many do): 4000 if epsilon doubles
or more, up to 40,000 if it grows by half or is spread over coordinates. NumPy's noise is not
secret, so none of these mechanisms is private. `mechanism_cases.py` and `broken_methods.py` plant
other mistakes in the library itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from api import audit
from privacy.neighbours import Neighbours, neighbours
from scipy import optimize, stats

PAIR = (np.array([1.0]), np.array([0.0]))


def run(mechanism, pair=PAIR, *, epsilon=1.0, runs=4000, batch=True, **options):
    """An audit on the smallest pair of neighbours."""
    return audit(mechanism, pair, epsilon=epsilon, runs=runs, batch=batch, **options)


def laplace_mechanism(scale, seed=0):
    rng = np.random.default_rng(seed)
    return lambda data, runs: data[0] + on_lattice(rng.laplace(scale=scale, size=runs))


@dataclass(frozen=True, eq=False)
class Case:
    """A mechanism, neighbours, a claim, and how many runs show the planted mistake."""

    mechanism: Callable
    neighbours: Neighbours
    claim: dict = field(default_factory=lambda: {"epsilon": 1.0})
    runs: int = 4000

    def planted(self, rng):
        return partial(self.mechanism, rng=rng, planted=True)

    def right(self, rng):
        return partial(self.mechanism, rng=rng, planted=False)


def on_lattice(values):
    """Rounded values: the last bits of a float sum would show what was added."""
    return np.rint(np.asarray(values) * 2.0**16) / 2.0**16


def laplace(value, scale, runs, rng):
    value = on_lattice(value)
    return value + on_lattice(rng.laplace(scale=scale, size=(runs, *value.shape)))


def gauss(value, sigma, runs, rng):
    value = on_lattice(value)
    return value + on_lattice(rng.normal(scale=sigma, size=(runs, *value.shape)))


def cells(X, per_axis=4, low=-1.0, high=1.0):
    """Counts of the cells of a public grid over the first two columns."""
    edges = np.linspace(low, high, per_axis + 1)
    return np.histogramdd(X[:, :2], bins=[edges] * min(2, X.shape[1]))[0].ravel()


def noise_halved(X, runs, rng, planted):
    """A count."""
    return laplace(len(X), 0.5 if planted else 1.0, runs, rng)


def noise_in_floating_point(X, runs, rng, planted):
    """A sum with float noise, whose rounding shows what it was added to."""
    if planted:
        return X.sum() + rng.laplace(size=runs)
    return laplace(X.sum(), 1.0, runs, rng)


def gaussian_noise_halved(X, runs, rng, planted, rho=0.05):
    """A sum in an l2 ball of radius 1, rho-zCDP."""
    sigma = 1.0 / math.sqrt(2 * rho) * (0.5 if planted else 1.0)
    return gauss(X.sum(axis=0), sigma, runs, rng)


def gaussian_noise_halved_delta(X, runs, rng, planted, epsilon=1.0, delta=0.01):
    """The same as (epsilon, delta), sigma as small as it may be (Balle and Wang 2018)."""

    def excess(sigma):
        shift = epsilon * sigma
        tail = math.exp(epsilon) * stats.norm.cdf(-0.5 / sigma - shift)
        return stats.norm.cdf(0.5 / sigma - shift) - tail - delta

    sigma = optimize.brentq(excess, 0.1, 100.0) * (0.5 if planted else 1.0)
    return gauss(X.sum(axis=0), sigma, runs, rng)


def level_not_charged(X, runs, rng, planted, levels=3):
    """Noisy counts of a binary tree over the first column; one level is not charged."""
    scale = (levels - 1 if planted else levels) / 1.0
    counts = [np.histogram(X[:, 0], bins=2**h, range=(-1, 1))[0] for h in range(levels)]
    return laplace(np.concatenate(counts), scale, runs, rng)


def budgets_swapped(X, runs, rng, planted):
    """Sums with d budgets and a count with another, d * each + count = 1; they are swapped."""
    d = X.shape[1]
    each, count = 1.0 / (2 * d), 0.5
    if planted:
        each, count = count, each
    sums = laplace(X.sum(axis=0), 1.0 / each, runs, rng)
    return np.column_stack([sums, laplace(len(X), 1.0 / count, runs, rng)])


def noise_seeded(X, runs, rng, planted):
    """Noise with a fixed seed is a constant."""
    if planted:
        return np.stack([laplace(cells(X), 1.0, 1, np.random.default_rng(0))[0]] * runs)
    return laplace(cells(X), 1.0, runs, rng)


def exponential_twice(X, runs, rng, planted):
    """A choice by P ~ exp(-c * loss) under replace-one: c is 1/2, since losses rise and fall."""
    candidates = np.array([1.0] + [-1.0] * 10)
    loss = np.abs(X[:, :1] - candidates).sum(axis=0) / 2  # of one row at most 1
    weight = np.exp(-(1.0 if planted else 0.5) * (loss - loss.min()))
    return [f"candidate {i}" for i in rng.choice(11, size=runs, p=weight / weight.sum())]


def threshold_only(X, runs, rng, planted):
    """The names of the cells whose noisy count exceeds 2, without numbers."""
    counts = cells(X, 2)
    noisy = laplace(counts, 0.5 if planted else 1.0, runs, rng)
    return [tuple(f"cell {i}" for i in np.flatnonzero(row > 2)) for row in noisy]


CASES = {
    "noise halved": Case(noise_halved, neighbours("corner", 10, 1)),
    "noise in floating point": Case(noise_in_floating_point, neighbours("corner", 10, 1)),
    "Gaussian noise halved, rho": Case(
        gaussian_noise_halved, neighbours("corner", 10, 4, norm="l2"), {"rho": 0.05}, 20_000
    ),
    "Gaussian noise halved, delta": Case(
        gaussian_noise_halved_delta,
        neighbours("corner", 10, 1, norm="l2"),
        {"epsilon": 1.0, "delta": 0.01},
        20_000,
    ),
    "one tree level not charged": Case(level_not_charged, neighbours("corner", 10, 1), runs=40_000),
    "budget pair swapped": Case(budgets_swapped, neighbours("corner", 10, 4), runs=32_000),
    "seeded noise": Case(noise_seeded, neighbours("corner", 10, 2)),
    "exponential mechanism, wrong constant": Case(
        exponential_twice, neighbours("corner", 1, 1, "replace-one"), runs=12_000
    ),
    "threshold noise halved": Case(threshold_only, neighbours("lone", 3, 2), runs=20_000),
}
