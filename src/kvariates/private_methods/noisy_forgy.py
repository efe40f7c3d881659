"""Forgy-DP (Nock et al. 2016, section 5): k rows picked at random, each with noise.

A pick may change from any row to any other, so each of the k releases has the diameter of the
domain as its sensitivity. That rows are picked at random is not used; `noisy_kvariates.Floored`
does use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.data.lattice_rows import quantize
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import sum_query
from kvariates.private_methods.task import PrivateResult, PrivateTask
from kvariates.seeding.seedings import forgy


@dataclass(frozen=True)
class NoisyForgy:
    """If there are fewer than k rows, rows at the centre of the domain are added."""

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant, lattice = Accountant(), task.narrowest_lattice
        missing = np.zeros((max(0, task.k - len(task.rows)), task.domain.d))
        rows = np.concatenate([task.rows, missing]) if len(missing) else task.rows
        picked = rows[forgy(len(rows), task.k, None, np.random.default_rng())]
        noisy = [
            # For both adjacencies a pick is replaced by another.
            accountant.release(sum_query(row, lattice, "replace-one", f"row {j + 1}"), cost).value
            for j, (row, cost) in enumerate(
                zip(quantize(picked, lattice), task.cost.split([1.0] * task.k), strict=True)
            )
        ]
        return PrivateResult(task.domain.clip(np.array(noisy)), tuple(accountant.charges))
