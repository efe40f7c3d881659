"""The fit of k-means: the only one, wherever the rows are.

    for each of n_init runs:  seed k centres, run the refinement
    keep the run of lowest cost

Where the rows are, is `Data`; what is minimised, is an `Objective`. Rows that cannot be asked once
for every centre (blocks of a file) have a summary: the fit of the summary gives the first centres.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from kvariates.data.protocol import Data
from kvariates.data.rows import F64
from kvariates.numerics.draws import TOO_LARGE
from kvariates.objectives.objective import Objective
from kvariates.refining.lloyd import LloydResult, RefineProblem, StopRule, evaluated
from kvariates.refining.refinements import REFINEMENTS
from kvariates.refining.size_limits import SizeLimits, refine_within
from kvariates.seeding.seeding_problem import SeedingProblem
from kvariates.seeding.seedings import SEEDINGS

MakeCenters = Callable[[Data, np.random.Generator], F64]


@dataclass(frozen=True, eq=False)
class FitOptions:
    """What a fit does.

    Attributes
    ----------
    k : int
        The number of centres.
    init : str, ndarray of shape (k, d), or callable
        A name in `SEEDINGS`; centres in the objective's coordinates; or a function that makes them
        from the data and a generator.
    algorithm : str
        A name in `REFINEMENTS`.
    n_init : int
        The number of runs.
    max_iter : int
        The most iterations of a run; with 0 the centres are the seeds.
    tol : float
        A run stops when the centres' squared shift is at most `tol` times `variance`.
    variance : float or None
        None: the mean variance of the features of the data.
    limits : SizeLimits or None
        On the sizes of clusters.
    keep_costs : bool
        Whether the result has the cost before each iteration.
    looser : float
        Times the tolerance, for Lloyd inside a seeding if more centres follow.
    """

    k: int
    init: str | F64 | MakeCenters
    algorithm: str = "auto"
    n_init: int = 1
    max_iter: int = 300
    tol: float = 1e-4
    variance: float | None = None
    limits: SizeLimits | None = None
    keep_costs: bool = False
    looser: float = 10.0


class Watch(Protocol):
    """Who is told of a fit while it runs."""

    def run(self, stop: StopRule) -> AbstractContextManager[StopRule]:
        """A run, from its seeding to its end; yields the rule that also tells of iterations."""

    def seeded(self) -> None:
        """The first centres of a run are known."""


class Unwatched:
    """Nobody is told."""

    def run(self, stop: StopRule) -> AbstractContextManager[StopRule]:
        return nullcontext(stop)

    def seeded(self) -> None:
        pass


def _check_offers(options: FitOptions, data: Data, objective: Objective) -> None:
    """ValueError unless the data and the objective offer what seeding and refinement need."""
    offers = objective.offers | data.offers
    if isinstance(options.init, str):
        SEEDINGS.check(options.init, offers, objective.name)
    REFINEMENTS.check(options.algorithm, offers, objective.name)


def fit_kmeans(
    data: Data, objective: Objective, options: FitOptions, rng: np.random.Generator,
    watch: Watch | None = None,
) -> LloydResult:  # fmt: skip
    """Seed, refine, and keep the best run. Pre: at least k rows."""
    _check_offers(options, data, objective)
    fit = KMeansFit(data, objective, options, rng, watch or Unwatched())
    if data.summary is not None and not isinstance(options.init, np.ndarray):
        fit = replace(fit, options=fit.options_from_summary())
    best = fit.run()
    for _ in range(1, fit.options.n_init):
        best = min(best, fit.run(), key=lambda run: run.inertia)
    if not np.isfinite(best.inertia):
        raise ValueError(TOO_LARGE)
    return objective.finish(data, best)


@dataclass(frozen=True, eq=False)
class KMeansFit:
    """What the runs of one fit share."""

    data: Data
    objective: Objective
    options: FitOptions
    rng: np.random.Generator
    watch: Watch

    @cached_property
    def variance(self) -> float:
        o = self.options
        if o.variance is not None:
            return o.variance
        return self.data.spread() if o.tol and o.max_iter else 0.0

    @cached_property
    def stop(self) -> StopRule:
        o = self.options
        return StopRule(o.max_iter, o.tol * self.variance, keep_costs=o.keep_costs)

    def run(self) -> LloydResult:
        """One run."""
        o = self.options
        with self.watch.run(self.stop) as stop:
            centers = self._first_centers()
            self.watch.seeded()
            if o.max_iter == 0:
                return evaluated(self.data, centers, 0, converged=False)
            lloyd: Any = self.objective.lloyd
            if o.limits is not None:
                lloyd = partial(refine_within, o.limits, self.objective.unit)
            unit = self.objective.unit
            problem = RefineProblem(self.data, centers, stop, lloyd, self.rng, unit)
            return REFINEMENTS[o.algorithm].run(problem)

    def options_from_summary(self) -> FitOptions:
        """Those of one run from the centres of the summary, and with the same tolerance."""
        known = replace(self.options, variance=self.variance)
        of_points = fit_kmeans(self.data.summary, self.objective, known, self.rng)
        return replace(known, init=of_points.centers.astype(np.float64), n_init=1)

    def _first_centers(self) -> F64:
        """In the objective's coordinates."""
        o = self.options
        if isinstance(o.init, np.ndarray):
            return o.init
        if callable(o.init):
            return o.init(self.data, self.rng)
        problem = SeedingProblem(
            self.data, o.k, self.objective.potential, self.objective.density, self._refined,
            rng=self.rng,
        )  # fmt: skip
        return SEEDINGS[o.init].run(problem)

    def _refined(self, data: Any, centers: F64) -> LloydResult:
        """Lloyd inside a seeding."""
        looser = len(centers) < self.options.k
        stop = replace(self.stop, keep_costs=False)
        if looser:
            stop = replace(stop, tol=self.options.looser * stop.tol)
        return self.objective.lloyd(data, centers, stop)
