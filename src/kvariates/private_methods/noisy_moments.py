"""Noisy moments of groups of rows: counts, sums and sums of squares, in units of a ball.

A row x of a group with ball (c, r) is z = (x - c) / r clipped to the unit ball, and adds

    to the count of its group      1
    to the sum                     z      l2 <= 1, l1 <= sqrt(p)
    to the squares                 z^2    by coordinate; l1 <= 1, since |z| <= 1
                                          (in leaves only their sum |z|^2 <= 1)

Groups are disjoint, and balls are public or were computed from releases. So each of the three is
one release, whatever the number of groups. In zCDP the three have equal parts of the cost, with
pure epsilon parts that make their scales equal. Leaves with few axes spend less on squares: small
groups far away are found by counts and means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.lattice_rows import Balls, lattice_sums
from kvariates.data.rows import Labels
from kvariates.numerics.lattice import Lattice
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import count_query, sum_query
from kvariates.private_methods.task import F64, PrivateTask
from kvariates.summaries.partition import FEW_AXES, Moments

LEAF_SHARES = (0.45, 0.45, 0.1)  # of counts, sums and squares, in leaves with few axes


def count_share(cost: Cost, p: int) -> float:
    """The share of counts in the cost of moments of p coordinates."""
    return 1 / (2 + math.sqrt(p)) if cost.pure else 1 / 3


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy moments of the task's rows, or of projections of them, level by level.

    `costs[level]` is the cost of the level; the last one is that of the leaves.
    """

    task: PrivateTask
    rows: F64
    costs: list[Cost]
    accountant: Accountant
    label: str

    def __call__(self, labels: Labels, balls: Balls, level: int) -> Moments:
        p, cost, adjacency = self.rows.shape[1], self.costs[level], self.task.adjacency
        leaves = level == len(self.costs) - 1
        ball, squares_ball = Lattice(1.0, p, "l2"), Lattice(1.0, 1 if leaves else p, "l1")
        share = count_share(cost, p)
        few = leaves and p <= FEW_AXES and not cost.pure
        shares = LEAF_SHARES if few else (share, 1 - 2 * share, share)
        label = f"{self.label}, " + ("leaves" if leaves else f"level {level + 1}")
        exact = lattice_sums(self.rows, labels, len(balls.radii), ball, balls, squares=True)
        second = exact.squares.sum(axis=1, keepdims=True) if leaves else exact.squares
        release, costs = self.accountant.release, cost.split(shares)
        counts = release(count_query(exact.counts, adjacency, f"{label}: rows"), costs[0])
        sums = release(sum_query(exact.totals, ball, adjacency, f"{label}: sums"), costs[1])
        squares = release(sum_query(second, squares_ball, adjacency, f"{label}: squares"), costs[2])
        by = np.maximum(counts.value, 1.0)[:, None]
        return Moments(
            counts.value.astype(np.float64), sums.value / by, squares.value / by,
            *(math.sqrt(one.charge.variance) for one in (counts, sums, squares)),
        )  # fmt: skip
