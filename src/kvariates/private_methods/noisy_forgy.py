"""Forgy-DP (Nock et al. 2016, section 5): k rows picked at random, each with noise.

A pick may change from any row to any other, so each of the k releases has the diameter of the
domain as its sensitivity. That rows are picked at random is not used; `noisy_kvariates.Floored`
does use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from kvariates.data.lattice_rows import quantize
from kvariates.numerics.lattice import Lattice
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import Query, sum_query
from kvariates.private_methods.center_errors import DRAWN_ROW, CenterErrors
from kvariates.private_methods.task import F64, PrivateResult, PrivateTask
from kvariates.seeding.seedings import forgy


@dataclass(frozen=True)
class NoisyForgy:
    """If there are fewer than k rows, rows at the centre of the domain are added."""

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant, lattice = Accountant(), task.narrowest_lattice
        rng = np.random.default_rng()
        picked = task.rows.map(lambda rows: quantize(_picked(rows, task.k, rng), lattice))
        noisy = [
            accountant.release(picked.map(partial(_query, task, lattice, j)), cost).value
            for j, cost in enumerate(task.cost.split([1.0] * task.k))
        ]
        centers, charges = task.domain.clip(np.array(noisy)), tuple(accountant.charges)
        errors = CenterErrors.of_noise(
            centers, np.array(noisy), charges[-1], 1.0, 2 * task.domain.half, DRAWN_ROW
        )
        return PrivateResult(centers, charges, errors=errors)


def _picked(rows: F64, k: int, rng: np.random.Generator) -> F64:
    missing = np.zeros((max(0, k - len(rows)), rows.shape[1]))
    rows = np.concatenate([rows, missing]) if len(missing) else rows
    return rows[forgy(len(rows), k, None, rng)]


def _query(task: PrivateTask, lattice: Lattice, number: int, picked: F64) -> Query[F64]:
    """For both adjacencies a pick is replaced by another."""
    label = f"row {number + 1}"
    return sum_query(picked[number], lattice, task.adjacency, label, change="replace-one")
