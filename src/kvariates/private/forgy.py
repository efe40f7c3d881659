"""Forgy-DP (Nock et al. 2016, section 5): k rows picked at random, each with noise.

Each pick may be any row at all, so that its noise hides the domain's diameter: k releases of
sensitivity 2R. That rows are picked at random is not made use of; `kvariates.Floored` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.geometry.euclidean import Space
from kvariates.privacy import noise
from kvariates.private.task import Receipts, Released, Task
from kvariates.seeding.forgy import forgy


@dataclass(frozen=True)
class Forgy:
    """Rows at the domain's centre stand in where there are fewer than k."""

    def __call__(self, task: Task) -> Released:
        receipts, grid = Receipts(), task.narrowest_grid
        missing = np.zeros((max(0, task.k - len(task.rows)), task.domain.d))
        rows = np.concatenate([task.rows, missing]) if len(missing) else task.rows
        picked = forgy(Space.of(rows), task.k, None, np.random.default_rng()).centers
        noisy = [
            receipts.keep(
                # Whatever the adjacency, a pick may go from any row to any other.
                noise.sums(row, grid=grid, adjacency="replace-one", label=f"row {j + 1}", **cost)
            )
            for j, (row, cost) in enumerate(
                zip(noise.fixed(picked, grid), task.costs([1.0] * task.k), strict=True)
            )
        ]
        return Released(task.domain.inside(np.array(noisy)), tuple(receipts.charges))
