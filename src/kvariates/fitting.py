"""The fit of k-means: the only one, wherever the rows are.

    for each of n_init runs:  seed k centres, run the refinement
    keep the run of lowest cost

`Data` says where the rows are, and an `Objective` what is minimised. Rows that cannot be asked once
for every centre (blocks of a file) have a summary: the fit of the summary gives the first centres.

A fit of blocks makes these passes:

| pass | what it computes |
|---|---|
| 1 | the totals of the rows, and a summary of them to start from |
| 2 | the spread of the rows, for the tolerance |
| one for each iteration | exact Lloyd |
| the last one | the cost of the centres |

There is no summary if the first centres are given or drawn by k-means||, which makes up to 14
passes in a run: two for the first centre, two in each of five rounds, two for the chosen rows. It
makes more if the rounds draw fewer than k different rows. An iteration that has to move empty
clusters makes two passes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kvariates.data.block_data import BlockData, read_weights
from kvariates.data.blocks import BlockTotals, CountedBlocks, RowBlocks
from kvariates.data.host_data import Data
from kvariates.data.rows import F64
from kvariates.numerics.draws import TOO_LARGE
from kvariates.objectives.objective import Objective
from kvariates.refining.lloyd import LloydResult, RefineProblem, StopRule, evaluated
from kvariates.refining.refinements import REFINEMENTS
from kvariates.refining.size_limits import SizeLimits, refine_within
from kvariates.seeding.sampler import SeedingProblem
from kvariates.seeding.seedings import SEEDINGS
from kvariates.summaries.merge_reduce import summarize

BY_ROUNDS = "k-means||"  # the seeding that reads all rows of blocks
POINTS, POINTS_OF_CLUSTER = 20_000, 50  # of a summary of blocks, at least

MakeCenters = Callable[[Data, np.random.Generator], F64]


@dataclass(frozen=True, eq=False)
class FitOptions:
    """What a fit does."""

    k: int
    # A name in `SEEDINGS`; centres in the objective's coordinates; or a function that makes them.
    init: str | F64 | MakeCenters
    algorithm: str = "auto"  # a name in `REFINEMENTS`
    n_init: int = 1
    max_iter: int = 300  # with 0 the centres are the seeds
    tol: float = 1e-4  # a run stops when the centres' squared shift is at most tol times `variance`
    variance: float | None = None  # None: the mean variance of the features of the data
    limits: SizeLimits | None = None
    keep_costs: bool = False  # whether the result has the cost before each iteration
    looser: float = 10.0  # times the tolerance, for Lloyd inside a seeding if more centres follow

    @property
    def stop(self) -> StopRule:
        """Pre: `variance` is known."""
        tol = self.tol * (self.variance or 0.0)
        return StopRule(self.max_iter, tol, keep_costs=self.keep_costs)


class Watch:
    """Who is told of a fit while it runs. This one tells nobody."""

    def run(self, stop: StopRule) -> AbstractContextManager[StopRule]:
        """A run, from its seeding to its end; yields the rule that also tells of iterations."""
        return nullcontext(stop)

    def seeded(self) -> None:
        """The first centres of a run are known."""


NOBODY = Watch()


def fit_kmeans(
    data: Data, objective: Objective, options: FitOptions, rng: np.random.Generator,
    watch: Watch = NOBODY,
) -> LloydResult:  # fmt: skip
    """Seed, refine, and keep the best run. Pre: at least k rows."""
    offers, o = objective.offers | data.offers, options
    if isinstance(o.init, str):
        SEEDINGS.check(o.init, offers, objective.name)
    REFINEMENTS.check(o.algorithm, offers, objective.name)
    if o.variance is None:
        o = replace(o, variance=data.spread() if o.tol and o.max_iter else 0.0)
    if data.summary is not None and not isinstance(o.init, np.ndarray):
        start = fit_kmeans(data.summary, objective, o, rng).centers
        o = replace(o, init=start.astype(np.float64), n_init=1)

    refinement, unit = REFINEMENTS[o.algorithm].run, objective.unit
    lloyd: Any = objective.lloyd
    if o.limits is not None:
        lloyd = partial(refine_within, o.limits, unit)
    best: LloydResult | None = None
    for _ in range(o.n_init):
        with watch.run(o.stop) as stop:
            centers = _first_centers(data, objective, o, rng)
            watch.seeded()
            if o.max_iter == 0:
                found = evaluated(data, centers, 0, converged=False)
            elif isinstance(refinement, str):
                found = lloyd(data, centers, stop, refinement, overwrite=True)
            else:
                found = refinement(RefineProblem(data, centers, stop, lloyd, rng, unit))
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None  # noqa: S101
    if not np.isfinite(best.inertia):
        raise ValueError(TOO_LARGE)
    return objective.finish(data, best)


def _first_centers(
    data: Data, objective: Objective, o: FitOptions, rng: np.random.Generator
) -> F64:
    """In the objective's coordinates: an array of their own, which a refinement may overwrite."""
    if isinstance(o.init, np.ndarray):
        return o.init.copy()
    if callable(o.init):
        return o.init(data, rng).copy()

    def lloyd(part: Any, centers: F64) -> LloydResult:
        looser = o.looser if len(centers) < o.k else 1.0
        stop = StopRule(o.max_iter, looser * o.stop.tol)
        return objective.lloyd(part, centers, stop)

    problem = SeedingProblem(data, o.k, objective.potential, objective.density, lloyd, rng=rng)
    return SEEDINGS[o.init].run(problem)


def open_blocks(
    blocks: RowBlocks, init: Any, k: int, check: Callable[[BlockTotals], None],
    rng: np.random.Generator, *, keep_costs: bool,
) -> BlockData:  # fmt: skip
    """Read all rows once: their totals, which are checked, and what first centres are drawn from.

    `init`: a name, given centres, or a function that makes them. The cost before each iteration is
    measured only to `keep_costs`.
    """
    counted = CountedBlocks(blocks, check)
    summary = weight = None
    if isinstance(init, str) and init == BY_ROUNDS:
        weight = read_weights(counted)
    elif isinstance(init, str) or callable(init):
        summary = summarize(counted, max(POINTS, POINTS_OF_CLUSTER * k), k, rng).data
    else:
        for _ in counted:
            pass
    return BlockData(blocks, counted.totals, weight, summary, keep_costs)
