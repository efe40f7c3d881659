"""Probes: the points at which a row's cost is measured before drawing.

A probe makes the potential of given rows. `pointwise` says that only a row's values matter, not its
position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.sampler import AddedCenters, Potential


class Probe(Protocol):
    def potential(self, rows: Rows, weight: F64 | None, k: int) -> Potential[Rows, F64]:
        """The potential that rows are drawn from, with room for k centres."""


@dataclass(frozen=True)
class EveryPoint:
    """The cost is measured at every row."""

    skip: bool = True
    pointwise: ClassVar[bool] = True

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> EuclideanPotential[Rows]:
        return EuclideanPotential(rows, weight, k, skip=self.skip)


@dataclass(frozen=True, eq=False)
class Synopses:
    """Points that stand for the rows: row i is measured at `points[of[i]]`, and picked as it.

    The first centre is drawn by weight like all others; the paper's Algorithm 2 draws it uniformly
    over the synopses, which is not what its reduction to Algorithm 0 gives.
    """

    points: Any
    of: Any

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> EuclideanPotential[Rows]:
        points = np.ascontiguousarray(self.points, dtype=np.float64)
        of = np.asarray(self.of)
        if points.ndim != 2 or points.shape[1] != rows.d:
            raise ValueError(
                f"Synopses must be points of {rows.d} features; their shape is {points.shape}."
            )
        if of.shape != (rows.n,) or of.min() < 0 or of.max() >= len(points):
            raise ValueError(
                f"Synopses need, for each of {rows.n} rows, the number of its synopsis "
                f"(0 to {len(points) - 1}) in `of`."
            )
        mass = np.bincount(of, weight, len(points)).astype(np.float64)
        return EuclideanPotential(Rows.of(points), mass, k)


@dataclass(frozen=True, eq=False)
class MiniBatches:
    """The t-th centre is picked from the t-th batch. `batches`: row numbers, one array a batch."""

    batches: Sequence[Any]

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> StepPotential:
        if len(self.batches) < k:
            raise ValueError(
                f"MiniBatches has {len(self.batches)} batches, one is needed for each of {k} "
                "centres; give more batches or lower n_clusters."
            )

        def batch(t: int) -> ProbedRows:
            indices = np.asarray(self.batches[t], dtype=np.int64)
            return ProbedRows(indices, rows.subset(indices))

        return StepPotential(rows, weight, k, batch)


@dataclass(frozen=True)
class CallableProbe:
    """Every row is measured where `function(X, t)` puts it at step t = 1, 2, ..."""

    function: Callable[[Any, int], Any]

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> StepPotential:
        def moved_rows(t: int) -> ProbedRows:
            moved = np.ascontiguousarray(self.function(rows.X, t + 1), dtype=np.float64)
            if moved.shape != (rows.n, rows.d) or not np.isfinite(moved).all():
                raise ValueError(
                    f"probe returned an array of shape {moved.shape} for rows of shape "
                    f"{(rows.n, rows.d)}; it must be finite and of that shape."
                )
            return ProbedRows(np.arange(rows.n), Rows.of(moved))

        return StepPotential(rows, weight, k, moved_rows)


@dataclass(frozen=True)
class ProbedRows:
    """The rows that one step may pick, and where they are measured."""

    indices: I64
    probes: Rows


class StepPotential(AddedCenters):
    """A potential that every step measures anew, at probes of its own."""

    def __init__(
        self, rows: Rows, weight: F64 | None, k: int, probed: Callable[[int], ProbedRows]
    ) -> None:
        super().__init__(np.empty((k, rows.d)))
        self.points, self.weight, self._probed = rows, weight, probed
        self._measured = -1  # the number of centres that `_left` belongs to

    def add_best(self, candidates: F64) -> int:
        self.flush()
        after = self._at.probes.distances(candidates, squared=True)
        left = np.minimum(self._left[:, None], after)
        best = int(np.argmin((left * self._weight[:, None]).sum(axis=0)))
        self.add(candidates[best : best + 1])
        return best

    def total(self) -> float:
        self.flush()
        return float(self._cost.sum())

    def draw(self, rng: np.random.Generator) -> int:
        self.flush()
        mass = self._cost if self._cost.any() else self._weight
        if not mass.any():
            raise ValueError("No row of positive weight to pick a centre from.")
        return int(self._at.indices[draw_proportional(mass, 1, rng)[0]])

    def flush(self) -> None:
        """Measure this step's probes against the known centres."""
        if self._measured == self._known:
            return
        self._at = self._probed(self._known)
        indices, probes = self._at.indices, self._at.probes
        self._weight = np.ones(len(indices)) if self.weight is None else self.weight[indices]
        if self._known:
            self._left = probes.costs(self.centers, probes.nearest(self.centers))
        else:
            self._left = np.ones(len(indices))
        self._cost = self._left * self._weight
        self._measured = self._known
