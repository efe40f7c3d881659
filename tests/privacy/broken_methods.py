"""Private methods with planted mistakes, each with the case and the number of runs that show it.

The numbers of runs were chosen beforehand. An event with probability p on one data set and q on the
other is certified from half of the runs at about log((p - 5 sd(p)) / (q + 5 sd(q))), as four bounds
share the error of 1e-6. This is above the claim, 1, by five of its own standard deviations.

| mistake | p, q | runs | certified |
|---|---|---|---|
| half the noise (epsilon 2 for 1) | 1/2, e^-2 / 2 | 4000 | 1.5 +- 0.07 |
| rows far apart and no floor (ratio 148) | 1/4, 1/600 | 2000 | 2.3 +- 0.17 |
| a cell that only one data set has | 0.3, 0 | 1000 | 1.9 +- 0.08 |
| rows in twelve blocks instead of one | 0.9, 0.01 | 600 | 2.3 +- 0.2 |
| an exact value | 1, 0 | 400 | 2.5 |
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from api import (
    Accountant,
    Domain,
    Floored,
    GridMethod,
    Gupt,
    NoisyForgy,
    NoisyLloyd,
    PrivateResult,
    Secret,
    WithLaplace,
    measurement,
)
from api import mechanisms_module as mechanisms
from api import noisy_kvariates_module as noisy_kvariates
from api import sample_aggregate_module as sample_aggregate
from privacy.mechanism_cases import empty_cells_skipped, noise_halved, one_noise_for_all
from privacy.method_cases import LOSSES, Case, Scene
from privacy.private_models import seen as value_of

PURE = LOSSES["pure"]
ALONE = Scene("empty", 1, 1, 1)


@dataclass(frozen=True, eq=False)
class Mistake:
    """A case, and a context with the mistake."""

    case: Case
    runs: int
    planted: object = nullcontext


def noise_of_rows_halved():
    def half(*args):
        made = mechanisms.noisy_rows(*args)
        scale = made.noise.scale / 2
        less = replace(made.noise, scale=scale, measurement=measurement("laplace", scale))
        return replace(made, noise=less)

    return patch.object(noisy_kvariates, "noisy_rows", half)


def no_floor():
    true = noisy_kvariates.FlooredPotential
    return patch.object(noisy_kvariates, "FlooredPotential", lambda *args: true(*args[:-1], 0))


def exact_number_of_rows():
    true = Accountant.release

    def exact(accountant, query, cost):
        made = true(accountant, query, cost)
        exact = value_of(query)
        if exact.label == "number of rows":
            return replace(made, value=int(exact.values[0]))
        return made

    return patch.object(Accountant, "release", exact)


def local_indices():
    """A block of m rows takes the first m rows of the data."""

    def results(task, blocks):
        rng, rows = np.random.default_rng(), value_of(task.rows)
        sizes = np.bincount(rng.integers(blocks, size=len(rows)), minlength=blocks)
        found = [sample_aggregate._cluster(task, rows[:size], rng) for size in sizes]
        return Secret(np.stack(found))

    return patch.object(sample_aggregate, "block_results", results)


class BoundsFromData(Case):
    def domain(self, X):
        return Domain.box(X.min(axis=0) - 0.01, X.max(axis=0) + 0.01)


@dataclass(frozen=True, eq=False)
class WithInertia(PrivateResult):
    inertia: float = 0.0


@dataclass(frozen=True)
class InertiaPublished:
    def __call__(self, task):
        result = NoisyLloyd(steps=1)(task)
        inertia = _inertia(value_of(task.rows), result.centers)
        return WithInertia(result.centers, result.charges, inertia=inertia)


class ComparesInertia(Case):
    def view(self, seen):
        """The inertia minus that of the first data set with the same centres."""
        rows = value_of(self.scene.domain.rows(self.neighbours.first))
        return seen.result.inertia - _inertia(rows, seen.result.centers)


def _inertia(rows, centers):
    return float(((rows[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum())


def _mistake(method, scene, runs, planted=nullcontext, adjacency="replace-one", case=Case):
    return Mistake(case(method, adjacency, PURE, scene), runs, planted)


MISTAKES = {
    "noise halved": _mistake(NoisyForgy(), ALONE, 4000, noise_halved),
    "noise of drawn rows halved": _mistake(WithLaplace(), ALONE, 4000, noise_of_rows_halved),
    "no floor": _mistake(Floored(), Scene("lone", 1000, 1, 2), 2000, no_floor),
    "number of rows without noise": _mistake(
        Floored(), Scene("lone", 30, 1, 1), 400, exact_number_of_rows, "add-remove"
    ),
    "bounds taken from data": _mistake(
        NoisyForgy(), Scene("lone", 6, 2, 2), 1000, adjacency="add-remove", case=BoundsFromData
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
SLOWLY_CAUGHT = (
    "noise of drawn rows halved", "no floor", "local indices reused as global",
    "inertia published", "one noise value for all coordinates",
)  # fmt: skip
