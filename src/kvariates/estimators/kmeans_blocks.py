"""KMeans on blocks: the passes of a fit.

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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvariates.data.blocks import BlockTotals, CountedBlocks, SourceBlocks
from kvariates.data.rows import F64
from kvariates.estimators import validation
from kvariates.estimators.block_results import CoordinateBlocks
from kvariates.estimators.callbacks import reporting
from kvariates.estimators.kmeans_runs import RunOptions, best_on_summary, given_centers
from kvariates.numerics.draws import TOO_LARGE
from kvariates.objectives.objective import SquaredEuclidean
from kvariates.refining.block_assigner import BlockResult, refine_blocks
from kvariates.seeding.block_potential import kmeans_parallel_blocks, read_weights
from kvariates.summaries.merge_reduce import summarize
from kvariates.summaries.weighted_points import WeightedPoints

EXACT = "k-means||"  # the seeding that reads all rows
ALGORITHMS = "auto", "lloyd"
POINTS, POINTS_OF_CLUSTER = 20_000, 50  # of a summary, at least


@dataclass(frozen=True, eq=False)
class BlockFit:
    """What the runs of one fit share."""

    objective: SquaredEuclidean
    source: SourceBlocks
    blocks: CoordinateBlocks
    totals: BlockTotals
    summary: WeightedPoints | None
    weight: F64 | None  # of all rows, for k-means||

    def runs(self, n_init: int) -> int:
        """How many runs read all rows: one if the best of n_init runs on a summary starts it."""
        return 1 if self.summary is not None else n_init


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


def first_pass(
    init: Any, k: int, objective: SquaredEuclidean, source: SourceBlocks, rng: np.random.Generator
) -> BlockFit:
    """Read all rows once: their totals, and what the first centres are drawn from."""
    blocks = CoordinateBlocks(source, objective)

    def check(totals: BlockTotals) -> None:
        if totals.n < k:
            raise ValueError(
                f"n_samples={totals.n} should be >= n_clusters={k} ({source.description})."
            )
        validation.weight_range(totals.scale.lightest, totals.scale.heaviest)

    counted = CountedBlocks(blocks, check)
    summary = weight = None
    if isinstance(init, str) and init == EXACT:
        weight = read_weights(counted)
    elif isinstance(init, str) or callable(init):
        summary = summarize(counted, max(POINTS, POINTS_OF_CLUSTER * k), k, rng)
        _check_summary(summary, k, source)
    else:
        for _ in counted:
            pass
    return BlockFit(objective, source, blocks, counted.totals, summary, weight)


def _check_summary(summary: WeightedPoints, k: int, source: SourceBlocks) -> None:
    if summary.n < k:
        raise ValueError(
            f"{source.description} has {summary.n} rows of positive weight, fewer than "
            f"n_clusters={k}. Lower n_clusters."
        )


def run_blocks(
    model: Any, fit_task: Any, fit: BlockFit, options: RunOptions, rng: np.random.Generator
) -> BlockResult:
    """The best run. `model` and `fit_task` are for scikit-learn's callbacks and verbose output."""
    count = fit.runs(options.n_init)
    runs = (_run(model, fit_task, fit, options, rng) for _ in range(count))
    best = min(runs, key=lambda run: run.inertia)
    if not np.isfinite(best.inertia):
        raise ValueError(TOO_LARGE)
    return replace(best, inertia=fit.objective.cost(best.inertia))


def _run(
    model: Any, fit_task: Any, fit: BlockFit, options: RunOptions, rng: np.random.Generator
) -> BlockResult:
    task = fit_task.subcontext(task_name="run", max_subtasks=options.stop.max_iter)
    task.call_on_fit_task_begin(estimator=model, X=fit.source)
    centers = _start(options, fit, rng)
    if model.verbose:
        print("Initialization complete")
    stop = reporting(options.stop, model, task, fit.objective)
    unit, costs = fit.objective.unit, bool(model.verbose)
    result = refine_blocks(fit.blocks, fit.totals, centers, stop, unit=unit, costs=costs)
    task.call_on_fit_task_end(estimator=model, X=fit.source)
    return result


def _start(options: RunOptions, fit: BlockFit, rng: np.random.Generator) -> F64:
    """The first centres of a run."""
    totals, k = fit.totals, options.k
    if fit.summary is not None:
        best = best_on_summary(options, fit.objective, fit.summary, rng)
        return best.centers.astype(np.float64)
    if isinstance(options.init, str):
        return kmeans_parallel_blocks(fit.blocks, totals, fit.weight, k, rng)
    return given_centers(options.init, k, fit.objective, totals.dtype, totals.d)
