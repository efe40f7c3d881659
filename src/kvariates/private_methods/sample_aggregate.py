"""Sample and aggregate: k-means on many small blocks of rows, and a private summary of the results.

Every row draws its block independently of the other rows. So one row more, less or replaced changes
the result of one block. A result is k centres in the domain, ordered by their first coordinates so
that results can be compared.

| method | summary of the results | noise |
|---|---|---|
| `Gupt` (Mohan et al. 2012) | their mean | the diameter of a result over the number of blocks |
| `SampleAggregate` (Nissim et al. 2007) | medians of coordinates | none: an interval is chosen |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from kvariates.data.lattice_rows import Lattice, quantize
from kvariates.data.rows import F64
from kvariates.privacy.query import Scores
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import kmeans
from kvariates.private_methods.noisy_centers import CenterErrors
from kvariates.private_methods.task import PrivateMethod, PrivateResult, PrivateTask

COUNT_SHARE = 0.05  # of the budget, if the number of rows is secret
INTERVALS = 256  # of an axis, for a median
MAX_ITER = 30  # of Lloyd, in a block
MOST_BLOCKS = 2**14  # public: the noise of a small epsilon alone can give a very large number
OF_MEDIANS = CenterErrors(None, "an interval around each median was drawn, and no noise was added")


# proof: aggregate.md
@dataclass(frozen=True)
class Gupt(PrivateMethod[PrivateTask]):
    """The noisy mean of the results of n^power blocks, at most `MOST_BLOCKS`."""

    power: float = 0.4

    def __post_init__(self) -> None:
        _check_power(self)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task = task.without_charges()
        count = task.row_count(COUNT_SHARE)
        blocks, lattice = _number_of_blocks(count.n, self.power), _lattice_of_results(task)
        total = block_results(task, blocks).map(
            lambda found: quantize(found.reshape(blocks, -1), lattice).sum(axis=0)
        )
        label, (cost,) = f"sum of {blocks} blocks' centres", count.costs
        # For both adjacencies one result is replaced by another.
        noisy = task.sums(total, lattice, label, cost, "replace-one").value
        means = (noisy / blocks).reshape(task.k, -1)
        centers, most, about = task.domain.clip(means), 2 * task.domain.half, "mean of all blocks"
        charge = task.charges[-1]
        errors = CenterErrors.of_noise(centers, means, charge, 1 / blocks, most, f"the {about}")
        return PrivateResult(centers, task.charges, errors=errors)


# proof: aggregate.md
@dataclass(frozen=True)
class SampleAggregate(PrivateMethod[PrivateTask]):
    """The median result of n^power blocks, for each coordinate (exponential mechanism).

    There are at most `MOST_BLOCKS` blocks.
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        _check_power(self)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task = task.without_charges()
        half = np.tile(task.domain.half, task.k)
        count = task.row_count(COUNT_SHARE, [1.0] * len(half))
        blocks = _number_of_blocks(count.n, self.power)
        columns = block_results(task, blocks).map(lambda found: found.reshape(blocks, -1).T)
        medians = []
        for i, (largest, cost) in enumerate(zip(half, count.costs, strict=True)):
            ends = (np.arange(INTERVALS + 1) * (2.0 / INTERVALS) - 1.0) * largest
            scores, label = columns.map(partial(median_scores, i, ends)), f"coordinate {i + 1}"
            # For both adjacencies one result is replaced. The number of values below an end, and
            # the larger of two such numbers, then change by at most one, up or down.
            moved = Scores(1.0, monotone=False)
            at = task.choose(scores, moved, label, cost, "add-remove")
            medians.append(float(ends[at] + ends[at + 1]) / 2)
        centers = task.domain.clip(np.array(medians).reshape(task.k, -1))
        return PrivateResult(centers, task.charges, errors=OF_MEDIANS)


def block_results(task: PrivateTask, blocks: int) -> Secret[F64]:
    """(blocks, k, d): k-means of each block. The block of a row depends on no other row.

    The result of an empty block is k times the centre of the domain, as `_cluster` would find.
    """
    drawing, *own = np.random.default_rng().spawn(blocks + 1)

    def results(rows: F64) -> F64:
        block = drawing.integers(blocks, size=len(rows))
        # By coordinates inside a block, so that the order of the rows does not matter.
        order = np.lexsort((*rows.T, block))
        ends = np.searchsorted(block[order], np.arange(blocks + 1))
        found = np.zeros((blocks, task.k, task.domain.d))
        for b in np.flatnonzero(np.diff(ends)):
            low, high = ends[b : b + 2]
            found[b] = _cluster(task, rows[order[low:high]], own[b])
        return found

    return task.rows.map(results)


def median_scores(column: int, ends: F64, columns: F64) -> F64:
    """High for an interval with at most half of the values on either side, or nearly so."""
    values = columns[column]
    below = np.searchsorted(np.sort(values), ends)
    below[0], below[-1] = 0, len(values)
    beside = np.maximum(below[:-1], len(values) - below[1:])
    return np.asarray(-np.maximum(0.0, beside - len(values) / 2))


def _cluster(task: PrivateTask, rows: F64, rng: np.random.Generator) -> F64:
    """The centres of one block, in order. Missing rows are replaced by the domain's centre."""
    if len(rows) < task.k:
        rows = np.concatenate([rows, np.zeros((task.k - len(rows), task.domain.d))])
    centers = task.domain.clip(kmeans(rows, None, task.k, 1, MAX_ITER, rng))
    return np.asarray(centers[np.argsort(centers[:, 0], kind="stable")])


def _check_power(method: Gupt | SampleAggregate) -> None:
    if not 0 <= method.power <= 1:
        name = type(method).__name__
        raise ValueError(f"{name}: power must be in [0, 1]; got {method.power!r}.")


def _number_of_blocks(n: int, power: float) -> int:
    return min(max(1, round(math.pow(n, power))), MOST_BLOCKS)


def _lattice_of_results(task: PrivateTask) -> Lattice:
    """The lattice of results, as vectors of k d numbers."""
    each, k = task.narrowest_lattice, task.k
    wider = k if each.norm == "l1" else math.sqrt(k)
    return Lattice(each.bound * wider * (1 + 1e-12), k * task.domain.d, each.norm)
