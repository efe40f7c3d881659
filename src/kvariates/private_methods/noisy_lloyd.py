"""Noisy Lloyd: the loop of `refining.lloyd` with an assigner whose statistics are noisy.

| what is summed | one row moves the sums by | used by |
|---|---|---|
| rows | the radius of the domain | `NoisyLloyd` (SuLQ; DP-Lloyd), from any start |
| residuals x - c, clipped to a radius for each cluster and divided by it | 1 | the tree |

The noise of residuals is in proportion to the radius of the cluster, not of the domain. Residuals
outside are shortened, which pulls the mean towards the centre, so radii must be about right. They
are public, or were computed from releases. The sums of all clusters are one release, since a row is
in one of them. The number of steps is fixed: only noisy counts and sums decide where centres move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvariates.data.cluster_sums import FloatStatistics, Statistics
from kvariates.data.lattice_rows import Balls, Lattice, lattice_sums
from kvariates.data.rows import F64, Rows
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import shrink
from kvariates.private_methods.domain import spread_out
from kvariates.private_methods.noisy_centers import CenterErrors, NoisyCounts, NoisyStep, is_clear
from kvariates.private_methods.task import PrivateMethod, PrivateResult, PrivateTask, Traits
from kvariates.refining.lloyd import Step, lloyd

MAGNITUDE = 0.45  # length of a centre in radii of the domain (Su et al. 2016: 2 x 0.225)


@dataclass(frozen=True)
class StepCosts:
    """The costs of the two releases of a step."""

    counts: Cost
    sums: Cost


Radii = Callable[[F64 | None, Cost], F64]
"""From the noisy counts of the last step (None at first) and the cost of sums to radii > 0."""


# proof: lloyd.md
class NoisyAssigner:
    """Assigns rows and releases noisy counts and sums of the clusters, of one step in each call.

    With `radii`, the sums are those of clipped residuals in units of the radii.

    signal : orthonormal columns (d, q), public or computed from releases. Steps on residuals are
        shrunken separately along them and across them: where centres differ in few directions,
        this removes the noise of the others.
    """

    def __init__(
        self,
        task: PrivateTask,
        costs: Sequence[StepCosts],
        radii: Radii | None = None,
        signal: F64 | None = None,
    ) -> None:
        self.task, self.costs, self.number = task, costs, 0  # of steps so far
        self.clear: NDArray[np.bool_]  # whether a count of the last step is more than noise
        self._rows, self._radii, self._signal = task.rows.map(Rows.of), radii, signal
        self.counts: F64 | None = None  # of the last step
        self.steps: list[NoisyStep] = []

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        task, cost = self.task, self.costs[self.number]
        self.number += 1
        lattice, what, balls = task.narrowest_lattice, "rows", None
        around: tuple[F64, ...] = ()
        if self._radii is not None:
            balls = Balls(centers, self._radii(self.counts, cost.sums))
            lattice, what = Lattice(1.0, task.domain.d, "l2"), "residuals"
            around = (centers, balls.radii[:, None])
        exact = self._rows.map(
            lambda rows: lattice_sums(rows.X, rows.nearest(centers), task.k, lattice, balls)
        )
        counted, totals = exact.map(lambda of: of.counts), exact.map(lambda of: of.totals)
        label = f"step {self.number}"
        counts = task.counts(counted, f"{label}: rows of each centre", cost.counts)
        sums = task.sums(totals, lattice, f"{label}: sums of {what}", cost.sums)
        self.counts = counts.value.astype(np.float64)
        self.clear = is_clear(counts.value, counts.charge.scale)
        self.steps.append(NoisyStep(sums.value, self.counts, sums.charge, counts.charge, *around))
        return FloatStatistics(sums.value, self.counts, counts.value, changed=None)

    @property
    def cluster_counts(self) -> NoisyCounts:
        """The means of the noisy counts of the second half of the steps.

        Those of all steps have less noise, and tell whether there were any rows.
        """
        late = np.mean([step.counts for step in self._late], axis=0)
        whole = NoisyCounts.of_steps(
            [step.counts for step in self.steps], [step.counted.variance for step in self.steps]
        )
        return replace(whole, values=np.maximum(late, 0.0))

    @property
    def _late(self) -> list[NoisyStep]:
        """The second half of the steps."""
        return self.steps[len(self.steps) // 2 :]

    def errors(self, centers: F64) -> CenterErrors:
        """Of the centres after the last step."""
        return CenterErrors.of_steps(centers, self._late, 2 * self.task.domain.half)

    def refine(self, centers: F64) -> F64:
        def stop(step: Step) -> bool:
            return step.iteration + 1 == len(self.costs)

        update = self._mean if self._radii is None else self._shrunken_mean
        return lloyd(self, centers, update, stop).centers

    def _mean(self, centers: F64, statistics: Statistics) -> F64:
        """Moves each centre with a clear count to the noisy mean of its rows, inside the domain."""
        clear, out = self.clear, centers.copy()
        out[clear] = statistics.sums[clear] / statistics.weights[clear, None]
        return self.task.domain.clip(out)

    def _shrunken_mean(self, centers: F64, statistics: Statistics) -> F64:
        """Moves each centre with a clear count by the shrunken noisy mean of its residuals."""
        step, clear, moves = self.steps[-1], self.clear, np.zeros_like(centers)
        by, d = statistics.weights[clear, None], centers.shape[1]
        each = step.summed.variance / by**2
        means = statistics.sums[clear] / by
        if self._signal is None:
            moves[clear] = shrink(means, d * each)
        else:
            inside, q = means @ self._signal @ self._signal.T, self._signal.shape[1]
            moves[clear] = shrink(inside, q * each) + shrink(means - inside, (d - q) * each)
        return self.task.domain.clip(centers + step.radii * moves)


# proof: lloyd.md
@dataclass(frozen=True)
class NoisyLloyd(PrivateMethod[PrivateTask]):
    """DP-Lloyd (Su et al. 2016; SuLQ k-means, Blum et al. 2005) from a public start.

    `steps` have equal shares of the budget.
    """

    traits = Traits(counts=True)

    steps: int = 5

    def __post_init__(self) -> None:
        self.check_count("Lloyd: steps", self.steps, least=1, optional=False)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task = task.without_charges()
        parts = task.cost.split([count_share(task.domain.d, pure=task.pure), 1.0] * self.steps)
        costs = [StepCosts(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        start = spread_out(task.domain, task.k, np.random.default_rng())
        assigner = NoisyAssigner(task, costs)
        centers = assigner.refine(start)
        counts, errors = assigner.cluster_counts, assigner.errors(centers)
        return PrivateResult(centers, task.charges, counts, errors=errors)


def count_share(d: int, *, pure: bool) -> float:
    """The cost of counts over that of sums with the least error of a centre of usual length.

    Counts cost MAGNITUDE^2 / epsilon_c^2 and sums d^2 / epsilon_s^2, up to the same factor; in
    zCDP MAGNITUDE^2 / rho_c and d / rho_s.
    """
    return float((MAGNITUDE / d) ** (2 / 3) if pure else MAGNITUDE / math.sqrt(d))
