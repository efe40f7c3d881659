"""Lloyd on rows in blocks: every assignment reads the blocks once and keeps nothing for a row.

Statistics are exact, so the centres are those of the rows in memory, however they are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from kvariates.data.blocks import AssignedBlock, Block, BlockTotals, RowBlocks, assign_blocks
from kvariates.data.cluster_sums import SumScale
from kvariates.data.exact_sums import exact_total
from kvariates.data.rows import F64, Floats, joint_cost
from kvariates.refining.assigners import ExactStatistics, FarRows, InMemoryAssigner
from kvariates.refining.lloyd import MeanUpdate, Stop, lloyd


class BlockAssigner:
    """Rows in blocks. Pre: there is a block.

    Labels are not kept. A hash of all labels says whether any has changed; how many is not known.
    To show far rows, the blocks are read again. The cost is measured in the same pass as the
    assignment with `costs=True`, and in a pass of its own otherwise, if it is read.
    """

    def __init__(self, blocks: RowBlocks, k: int, scale: SumScale, *, costs: bool = False) -> None:
        self._blocks, self._k, self._costs = blocks, k, costs
        self.scale = scale
        self._centers: F64 | None = None  # of the last assignment
        self._hash = b""  # of its labels

    def set_scale(self, scale: SumScale) -> None:
        self.scale = scale

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        self._centers = centers
        labels, cost = sha256(), 0
        whole: ExactStatistics | None = None
        for block in self._blocks:
            assigner = self._in_memory(block)
            part = assigner.assign(centers)
            labels.update(assigner.labels.data)
            cost += part.exact_cost if self._costs else 0
            # The function that computes the cost would keep the block in memory.
            whole = replace(part if whole is None else whole + part, cost_of=self._exact_cost)
        assert whole is not None  # noqa: S101
        same, self._hash = labels.digest() == self._hash, labels.digest()
        measured = (lambda: cost) if self._costs else self._exact_cost
        return replace(whole, changed=0 if same else None, cost_of=measured)

    def farthest(self, count: int) -> FarRows:
        assert self._centers is not None  # noqa: S101
        far: list[FarRows] = []
        for block in self._blocks:
            assigner = self._in_memory(block)
            assigner.relabel(self._centers)
            far = [FarRows.joined([*far, assigner.farthest(count)]).first(count)]
        return far[0]

    def _in_memory(self, block: Block) -> InMemoryAssigner:
        return InMemoryAssigner(block.rows, block.weight, self._k, "lloyd", self.scale)

    def _exact_cost(self) -> int:
        assert self._centers is not None  # noqa: S101
        parts = assign_blocks(self._blocks, self._centers)
        return sum(exact_total(part.cost, part.weight) for part in parts)


@dataclass(frozen=True, eq=False)
class BlockResult:
    """Centres in the rows' dtype, with the cost of these rounded centres.

    `counts`: the rows of each cluster.
    """

    centers: Floats
    inertia: float
    counts: NDArray[np.int64]
    n_iter: int
    converged: bool


def refine_blocks(
    blocks: RowBlocks, totals: BlockTotals, centers: F64, stop: Stop, *, unit: bool, costs: bool
) -> BlockResult:
    """As `refine`, of rows in blocks. `costs`: see `BlockAssigner`."""
    k = len(centers)
    assigner = BlockAssigner(blocks, k, totals.scale, costs=costs)
    end = lloyd(assigner, centers, MeanUpdate(assigner, unit), stop)
    rounded = end.centers.astype(totals.dtype, copy=False)
    counts = np.zeros(k, dtype=np.int64)
    parts = assign_blocks(blocks, rounded.astype(np.float64, copy=False))
    inertia = joint_cost(_counted(parts, counts))
    return BlockResult(rounded, inertia, counts, end.n_iter, end.converged)


def _counted(
    parts: Iterator[AssignedBlock], counts: NDArray[np.int64]
) -> Iterator[tuple[F64, F64 | None]]:
    """The costs and weights of all parts. Adds the rows of each cluster to `counts`."""
    for part in parts:
        counts += np.bincount(part.labels, minlength=len(counts))
        yield part.cost, part.weight
