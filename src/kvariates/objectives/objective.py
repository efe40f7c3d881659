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
from kvariates.objectives.distortion import Distortion
from kvariates.objectives.distortions import DISTORTIONS, LOST
from kvariates.objectives.divergence_objective import DivergenceObjective
from kvariates.refining.lloyd import LloydResult, refine
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import euclidean_potential
from kvariates.seeding.seedings import DISTANCES
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

    def nearest(self, rows: Rows, centers: F64) -> Labels:
        return rows.nearest(self._inside(centers))

    def costs(self, rows: Rows, centers: F64, labels: Labels) -> F64:
        cost = rows.costs(self._inside(centers), labels)
        return cost / 2 if self.unit else cost

    def distances(self, rows: Rows, centers: F64) -> Floats:
        inside = self._inside(centers)
        return rows.distances(inside, squared=True) / 2 if self.unit else rows.distances(inside)

    def _inside(self, centers: F64) -> F64:
        """Fitted centres. On the sphere they keep the length that rounding gave them."""
        if self.whitened is None:
            return centers
        return np.ascontiguousarray(self.whitened.prepare(centers))


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
