"""The runs of a k-means fit: their first centres, the best run on weighted points, certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_array

from kvariates.certificates.certificate import Certificate
from kvariates.certificates.kmeans_certificate import LabelledCenters, certify_kmeans
from kvariates.data.rows import F64, Rows
from kvariates.estimators import validation
from kvariates.objectives.objective import Objective
from kvariates.progress import Report
from kvariates.refining.lloyd import LloydResult, StopRule, evaluated
from kvariates.refining.size_limits import SizeLimits
from kvariates.seeding.seeding_problem import SeedingProblem
from kvariates.seeding.seedings import SEEDINGS
from kvariates.summaries.weighted_points import WeightedPoints


@dataclass(frozen=True, eq=False)
class Fit:
    """What the runs of one fit share. `X`: the rows as the user gave them."""

    objective: Objective
    rows: Rows
    weight: F64 | None
    X: Any
    limits: SizeLimits | None = None


def size_limits(model: Any, rows: int, weight: F64 | None) -> SizeLimits | None:
    """The limits on sizes of KMeans, or None; ValueError if they cannot hold."""
    if model.size_min is None and model.size_max is None:
        return None
    for option, given, wanted in (
        ("algorithm", model.algorithm, ("auto", "lloyd", "swap")),
        ("distortion", model.distortion, (None,)),
    ):
        if given not in wanted:
            names = ", ".join(map(repr, wanted))
            raise ValueError(
                f"size_min and size_max do not work with {option}={given!r}; use {option}={names}."
            )
    limits = SizeLimits(model.size_min, model.size_max)
    limits.check(rows, weight, int(model.n_clusters))
    return limits


@dataclass(frozen=True, eq=False)
class RunOptions:
    """What the runs of one fit do.

    Attributes
    ----------
    init : str, callable or array-like
        As in `KMeans`.
    k : int
        The number of centres.
    n_init : int
        The number of runs.
    stop : StopRule
        When Lloyd ends.
    seeding_stop : StopRule
        When Lloyd ends inside a seeding, if more centres follow.
    own_generator : bool
        Whether a callable is given the generator; otherwise it is given a RandomState, for which
        scikit-learn's users have written it.
    """

    init: Any
    k: int
    n_init: int
    stop: StopRule
    seeding_stop: StopRule
    own_generator: bool = False


def first_centers(options: RunOptions, fit: Fit, rng: np.random.Generator) -> F64:
    """The first centres of a run, in the objective's coordinates."""
    objective, init = fit.objective, options.init
    if isinstance(init, str):

        def lloyd(rows: Rows, weight: F64 | None, centers: F64) -> LloydResult:
            all_there = len(centers) == options.k
            stop = options.stop if all_there else options.seeding_stop
            return objective.lloyd(rows, centers, weight, stop)

        problem = SeedingProblem(
            fit.rows, fit.weight, options.k, objective.potential, objective.density, lloyd, rng=rng
        )
        return SEEDINGS[init].run(problem)
    if callable(init):
        state = rng if options.own_generator else np.random.RandomState(rng.integers(2**32))
        init = init(fit.X, options.k, random_state=state)
    return given_centers(init, options.k, objective, fit.rows.dtype, fit.X.shape[1])


def given_centers(given: Any, k: int, objective: Objective, dtype: Any, d: int) -> F64:
    """Rounded to the rows' dtype, as fitted centres are, and in the objective's coordinates."""
    centers = check_array(given, dtype=dtype, order="C").astype(np.float64)
    validation.shape_of_centers(centers, k, d)
    try:
        return objective.start(centers)
    except ValueError as error:
        raise ValueError(f"init: {error}") from None


def best_on_summary(
    options: RunOptions, objective: Objective, points: WeightedPoints, rng: np.random.Generator
) -> LloydResult:
    """k-means on weighted points that stand for many rows: the run of lowest inertia.

    With max_iter=0 the centres are the seeds.
    """
    fit = Fit(objective, Rows.of(points.points), points.weights, points.points)

    def run() -> LloydResult:
        centers = first_centers(options, fit, rng)
        if options.stop.max_iter == 0:
            return evaluated(fit.rows, centers, fit.weight, 0, False)
        return objective.lloyd(fit.rows, centers, fit.weight, options.stop)

    return min((run() for _ in range(options.n_init)), key=lambda run: run.inertia)


def certificate_of(
    fit: Fit, best: LloydResult, rng: np.random.Generator, report: Report | None
) -> Certificate:
    """A lower bound on the cost of any centres, beside the cost of the best run."""
    centers = best.centers.astype(np.float64)
    labels = best.labels if fit.limits is None else fit.rows.nearest(centers)
    labelled = LabelledCenters(centers, labels)
    found = certify_kmeans(fit.rows, labelled, fit.weight, rng, report=report)
    if fit.limits is None:
        return found
    rounding = found.only_rounding and found.cost == best.inertia
    return replace(found, cost=best.inertia, only_rounding=rounding)
