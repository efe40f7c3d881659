"""What distance means to an estimator: where its rows live, and which loops serve there.

| frame | rows are seen | loops |
|---|---|---|
| SquaredEuclidean | as they are, on the unit sphere ("cosine"), or whitened ("mahalanobis") | all |
| DivergenceObjective | as they are, under a divergence | sampler and Lloyd under a distortion |

Both have the same methods, so that an estimator need not know which one it has. Centres go in and
out in the user's coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Floats, Labels, Rows, total_cost, unit_rows
from kvariates.objectives.distortion import Distortion
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.divergence_lloyd import refine_distorted
from kvariates.objectives.divergence_potential import DivergenceDirac, DivergenceProbe
from kvariates.refining.hartigan import hartigan
from kvariates.refining.lloyd import LloydResult, Step, refine
from kvariates.refining.minibatch import minibatch
from kvariates.seeding.forgy import forgy
from kvariates.seeding.sampler import Recipe, greedy_trials, kvariates
from kvariates.seeding.seedings import SEEDINGS, SeedingProblem

BATCH = 1024  # rows of a mini-batch
Watch = Callable[[Step], bool] | None


@dataclass(frozen=True)
class RefineOptions:
    """How a run is refined. `tol` is absolute."""

    algorithm: str
    max_iter: int
    tol: float


@dataclass(frozen=True)
class SquaredEuclidean:
    """Squared Euclidean distance, perhaps after a change of coordinates."""

    metric: str
    whitened: Distortion | None = None

    @property
    def unit(self) -> bool:
        return self.metric == "cosine"

    def space(self, X: Any) -> Rows:
        if self.whitened is not None:
            return Rows.of(np.ascontiguousarray(self.whitened.prepare(X), dtype=X.dtype))
        return Rows.of(unit_rows(X) if self.unit else X)

    def inside(self, centers: F64) -> F64:
        """Centres that were handed out. On the sphere they are as long as rounding left them."""
        if self.whitened is None:
            return centers
        return np.ascontiguousarray(self.whitened.prepare(centers))

    def given(self, centers: F64) -> F64:
        """Centres from outside, to start from."""
        start: F64 = unit_rows(centers) if self.unit else self.inside(centers)
        return start

    def outside(self, centers: Floats) -> Floats:
        if self.whitened is None:
            return centers
        return self.whitened.restore(centers.astype(np.float64)).astype(centers.dtype)

    def seed(
        self, space: Rows, k: int, weight: F64 | None, init: str, how: RefineOptions,
        rng: np.random.Generator,
    ) -> F64:  # fmt: skip
        """Centres inside this frame."""
        return SEEDINGS[init](
            SeedingProblem(space, k, weight, how.max_iter, how.tol, self.unit, rng)
        )

    def refine(
        self, space: Rows, centers: F64, weight: F64 | None, how: RefineOptions, watch: Watch,
        rng: np.random.Generator,
    ) -> LloydResult:  # fmt: skip
        if how.algorithm == "minibatch":  # its steps shrink by themselves: cost says when to stop
            return minibatch(
                space, centers, weight,
                batch_size=BATCH, max_iter=how.max_iter, tol=0.0, rng=rng,
            )  # fmt: skip
        moves = how.algorithm == "hartigan"
        first = refine(
            space, centers, weight,
            algorithm="auto" if moves else how.algorithm,
            max_iter=how.max_iter, tol=how.tol, unit=self.unit, on_step=watch,
        )  # fmt: skip
        if not moves:
            return first
        then = hartigan(space, first, weight, max_iter=how.max_iter, on_step=watch)
        done = first.n_iter + then.n_iter
        return LloydResult(then.centers, then.labels, then.inertia, done, then.converged)

    def nearest(self, space: Rows, centers: F64) -> Labels:
        return space.nearest(self.inside(centers))

    def costs(self, space: Rows, centers: F64, labels: Labels) -> F64:
        """What every row costs at the centre it is labelled with."""
        cost = space.costs(self.inside(centers), labels)
        return cost / 2 if self.unit else cost

    def distances(self, space: Rows, centers: F64) -> Floats:
        inside = self.inside(centers)
        if self.unit:
            return space.distances(inside, squared=True) / 2
        return space.distances(inside)

    def finish(self, space: Rows, weight: F64 | None, end: LloydResult) -> LloydResult:
        """The end of a run, in the user's coordinates and with the labels of what is handed out."""
        if self.whitened is None:
            return replace(end, inertia=end.inertia / 2) if self.unit else end
        restored = self.whitened.restore(end.centers.astype(np.float64)).astype(space.dtype)
        centers = restored.astype(np.float64)
        labels = self.nearest(space, centers)
        cost = total_cost(self.costs(space, centers, labels), weight)
        return replace(end, centers=restored, labels=labels, inertia=cost)


@dataclass(frozen=True)
class DivergenceObjective:
    """A divergence. Pre: it is fitted."""

    distortion: Distortion

    def space(self, X: Any) -> Rows:
        self.distortion.check(X)
        return Rows.of(X)

    def given(self, centers: F64) -> F64:
        return centers

    def outside(self, centers: Floats) -> Floats:
        return centers

    def seed(
        self, space: Rows, k: int, weight: F64 | None, init: str, how: RefineOptions,
        rng: np.random.Generator,
    ) -> F64:  # fmt: skip
        if init == "random":
            return self.distortion.seed(space.X, forgy(space, k, weight, rng).indices)
        recipe = Recipe(DivergenceProbe(self.distortion), DivergenceDirac(self.distortion))
        trials = 1 if init == "d2" else greedy_trials(k)
        return kvariates(space, k, weight, recipe, trials, rng).centers

    def refine(
        self, space: Rows, centers: F64, weight: F64 | None, how: RefineOptions, watch: Watch,
        rng: np.random.Generator,
    ) -> LloydResult:  # fmt: skip
        return refine_distorted(
            space.X, centers, weight, self.distortion,
            max_iter=how.max_iter, tol=how.tol, on_step=watch,
        )  # fmt: skip

    def nearest(self, space: Rows, centers: F64) -> Labels:
        return self._nearest(space, centers)[0]

    def costs(self, space: Rows, centers: F64, labels: Labels) -> F64:
        prepared = self.distortion.prepare(centers)[labels]
        return self.distortion.divergence(self.distortion.prepare(space.X), prepared)

    def distances(self, space: Rows, centers: F64) -> Floats:
        rows, prepared = self.distortion.prepare(space.X), self.distortion.prepare(centers)
        out = [self.distortion.divergence(rows, center) for center in prepared]
        return np.stack(out, axis=1).astype(space.dtype)

    def finish(self, space: Rows, weight: F64 | None, end: LloydResult) -> LloydResult:
        return end

    def _nearest(self, space: Rows, centers: F64) -> tuple[Labels, NDArray[np.float64]]:
        prepare = self.distortion.prepare
        return self.distortion.nearest(prepare(space.X), prepare(centers))


Objective = SquaredEuclidean | DivergenceObjective


def objective_for(metric: str, distortion: Any, X: Any, weight: F64 | None) -> Objective:
    """The frame of a fit to X. `distortion`: None, a name, or an object like those."""
    if distortion is None:
        return SquaredEuclidean(metric)
    if metric != "euclidean":
        raise ValueError(
            f"metric={metric!r} and distortion={distortion!r} exclude each other; give one of them."
        )
    chosen = DISTORTIONS[distortion] if isinstance(distortion, str) else distortion
    chosen.check(X)
    fitted = chosen.fitted(X, weight)
    return (
        SquaredEuclidean("euclidean", fitted)
        if fitted.name == "mahalanobis"
        else DivergenceObjective(fitted)
    )


def check_choices(frame: Objective, init: Any, algorithm: str) -> None:
    """ValueError for an init or an algorithm that does not exist in this frame."""
    if isinstance(frame, DivergenceObjective):
        what = f"distortion={frame.distortion.name!r}"
        starts, ways = {"k-means++", "d2", "random"}, {"auto", "lloyd"}
    elif frame.unit:
        what = "metric='cosine'"
        starts, ways = set(SEEDINGS) - {"ls++"}, {"auto", "lloyd", "elkan", "hamerly", "yinyang"}
    else:
        return
    if isinstance(init, str) and init not in starts:
        raise ValueError(f"init={init!r} does not work with {what}; use one of {sorted(starts)}.")
    if algorithm not in ways:
        raise ValueError(
            f"algorithm={algorithm!r} does not work with {what}; use one of {sorted(ways)}."
        )
