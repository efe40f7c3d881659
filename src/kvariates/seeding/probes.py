"""Probes: where the potential is measured that picks are drawn from.

A probe gives a potential for a space: an object that draws an index in proportion to what is left
of the cost there (`draw`), and takes centres into account (`add`, `add_best`). `around` is the
space whose row the density is taken at: the rows themselves, or the synopses that stand for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows
from kvariates.seeding.potential import EuclideanPotential


class Potential(Protocol):
    """What the sampler asks of a potential."""

    centers: F64
    around: Rows
    weight: F64 | None

    def draw(self, rng: np.random.Generator) -> int: ...
    def add(self, center: F64) -> None: ...
    def add_best(self, candidates: F64) -> int: ...
    def settle(self) -> None: ...


class Probe(Protocol):
    def potential(self, space: Rows, weight: F64 | None, k: int) -> Potential:
        """What rows are drawn from."""


@dataclass(frozen=True)
class EveryPoint:
    """The potential is measured at every row."""

    skip: bool = True
    pointwise: ClassVar[bool] = True

    def potential(self, space: Rows, weight: F64 | None, k: int) -> Potential:
        return EuclideanPotential(space, weight, k, skip=self.skip)


@dataclass(frozen=True, eq=False)
class Synopses:
    """Points that stand for the rows: row i is measured at `points[of[i]]`, and picked as it.

    The first centre is drawn by weight like all others; the paper's Algorithm 2 draws it uniformly
    over the synopses, which is not what its reduction to Algorithm 0 gives.
    """

    points: Any
    of: Any

    def potential(self, space: Rows, weight: F64 | None, k: int) -> Potential:
        points = np.ascontiguousarray(self.points, dtype=np.float64)
        of = np.asarray(self.of)
        if points.ndim != 2 or points.shape[1] != space.d:
            raise ValueError(
                f"Synopses must be points of {space.d} features; their shape is {points.shape}."
            )
        if of.shape != (space.n,) or of.min() < 0 or of.max() >= len(points):
            raise ValueError(
                f"Synopses need, for each of {space.n} rows, the number of its synopsis "
                f"(0 to {len(points) - 1}) in `of`."
            )
        mass = np.bincount(of, weight, len(points)).astype(np.float64)
        return EuclideanPotential(Rows.of(points), mass, k)


@dataclass(frozen=True, eq=False)
class MiniBatches:
    """The t-th centre is picked from the t-th batch. `batches`: row numbers, one array a batch."""

    batches: Sequence[Any]

    def potential(self, space: Rows, weight: F64 | None, k: int) -> Potential:
        if len(self.batches) < k:
            raise ValueError(
                f"MiniBatches has {len(self.batches)} batches, one is needed for each of {k} "
                "centres; give more batches or lower n_clusters."
            )
        batches = [np.asarray(batch, dtype=np.int64) for batch in self.batches[:k]]

        def rows_of(t: int) -> tuple[NDArray[np.int64], Rows]:
            return batches[t], Rows.of(space.X[batches[t]])

        return ProbePotential(space, weight, k, rows_of)


@dataclass(frozen=True)
class CallableProbe:
    """Every row is measured where `function(X, t)` puts it at step t = 1, 2, ..."""

    function: Callable[[Any, int], Any]

    def potential(self, space: Rows, weight: F64 | None, k: int) -> Potential:
        everyone = np.arange(space.n)

        def rows_of(t: int) -> tuple[NDArray[np.int64], Rows]:
            moved = np.ascontiguousarray(self.function(space.X, t + 1), dtype=np.float64)
            if moved.shape != (space.n, space.d) or not np.isfinite(moved).all():
                raise ValueError(
                    f"probe returned an array of shape {moved.shape} for rows of shape "
                    f"{(space.n, space.d)}; it must be finite and of that shape."
                )
            return everyone, Rows.of(moved)

        return ProbePotential(space, weight, k, rows_of)


class ProbePotential:
    """A potential that is measured anew at each step, wherever that step's probes are."""

    def __init__(
        self,
        space: Rows,
        weight: F64 | None,
        k: int,
        rows_of: Callable[[int], tuple[NDArray[np.int64], Rows]],
    ) -> None:
        self.around, self.weight = space, weight
        self.centers = np.empty((k, space.d))
        self._known = 0
        self._rows_of = rows_of
        self._measured = -1

    def draw(self, rng: np.random.Generator) -> int:
        self._measure()
        mass = self._cost if self._cost.any() else self._weight
        if not mass.any():
            raise ValueError("No row of positive weight to pick a centre from.")
        sums = np.cumsum(mass)
        place = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        return int(self._rows[min(place, int(np.flatnonzero(mass)[-1]))])

    def add(self, center: F64) -> None:
        self.centers[self._known] = center
        self._known += 1

    def add_best(self, candidates: F64) -> int:
        self._measure()
        after = self._probes.distances(candidates, squared=True)
        left = np.minimum(self._left[:, None], after)
        best = int(np.argmin((left * self._weight[:, None]).sum(axis=0)))
        self.add(candidates[best])
        return best

    def settle(self) -> None:
        """Nothing is ever pending."""

    def _measure(self) -> None:
        """`_cost`: weighted squared distances from this step's probes to the known centres."""
        if self._measured == self._known:
            return
        self._rows, self._probes = self._rows_of(self._known)
        self._weight = np.ones(len(self._rows)) if self.weight is None else self.weight[self._rows]
        if self._known:
            known = self.centers[: self._known]
            self._left = self._probes.costs(known, self._probes.nearest(known))
        else:
            self._left = np.ones(len(self._rows))
        self._cost = self._left * self._weight
        self._measured = self._known
