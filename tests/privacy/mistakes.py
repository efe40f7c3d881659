"""Mistakes planted in the private methods, each with the case that shows it and how many runs do.

Runs are chosen beforehand. An event with odds p on one data set and q on the other is certified
from half of them at about log((p - 5 sd(p)) / (q + 5 sd(q))): the error of 1e-6 is shared by four
bounds. Runs are so many that this is above the claim, 1, by five of its own standard deviations.

| what is planted | p, q | runs | certified |
|---|---|---|---|
| half the noise (epsilon 2 for 1) | 1/2, e^-2 / 2 | 4000 | 1.5 +- 0.07 |
| rows far apart and no floor (ratio 148) | 1/4, 1/600 | 2000 | 2.3 +- 0.17 |
| a cell that only one of two has | 0.3, 0 | 1000 | 1.9 +- 0.08 |
| rows in twelve blocks instead of one | 0.9, 0.01 | 600 | 2.3 +- 0.2 |
| something exact | 1, 0 | 400 | 2.5 |
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from privacy.methods import LOSSES, Case, Scene
from privacy.shipped import empty_cells_skipped, noise_halved

from kvariates.privacy import mechanisms, mixture
from kvariates.privacy.noise_source import Calibrated, measurement
from kvariates.private_methods import noisy_kvariates, sample_aggregate
from kvariates.private_methods.noisy_forgy import NoisyForgy
from kvariates.private_methods.noisy_grid import GridMethod
from kvariates.private_methods.noisy_kvariates import Floored, WithLaplace
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.private_methods.sample_aggregate import Gupt
from kvariates.private_methods.task import Domain, PrivateResult

PURE = LOSSES["pure"]
ALONE = Scene("empty", 1, 1, 1)


@dataclass(frozen=True, eq=False)
class Mistake:
    """A case, and a context in which it is wrong."""

    case: Case
    runs: int
    planted: object = nullcontext


def noise_of_rows_halved():
    def half(*asked):
        made = mixture.noisy_rows(*asked)
        scale = made.noise.scale / 2
        less = Calibrated("laplace", scale, made.noise.cost, measurement("laplace", scale))
        return replace(made, noise=less)

    return patch.object(noisy_kvariates, "noisy_rows", half)


def no_floor():
    true = noisy_kvariates.FlooredProbe
    return patch.object(noisy_kvariates, "FlooredProbe", lambda domain, floor: true(domain, 0))


def number_of_rows_not_noised():
    true = mechanisms.scalar
    return patch.object(mechanisms, "scalar", lambda value, **how: (value, true(value, **how)[1]))


def local_indices():
    """The rows of a block are taken to be the first so many rows."""

    def answers(task, blocks):
        rng = np.random.default_rng()
        sizes = np.bincount(rng.integers(blocks, size=len(task.rows)), minlength=blocks)
        return np.stack([sample_aggregate._answer(task, task.rows[:size], rng) for size in sizes])

    return patch.object(sample_aggregate, "answers", answers)


def one_noise_for_all():
    def shared(made, values):
        return values + made([0])[0]

    return patch.object(mechanisms, "_noisy", shared)


class BoundsFromData(Case):
    def domain(self, X):
        return Domain.box(X.min(axis=0) - 0.01, X.max(axis=0) + 0.01)


@dataclass(frozen=True, eq=False)
class WithInertia(PrivateResult):
    inertia: float = 0.0


@dataclass(frozen=True)
class InertiaPublished:
    def __call__(self, task):
        got = NoisyLloyd(steps=1)(task)
        return WithInertia(got.centers, got.charges, inertia=_inertia(task.rows, got.centers))


class ComparesInertia(Case):
    def view(self, seen):
        """How far the inertia is from that of the first data set with the same centres."""
        rows = self.scene.domain.rows(self.neighbours.first)
        return seen.released.inertia - _inertia(rows, seen.released.centers)


def _inertia(rows, centers):
    return float(((rows[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum())


def _mistake(method, scene, runs, planted=nullcontext, side="replace-one", case=Case):
    return Mistake(case(method, side, PURE, scene), runs, planted)


MISTAKES = {
    "noise halved": _mistake(NoisyForgy(), ALONE, 4000, noise_halved),
    "noise of drawn rows halved": _mistake(WithLaplace(), ALONE, 4000, noise_of_rows_halved),
    "no floor": _mistake(Floored(), Scene("lone", 1000, 1, 2), 2000, no_floor),
    "number of rows not noised": _mistake(
        Floored(), Scene("lone", 30, 1, 1), 400, number_of_rows_not_noised, "add-remove"
    ),
    "bounds taken from data": _mistake(
        NoisyForgy(), Scene("lone", 6, 2, 2), 1000, side="add-remove", case=BoundsFromData
    ),
    "empty cells skipped": _mistake(
        GridMethod(rows_a_cell=0.5), Scene("lone", 4, 1, 2), 1000, empty_cells_skipped
    ),
    "local indices reused as global": _mistake(
        Gupt(power=1.0), Scene("first", 12, 1, 1), 600, local_indices
    ),
    "inertia published": _mistake(
        InertiaPublished(), Scene("lone", 6, 2, 2), 400, case=ComparesInertia
    ),
    "one noise value for all coordinates": _mistake(
        NoisyLloyd(steps=1), Scene("axis", 300, 2, 1), 400, one_noise_for_all
    ),
}
