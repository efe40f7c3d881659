"""Sample and aggregate: k-means on many small blocks of rows, and a private summary of the answers.

A row is in one block, drawn for that row alone; so one row more, less or elsewhere changes one
answer, however k-means works. An answer is k centres in the domain, in the order of their first
coordinates, so that answers can be compared.

| method | summary of the answers | noise |
|---|---|---|
| `Gupt` (Mohan et al. 2012) | their mean | of an answer's diameter over the number of blocks |
| `SampleAggregate` (Nissim et al. 2007) | coordinates' medians | none: a place is chosen |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.rows import Rows
from kvariates.privacy import mechanisms
from kvariates.privacy.ledger import Charge
from kvariates.private_methods.row_count import public_size
from kvariates.private_methods.task import F64, Accountant, Cost, PrivateResult, PrivateTask
from kvariates.private_methods.weighted_kmeans import settled

COUNTING = 0.05  # of the budget, where the number of rows is secret
PLACES = 256  # along an axis, for a median
STEPS = 30  # of Lloyd, in a block


@dataclass(frozen=True)
class Gupt:
    """The mean answer of n^power blocks, with noise."""

    power: float = 0.4

    def __post_init__(self) -> None:
        _check_power(self)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant = Accountant()
        size = public_size(task, COUNTING, accountant)
        blocks, grid = _blocks(size.n, self.power), _answers_grid(task)
        rows = mechanisms.quantize(answers(task, blocks).reshape(blocks, -1), grid)
        total = accountant.record(
            # Whatever the adjacency, one answer is replaced by another.
            mechanisms.sums(
                rows.sum(axis=0), grid=grid, adjacency="replace-one",
                label=f"sum of {blocks} blocks' centres", **size.rest[0],
            )
        )  # fmt: skip
        centers = (total / blocks).reshape(task.k, -1)
        return PrivateResult(task.domain.inside(centers), tuple(accountant.charges))


@dataclass(frozen=True)
class SampleAggregate:
    """The median of n^power blocks' answers, coordinate by coordinate (exponential mechanism)."""

    power: float = 0.5

    def __post_init__(self) -> None:
        _check_power(self)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant = Accountant()
        half = np.tile(task.domain.half, task.k)
        size = public_size(task, COUNTING, accountant, [1.0] * len(half))
        blocks = _blocks(size.n, self.power)
        answer = answers(task, blocks).reshape(blocks, -1)
        medians = [
            accountant.record(_median(column, reach, cost, f"coordinate {i + 1}"))
            for i, (column, reach, cost) in enumerate(zip(answer.T, half, size.rest, strict=True))
        ]
        centers = np.array(medians).reshape(task.k, -1)
        return PrivateResult(task.domain.inside(centers), tuple(accountant.charges))


def answers(task: PrivateTask, blocks: int) -> F64:
    """(blocks, k, d): k-means of each block of rows. Which block a row is in, no other row says."""
    drawing, *own = np.random.default_rng().spawn(blocks + 1)
    block = drawing.integers(blocks, size=len(task.rows))
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(blocks + 1))
    parts = zip(ends[:-1], ends[1:], own, strict=True)
    return np.stack([_answer(task, task.rows[order[low:high]], rng) for low, high, rng in parts])


def _answer(task: PrivateTask, rows: F64, rng: np.random.Generator) -> F64:
    """Centres of one block, in order; the domain's centre stands in for rows that lack."""
    if len(rows) < task.k:
        rows = np.concatenate([rows, np.zeros((task.k - len(rows), task.domain.d))])
    centers = task.domain.inside(settled(Rows.of(rows), None, task.k, rng, STEPS).centers)
    return np.asarray(centers[np.argsort(centers[:, 0], kind="stable")])


def _check_power(method: Gupt | SampleAggregate) -> None:
    if not 0 <= method.power <= 1:
        name = type(method).__name__
        raise ValueError(f"{name}: power must be in [0, 1]; got {method.power!r}.")


def _blocks(n: int, power: float) -> int:
    return max(1, round(math.pow(n, power)))


def _answers_grid(task: PrivateTask) -> mechanisms.Lattice:
    """Where an answer may be, as one vector of k d numbers."""
    each, k = task.narrowest_grid, task.k
    wider = k if each.norm == "l1" else math.sqrt(k)
    return mechanisms.Lattice(each.bound * wider * (1 + 1e-12), k * task.domain.d, each.norm)


def _median(values: F64, reach: float, cost: Cost, label: str) -> tuple[float, Charge]:
    """The middle of an interval with at most half of the values on either side, or near to that."""
    ends = (np.arange(PLACES + 1) * (2.0 / PLACES) - 1.0) * reach
    below = np.searchsorted(np.sort(values), ends)
    below[0], below[-1] = 0, len(values)
    beside = np.maximum(below[:-1], len(values) - below[1:])
    # One answer is replaced: the number of values below an end changes by one at most, up or down,
    # and so does the larger of two such numbers.
    which, charge = mechanisms.choose(
        -np.maximum(0.0, beside - len(values) / 2), sensitivity=1.0, monotone=False,
        adjacency="add-remove", label=label, **cost,
    )  # fmt: skip
    return float(ends[which] + ends[which + 1]) / 2, charge
