"""What k-means estimators give to the one fit: the first centres, blocks, and who is told.

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

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_array

from kvariates.certificates.certificate import Certificate
from kvariates.certificates.kmeans_certificate import certify_kmeans
from kvariates.data.block_data import BlockData, read_weights
from kvariates.data.blocks import BlockTotals, CountedBlocks, SourceBlocks
from kvariates.data.host_data import Data, HostData
from kvariates.data.rows import F64
from kvariates.estimators import validation
from kvariates.estimators.block_results import CoordinateBlocks
from kvariates.estimators.callbacks import reporting
from kvariates.fitting.kmeans import Watch
from kvariates.objectives.objective import Objective, SquaredEuclidean
from kvariates.progress import Report
from kvariates.refining.lloyd import LloydResult, StopRule
from kvariates.refining.size_limits import SizeLimits
from kvariates.summaries.merge_reduce import summarize
from kvariates.summaries.weighted_points import WeightedPoints

BY_ROUNDS = "k-means||"  # the seeding that reads all rows of blocks
ALGORITHMS = "auto", "lloyd"  # on blocks
POINTS, POINTS_OF_CLUSTER = 20_000, 50  # of a summary, at least


def start_of(model: Any, objective: Objective, X: Any = None) -> Any:
    """`init` of KMeans for `FitOptions`: a name, or a function that makes centres.

    `X`: the rows as the user gave them, for a callable; None: those of the data. A callable is
    given the user's generator, if `random_state` is one; otherwise a RandomState, for which
    scikit-learn's users have written it.
    """
    init, k = model.init, int(model.n_clusters)
    if isinstance(init, str):
        return init
    own = isinstance(model.random_state, np.random.Generator)

    def made(data: Data, rng: np.random.Generator) -> F64:
        given = init
        if callable(init):
            state = rng if own else np.random.RandomState(rng.integers(2**32))
            rows: Any = data
            given = init(rows.rows.X if X is None else X, k, random_state=state)
        return given_centers(given, k, objective, data.dtype, data.d)

    return made


def given_centers(given: Any, k: int, objective: Objective, dtype: Any, d: int) -> F64:
    """Rounded to the rows' dtype, as fitted centres are, and in the objective's coordinates."""
    centers = check_array(given, dtype=dtype, order="C").astype(np.float64)
    validation.shape_of_centers(centers, k, d)
    try:
        return objective.start(centers)
    except ValueError as error:
        raise ValueError(f"init: {error}") from None


class RunWatch(Watch):
    """Tells of the runs of a model: verbose lines, and scikit-learn's callbacks."""

    def __init__(self, model: Any, task: Any, objective: Objective, X: Any) -> None:
        self._model, self._task, self._objective, self._X = model, task, objective, X

    @contextmanager
    def run(self, stop: StopRule) -> Iterator[StopRule]:
        model = self._model
        task = self._task.subcontext(task_name="run", max_subtasks=stop.max_iter)
        task.call_on_fit_task_begin(estimator=model, X=self._X)
        yield reporting(stop, model, task, self._objective)
        task.call_on_fit_task_end(estimator=model, X=self._X)

    def seeded(self) -> None:
        if self._model.verbose:
            print("Initialization complete")


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


def check_options(model: Any, source: SourceBlocks, sample_weight: Any) -> None:
    """ValueError unless KMeans can fit these blocks with its parameters."""
    validation.no_weights(sample_weight)
    if not source.repeatable:
        raise ValueError(
            f"{source.description} can be read only once, and KMeans reads its rows several times. "
            "Use StreamingKMeans, or a source that can be read again, such as a file."
        )
    needs_memory = {
        f"algorithm={model.algorithm!r}": model.algorithm not in ALGORITHMS,
        f"distortion={model.distortion!r}": model.distortion is not None,
        "certify=True": model.certify,
        f"size_min={model.size_min!r}": model.size_min is not None,
        f"size_max={model.size_max!r}": model.size_max is not None,
    }
    for option, given in needs_memory.items():
        if given:
            raise ValueError(
                f"{option} needs all rows in memory. With blocks use algorithm='auto' or 'lloyd', "
                "distortion=None, certify=False, and no limits on sizes."
            )


def open_blocks(
    model: Any, objective: SquaredEuclidean, source: SourceBlocks, rng: np.random.Generator
) -> BlockData:
    """Read all rows once: their totals, and what the first centres are drawn from."""
    blocks, init, k = CoordinateBlocks(source, objective), model.init, int(model.n_clusters)

    def check(totals: BlockTotals) -> None:
        if totals.n < k:
            raise ValueError(
                f"n_samples={totals.n} should be >= n_clusters={k} ({source.description})."
            )
        validation.weight_range(totals.scale.lightest, totals.scale.heaviest)

    counted = CountedBlocks(blocks, check)
    summary = weight = None
    if isinstance(init, str) and init == BY_ROUNDS:
        weight = read_weights(counted)
    elif isinstance(init, str) or callable(init):
        points = summarize(counted, max(POINTS, POINTS_OF_CLUSTER * k), k, rng)
        _check_summary(points, k, source)
        summary = points.data
    else:
        for _ in counted:
            pass
    return BlockData(blocks, counted.totals, weight, summary, keep_costs=bool(model.verbose))


def _check_summary(summary: WeightedPoints, k: int, source: SourceBlocks) -> None:
    if summary.n < k:
        raise ValueError(
            f"{source.description} has {summary.n} rows of positive weight, fewer than "
            f"n_clusters={k}. Lower n_clusters."
        )


def certificate_of(
    data: HostData, best: LloydResult, limits: SizeLimits | None, rng: np.random.Generator,
    report: Report | None,
) -> Certificate:  # fmt: skip
    """A lower bound on the cost of any centres, beside the cost of the best run."""
    centers = best.centers.astype(np.float64)
    labels = best.labels if limits is None else data.rows.nearest(centers)
    found = certify_kmeans(data, centers, labels, rng, report=report)
    if limits is None:
        return found
    rounding = found.only_rounding and found.cost == best.inertia
    return replace(found, cost=best.inertia, only_rounding=rounding)
