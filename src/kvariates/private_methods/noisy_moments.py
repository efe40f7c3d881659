"""Moments of groups of rows, with noise: counts, sums and sums of squares, in units of a frame.

A row x of a group with frame (c, r) is z = (x - c) / r pulled into the unit ball, and enters

    its group's count      1
    its sum                z      l2 <= 1, l1 <= sqrt(p)
    its squares            z^2    coordinate by coordinate; l1 <= 1, for |z| <= 1
                                  (of leaves only their sum, |z|^2 <= 1)

Groups are disjoint and frames public or paid for, so that each of the three is one release whatever
the number of groups. In zCDP the three have equal parts of the cost, in pure privacy parts that
make their scales equal. Leaves with few axes have their squares for less: there it is counts and
means that find small groups far away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.lattice import Balls, lattice_sums
from kvariates.data.rows import Labels
from kvariates.privacy import mechanisms
from kvariates.private_methods.shrinkage import variance
from kvariates.private_methods.task import F64, Accountant, Cost, PrivateTask, parts
from kvariates.summaries.partition import FEW_AXES, Moments

FEW_LEAVES = (0.45, 0.45, 0.1)  # counts, sums, squares


def count_share(cost: Cost, p: int) -> float:
    """Of a count in a measure of p coordinates."""
    return 1 / 3 if "rho" in cost else 1 / (2 + math.sqrt(p))


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Moments of the task's rows, or of a picture of them in which each row is by itself.

    `costs[level]` is what one measure may cost.
    """

    task: PrivateTask
    rows: F64
    costs: list[Cost]
    accountant: Accountant
    what: str

    def __call__(self, labels: Labels, frames: Balls, level: int) -> Moments:
        p = self.rows.shape[1]
        cost, last = self.costs[level], level == len(self.costs) - 1
        ball, squares_ball = (
            mechanisms.Lattice(1.0, p, "l2"),
            mechanisms.Lattice(1.0, 1 if last else p, "l1"),
        )
        share = count_share(cost, p)
        few = last and p <= FEW_AXES and "rho" in cost
        shares = FEW_LEAVES if few else (share, 1 - 2 * share, share)
        counting, adding, squaring = parts(cost, shares)
        where = f"{self.what}, " + ("leaves" if last else f"level {level + 1}")
        exact = lattice_sums(self.rows, labels, len(frames.radii), ball, frames, squares=True)
        totals = exact.squares.sum(axis=1, keepdims=True) if last else exact.squares
        adjacency = self.task.adjacency
        counts = mechanisms.counts(
            exact.counts, adjacency=adjacency, label=f"{where}: rows", **counting
        )
        sums = mechanisms.sums(
            exact.totals, grid=ball, adjacency=adjacency, label=f"{where}: sums", **adding
        )
        squares = mechanisms.sums(
            totals, grid=squares_ball, adjacency=adjacency, label=f"{where}: squares",
            **squaring,
        )  # fmt: skip
        noisy = [self.accountant.record(release) for release in (counts, sums, squares)]
        errors = [math.sqrt(variance(release[1])) for release in (counts, sums, squares)]
        by = np.maximum(noisy[0], 1.0)[:, None]
        return Moments(
            noisy[0].astype(np.float64), noisy[1] / by, noisy[2] / by,
            (errors[0], errors[1], errors[2]),
        )  # fmt: skip
