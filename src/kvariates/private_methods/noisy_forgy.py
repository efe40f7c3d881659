"""Forgy-DP (Nock et al. 2016, section 5): k rows picked at random, each with noise.

Each pick may be any row at all, so that its noise hides the domain's diameter: k releases of
sensitivity 2R. That rows are picked at random is not made use of; `kvariates.Floored` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.privacy import mechanisms
from kvariates.private_methods.task import Accountant, PrivateResult, PrivateTask
from kvariates.seeding.forgy import forgy


@dataclass(frozen=True)
class NoisyForgy:
    """Rows at the domain's centre stand in where there are fewer than k."""

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant, grid = Accountant(), task.narrowest_grid
        missing = np.zeros((max(0, task.k - len(task.rows)), task.domain.d))
        rows = np.concatenate([task.rows, missing]) if len(missing) else task.rows
        picked = rows[forgy(len(rows), task.k, None, np.random.default_rng())]
        noisy = [
            accountant.record(
                # Whatever the adjacency, a pick may go from any row to any other.
                mechanisms.sums(
                    row, grid=grid, adjacency="replace-one", label=f"row {j + 1}", **cost
                )
            )
            for j, (row, cost) in enumerate(
                zip(mechanisms.quantize(picked, grid), task.costs([1.0] * task.k), strict=True)
            )
        ]
        return PrivateResult(task.domain.inside(np.array(noisy)), tuple(accountant.charges))
