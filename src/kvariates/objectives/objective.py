"""Objectives: what ``metric=`` and ``distortion=`` mean.

| objective | coordinates | offers |
|---|---|---|
| `SquaredEuclidean` | as given, or whitened ("mahalanobis") | all seedings and refinements |
| the same | on the unit sphere ("cosine") | those that work with centres on the sphere |
| `DivergenceObjective` | as given, under a divergence | those that need the potential only |

All objectives have the same methods:

| method | returns |
|---|---|
| `name`, `offers` | for messages; what seedings and refinements may need |
| `lost` | why no theorem holds; None if the theorem of the seeding does |
| `rows(X)`, `start(centers)` | X and given centres in the objective's coordinates |
| `potential`, `density`, `lloyd` | the parts of the sampler; Lloyd, in these coordinates |
| `finish(...)` | a result in the user's coordinates, with the labels and cost of these centres |
| `cost`, `nearest`, `costs`, `distances` | in the user's terms, of centres as the user sees them |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kvariates.data.cluster_sums import FloatStatistics, Statistics
from kvariates.data.host_data import HostData
from kvariates.data.rows import (
    F64,
    WIDEST,
    Floats,
    Labels,
    Numbers,
    Rows,
    sum_of_squares,
    total_cost,
    unit_rows,
)
from kvariates.numerics.draws import I64, CumulativeMass
from kvariates.objectives.distortion import Distortion, sum_rows
from kvariates.objectives.distortions import DISTORTIONS, LOST
from kvariates.refining.lloyd import LloydResult, Stop, lloyd, refine
from kvariates.seeding.sampler import Dirac, Potential, euclidean_potential
from kvariates.seeding.seedings import DISTANCES, POTENTIAL
from kvariates.tables import Entry, Table


@dataclass(frozen=True)
class SquaredEuclidean:
    """Squared Euclidean distance, perhaps after a change of coordinates."""

    unit: bool = False
    whitened: Distortion | None = None
    lost: str | None = None
    name: str = "metric='euclidean'"
    potential: ClassVar[Any] = staticmethod(euclidean_potential)
    density: ClassVar[Dirac] = Dirac()

    @property
    def offers(self) -> frozenset[str]:
        return DISTANCES if self.unit else DISTANCES | {"free centers"}

    def rows(self, X: Any, numbers: Numbers = 0) -> Rows:
        if self.whitened is not None:
            return Rows.of(np.ascontiguousarray(self.whitened.prepare(X), dtype=X.dtype))
        return Rows.of(unit_rows(X, numbers) if self.unit else X)

    def start(self, centers: F64) -> F64:
        start: F64 = unit_rows(centers) if self.unit else self._inside(centers)
        if not sum_of_squares(start) < WIDEST:
            raise ValueError("the centres are so far away that squared distances overflow float64.")
        return start

    @property
    def lloyd(self) -> Callable[..., LloydResult]:
        return partial(refine, unit=self.unit)

    def finish(self, data: Any, end: LloydResult) -> LloydResult:
        """Pre: with a change of coordinates, `data` is in memory."""
        if self.whitened is None:
            gap, costs = self.cost(end.assignment_gap), tuple(map(self.cost, end.costs))
            return replace(end, inertia=self.cost(end.inertia), assignment_gap=gap, costs=costs)
        restored = self.whitened.restore(end.centers.astype(np.float64)).astype(data.dtype)
        centers = restored.astype(np.float64)
        labels = self.nearest(data.rows, centers)
        cost = total_cost(self.costs(data.rows, centers, labels), data.weight)
        counts = np.bincount(labels, minlength=len(centers))
        return replace(end, centers=restored, labels=labels, inertia=cost, counts=counts)

    def cost(self, squared: float) -> float:
        return squared / 2 if self.unit else squared

    def nearest(self, rows: Rows, centers: Floats) -> Labels:
        return rows.nearest(self._inside(centers))

    def costs(self, rows: Rows, centers: F64, labels: Labels) -> F64:
        cost = rows.costs(self._inside(centers), labels)
        return cost / 2 if self.unit else cost

    def distances(self, rows: Rows, centers: Floats) -> Floats:
        inside = self._inside(centers)
        return rows.distances(inside, squared=True) / 2 if self.unit else rows.distances(inside)

    def _inside(self, centers: Floats) -> Floats:
        """Fitted centres. On the sphere they keep the length that rounding gave them."""
        if self.whitened is None:
            return centers
        return np.ascontiguousarray(self.whitened.prepare(centers.astype(np.float64, copy=False)))


# ---- Divergences: assigner, potential and density, cost ------------------------------------------
#
# Neither the assignment nor the update raises the weighted sum of divergences, so Lloyd's loop
# ends.


class DivergenceAssigner:
    """Rows in memory, in the distortion's coordinates. Empty clusters are filled before sums."""

    def __init__(self, X: Any, weight: F64 | None, k: int, distortion: Distortion) -> None:
        self._X, self._weight, self._distortion = X, weight, distortion
        self.labels: Labels = np.full(X.shape[0], -1, dtype=np.int32)
        self._members: list[I64] = [np.empty(0, dtype=np.int64)] * k
        self._sums, self._weights = np.zeros((k, X.shape[1])), np.zeros(k)
        self._counts = np.zeros(k, dtype=np.int64)

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        labels, cost = self._distortion.nearest(self._X, centers)
        changed = int(np.count_nonzero(labels != self.labels))
        self.labels = labels
        counted = counted_cost(cost, self._weight)
        if changed:
            self._add_up(filled(labels, counted, self._weight, len(centers)))
        return FloatStatistics(
            self._sums, self._weights, self._counts, changed,
            lambda: total_cost(counted, self._weight),
        )  # fmt: skip

    def update(self, centers: F64, statistics: Statistics) -> F64:
        """Move each centre to the minimiser of its rows' divergences; empty clusters stay."""
        if statistics.changed == 0:
            return centers
        out, full = centers.copy(), statistics.counts > 0
        if getattr(self._distortion, "mean_is_best", False):
            out[full] = statistics.sums[full] / statistics.weights[full, None]
            return out
        for j in np.flatnonzero(full):
            own = self._members[j]
            weight = None if self._weight is None else self._weight[own]
            out[j] = self._distortion.center(self._X[own], weight, centers[j])
        return out

    def _add_up(self, labels: Labels) -> None:
        k = len(self._members)
        order = np.argsort(labels, kind="stable")
        ends = np.searchsorted(labels[order], np.arange(k + 1))
        for j in range(k):
            own = self._members[j] = order[ends[j] : ends[j + 1]]
            weight = np.ones(len(own)) if self._weight is None else self._weight[own]
            self._weights[j], self._counts[j] = weight.sum(), np.count_nonzero(weight)
            self._sums[j] = sum_rows(self._X[own], None if self._weight is None else weight)


class DivergencePotential(Potential):
    """Room for k centres. Each of them costs a pass: bounds of Euclidean distances do not hold.

    Centres are in the user's coordinates; divergences are measured on prepared rows.
    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """

    def __init__(self, rows: Rows, weight: F64 | None, k: int, distortion: Distortion) -> None:
        super().__init__(np.empty((k, rows.d)))
        self.points, self.weight = rows, weight
        self._flushed = 0  # how many of the added centres the costs know
        self._distortion, self._prepared = distortion, distortion.prepare(rows.X)
        self._cost = np.full(rows.n, np.inf)
        self._weights = np.ones(rows.n) if weight is None else weight
        self._mass: CumulativeMass | None = None

    def draw(self, rng: np.random.Generator) -> int:
        self.flush()
        if self._mass is None:
            share = self._share()
            self._mass = CumulativeMass(share if share.any() else self._weights)
        return int(self._mass.draw(1, rng)[0])

    def flush(self) -> None:
        for center in self._centers[self._flushed : self._known]:
            self._lower(self._measure(center))

    def total(self) -> float:
        self.flush()
        return float(np.sum(self._share()))

    def add_best(self, candidates: F64) -> int:
        self.flush()
        costs = [self._measure(center) for center in candidates]
        left = [total_cost(np.minimum(self._cost, cost), self.weight) for cost in costs]
        best = int(np.argmin(left))
        self.add(candidates[best : best + 1])
        self._lower(costs[best])
        return best

    def _measure(self, center: F64) -> F64:
        prepared = self._distortion.prepare(center[None])[0]
        return counted_cost(self._distortion.divergence(self._prepared, prepared), self.weight)

    def _lower(self, cost: F64) -> None:
        np.minimum(self._cost, cost, out=self._cost)
        self._flushed += 1
        self._mass = None

    def _share(self) -> F64:
        """Weight * cost; the weights if there is no centre."""
        return self._cost * self._weights if self._flushed else self._weights


@dataclass(frozen=True)
class DivergenceDirac:
    """The picked row is the centre, or (KL, a row with zeros) what the distortion makes of it."""

    distortion: Distortion

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: np.random.Generator) -> F64:
        return self.distortion.seed(rows.X, picked)


@dataclass(frozen=True)
class DivergenceObjective:
    """A divergence. Pre: the distortion is fitted."""

    distortion: Distortion
    lost: str | None = LOST
    name: str = "a distortion"
    unit: ClassVar[bool] = False
    offers: ClassVar[frozenset[str]] = POTENTIAL

    def rows(self, X: Any, numbers: Numbers = 0) -> Rows:
        self.distortion.check(X)
        return Rows.of(X)

    def start(self, centers: F64) -> F64:
        self.distortion.check(centers)
        return centers

    def potential(self, data: HostData, k: int) -> DivergencePotential:
        return DivergencePotential(data.rows, data.weight, k, self.distortion)

    @property
    def density(self) -> DivergenceDirac:
        return DivergenceDirac(self.distortion)

    def lloyd(
        self, data: HostData, centers: F64, stop: Stop, scan: str = "auto", overwrite: bool = False
    ) -> LloydResult:
        distortion, rows, weight = self.distortion, data.rows, data.weight
        X, start = distortion.prepare(rows.X), distortion.prepare(centers)
        assigner = DivergenceAssigner(X, weight, len(start), distortion)
        end = lloyd(assigner, start, assigner.update, stop)
        rounded = in_dtype(distortion.restore(end.centers), rows.dtype)
        labels, cost = distortion.nearest(X, distortion.prepare(rounded.astype(np.float64)))
        inertia = total_cost(counted_cost(cost, weight), weight)
        counts = np.bincount(labels, minlength=len(centers))
        return LloydResult(
            rounded, labels, inertia, end.n_iter, end.converged, counts, costs=end.costs
        )

    def finish(self, data: Any, end: LloydResult) -> LloydResult:
        return end

    def cost(self, squared: float) -> float:
        return squared

    def nearest(self, rows: Rows, centers: Floats) -> Labels:
        prepare = self.distortion.prepare
        return self.distortion.nearest(prepare(rows.X), prepare(centers.astype(np.float64)))[0]

    def costs(self, rows: Rows, centers: F64, labels: Labels) -> F64:
        prepared = self.distortion.prepare(centers)[labels]
        return self.distortion.divergence(self.distortion.prepare(rows.X), prepared)

    def distances(self, rows: Rows, centers: Floats) -> Floats:
        prepare = self.distortion.prepare
        X, prepared = prepare(rows.X), prepare(centers.astype(np.float64))
        out = [self.distortion.divergence(X, center) for center in prepared]
        return np.stack(out, axis=1).astype(rows.dtype)


def filled(labels: Labels, cost: F64, weight: F64 | None, k: int) -> Labels:
    """Labels in which an empty cluster has one of the rows of largest weighted divergence.

    A row that is the only one of its cluster stays: moving it would leave another one empty.
    """
    share = cost if weight is None else cost * weight
    rows = np.bincount(labels if weight is None else labels[weight > 0], minlength=k)
    empty = np.flatnonzero(rows == 0)
    if not len(empty):
        return labels
    labels, cluster = labels.copy(), 0
    for row in np.argsort(-share, kind="stable"):
        if cluster == len(empty) or share[row] == 0:
            break  # or only duplicates of centres are left
        if rows[labels[row]] > 1:
            rows[labels[row]] -= 1
            labels[row] = empty[cluster]
            cluster += 1
    return labels


def counted_cost(cost: F64, weight: F64 | None) -> F64:
    """0 where the weight is 0: such a row may be infinitely far from all centres."""
    return cost if weight is None else np.where(weight > 0, cost, 0.0)


def in_dtype(centers: F64, dtype: np.dtype[Any]) -> Floats:
    """Rounded, but nothing to zero: a KL centre's zero is infinitely far from rows without one."""
    rounded = centers.astype(dtype)
    lost = (rounded == 0) & (centers != 0)
    rounded[lost] = np.copysign(np.finfo(dtype).smallest_subnormal, centers[lost])
    return rounded


# ---- The table of objectives ---------------------------------------------------------------------


Objective = SquaredEuclidean | DivergenceObjective

OBJECTIVES: Table[Callable[[], Objective]] = Table(
    "metric",
    {
        "euclidean": Entry(
            SquaredEuclidean, "The sum of squared Euclidean distances.", theorem="Theorem 2"
        ),
        "cosine": Entry(
            lambda: SquaredEuclidean(unit=True),
            "Spherical k-means: rows and centres are scaled to length one, `inertia_` is the sum "
            "of 1 - cos, and `transform` gives 1 - cos.",
            theorem="Theorem 2",
        ),
    },
)


def objective_for(metric: str, distortion: Any, X: Any, weight: F64 | None) -> Objective:
    """The objective of a fit to X. `distortion`: None, a name, or an object like those."""
    if distortion is None:
        entry = OBJECTIVES[metric]
        return replace(entry.run(), lost=entry.lost, name=f"metric={metric!r}")
    if metric != "euclidean":
        raise ValueError(
            f"metric={metric!r} and distortion={distortion!r} exclude each other; give one of them."
        )
    named = isinstance(distortion, str)
    chosen = DISTORTIONS[distortion] if named else Entry(distortion, "", lost=LOST)
    chosen.run.check(X)
    fitted = chosen.run.fitted(X, weight)
    name = f"distortion={distortion if named else fitted.name!r}"
    if fitted.name == "mahalanobis":
        return SquaredEuclidean(whitened=fitted, lost=chosen.lost, name=name)
    return DivergenceObjective(fitted, chosen.lost, name)
