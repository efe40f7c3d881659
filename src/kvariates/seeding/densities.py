"""Densities: how a picked row becomes a centre.

A density p_a belongs to every row a: `sample` draws a centre for each picked row, `mean` and
`trace` give the expectation and the trace of the covariance of p_a for every row. The guarantee of
k-variates++ depends on the last two.

Weights are the rows' weights (None: all ones): a row of weight w counts as w rows. `pointwise` says
that only a row's values matter, not its position: then shuffling the rows changes no draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator

from kvariates.data.rows import F64, Rows, squared_norms
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.seeding.sampler import DIRAC, Density, EuclideanPotential, Potential


class RowDensity(Density, Protocol):
    """A density whose moments are known."""

    def mean(self, rows: Rows, weight: F64 | None) -> F64:
        """The expectation of every row's density: (n, d)."""

    def trace(self, rows: Rows, weight: F64 | None) -> F64:
        """The trace of the covariance of every row's density: (n,)."""


@dataclass(frozen=True)
class _Noise:
    """Centred noise on the picked row, of the given scale on every coordinate."""

    scale: Any  # a number, or one for every feature
    pointwise: ClassVar[bool] = True
    unit_variance: ClassVar[float]  # of one coordinate at scale 1

    def __post_init__(self) -> None:
        scale = np.asarray(self.scale)
        if scale.dtype.kind not in "fiub" or not (np.isfinite(scale) & (scale >= 0)).all():
            raise ValueError(
                f"{type(self).__name__}: scale must be finite and not negative; got {self.scale!r}."
            )

    def _scale_of(self, rows: Rows) -> Any:
        if np.ndim(self.scale) and np.shape(self.scale) != (rows.d,):
            raise ValueError(
                f"{type(self).__name__} has scales of shape {np.shape(self.scale)} for {rows.d} "
                "features; give one number, or one for every feature."
            )
        return self.scale

    def mean(self, rows: Rows, weight: F64 | None) -> F64:
        return rows.take(np.arange(rows.n))

    def trace(self, rows: Rows, weight: F64 | None) -> F64:
        scale = np.asarray(self._scale_of(rows), dtype=np.float64)
        variance = np.broadcast_to(self.unit_variance * np.square(scale), (rows.d,))
        return np.full(rows.n, float(np.sum(variance)))


class Laplace(_Noise):
    """Laplace noise of the given scale on every coordinate; its variance is 2 scale^2.

    This noise comes from `rng` and gives no privacy: private fits take theirs from `privacy`.
    """

    unit_variance: ClassVar[float] = 2.0

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: Generator) -> F64:
        return rng.laplace(rows.take(picked), self._scale_of(rows))


class Gaussian(_Noise):
    """Gaussian noise of the given standard deviation on every coordinate."""

    unit_variance: ClassVar[float] = 1.0

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: Generator) -> F64:
        return rng.normal(rows.take(picked), self._scale_of(rows))


@dataclass(frozen=True, eq=False)
class UniformOver:
    """A row of the picked row's group, in proportion to weight; with `then`, that row's density.

    With groups as peers this is what a peer answers when it is asked for a centre.
    """

    groups: Any  # one label for every row
    then: RowDensity = DIRAC

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: Generator) -> F64:
        group = self._groups_of(rows)
        chosen = np.empty(len(picked), dtype=np.int64)
        for i, row in enumerate(picked):
            members = np.flatnonzero(group == group[row])
            share = None if weight is None else weight[members] / weight[members].sum()
            chosen[i] = rng.choice(members, p=share)
        return self.then.sample(rows, chosen, weight, rng)

    def mean(self, rows: Rows, weight: F64 | None) -> F64:
        group = self._groups_of(rows)
        return _group_means(group, self.then.mean(rows, weight), weight)[group]

    def trace(self, rows: Rows, weight: F64 | None) -> F64:
        # Law of total variance: variance of the means inside a group, plus mean of the variances.
        group = self._groups_of(rows)
        means = self.then.mean(rows, weight)
        off = means - _group_means(group, means, weight)[group]
        inner = squared_norms(off) + self.then.trace(rows, weight)
        out: F64 = _group_means(group, inner[:, None], weight)[group, 0]
        return out

    def _groups_of(self, rows: Rows) -> I64:
        group = np.unique(np.asarray(self.groups), return_inverse=True)[1]
        if group.shape != (rows.n,):
            raise ValueError(
                f"UniformOver has {group.size} group labels for {rows.n} rows; give one per row."
            )
        return group


def _group_means(group: I64, values: F64, weight: F64 | None) -> F64:
    w = np.ones(len(group)) if weight is None else weight
    sums = np.zeros((int(group.max()) + 1, values.shape[1]))
    np.add.at(sums, group, w[:, None] * values)
    total = np.bincount(group, weights=w)
    means: F64 = sums / np.where(total > 0, total, 1)[:, None]
    return means


# ---- Probes: the points at which a row's cost is measured before drawing -------------------------
#
# A probe makes the potential of given rows. `pointwise` says that only a row's values matter,
# not its position.


class Probe(Protocol):
    def potential(self, rows: Rows, weight: F64 | None, k: int) -> Potential:
        """The potential that rows are drawn from, with room for k centres."""


@dataclass(frozen=True)
class EveryPoint:
    """The cost is measured at every row."""

    skip: bool = True
    pointwise: ClassVar[bool] = True

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> EuclideanPotential:
        return EuclideanPotential(rows, weight, k, skip=self.skip)


@dataclass(frozen=True, eq=False)
class Synopses:
    """Points that stand for the rows: row i is measured at `points[of[i]]`, and picked as it.

    The first centre is drawn by weight like all others; the paper's Algorithm 2 draws it uniformly
    over the synopses, which is not what its reduction to Algorithm 0 gives.
    """

    points: Any
    of: Any

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> EuclideanPotential:
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

        def batch(t: int) -> tuple[I64, Rows]:
            indices = np.asarray(self.batches[t], dtype=np.int64)
            return indices, rows.subset(indices)

        return StepPotential(rows, weight, k, batch)


@dataclass(frozen=True)
class CallableProbe:
    """Every row is measured where `function(X, t)` puts it at step t = 1, 2, ..."""

    function: Callable[[Any, int], Any]

    def potential(self, rows: Rows, weight: F64 | None, k: int) -> StepPotential:
        def moved_rows(t: int) -> tuple[I64, Rows]:
            moved = np.ascontiguousarray(self.function(rows.X, t + 1), dtype=np.float64)
            if moved.shape != (rows.n, rows.d) or not np.isfinite(moved).all():
                raise ValueError(
                    f"probe returned an array of shape {moved.shape} for rows of shape "
                    f"{(rows.n, rows.d)}; it must be finite and of that shape."
                )
            return np.arange(rows.n), Rows.of(moved)

        return StepPotential(rows, weight, k, moved_rows)


class StepPotential(Potential):
    """A potential that every step measures anew, at probes of its own.

    `probed`: from the number of a step to the rows that it may pick, and where they are measured.
    """

    def __init__(
        self, rows: Rows, weight: F64 | None, k: int, probed: Callable[[int], tuple[I64, Rows]]
    ) -> None:
        super().__init__(np.empty((k, rows.d)))
        self.points, self.weight, self._probed = rows, weight, probed
        self._measured = -1  # the number of centres that `_left` belongs to

    def add_best(self, candidates: F64) -> int:
        self.flush()
        after = self._probes.distances(candidates, squared=True)
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
        return int(self._indices[draw_proportional(mass, 1, rng)[0]])

    def flush(self) -> None:
        """Measure this step's probes against the known centres."""
        if self._measured == self._known:
            return
        self._indices, self._probes = indices, probes = self._probed(self._known)
        self._weight = np.ones(len(indices)) if self.weight is None else self.weight[indices]
        if self._known:
            self._left = probes.costs(self.centers, probes.nearest(self.centers))
        else:
            self._left = np.ones(len(indices))
        self._cost = self._left * self._weight
        self._measured = self._known
