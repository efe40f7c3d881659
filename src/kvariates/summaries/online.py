"""OLk-means++ (Nock et al. 2016, Algorithm 3): one centre from every batch, until there are k.

The first centre is drawn from the first batch by weight, each later one from its own batch by
weight * D^2, D being the distance to the centres so far. This is the sampler's step, with a
potential that knows the centres of earlier batches. Afterwards centres may move: each becomes the
mean of all rows that were assigned to it since all centres exist. The sums of these rows are exact
integers without a limit, so a stream can be of any length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvariates.data.cluster_sums import ClusterSums
from kvariates.data.exact_sums import Integers
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows, directions
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.sampler import Seeds
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows


@dataclass(frozen=True, eq=False)
class OnlineState:
    """The centres so far, and what was assigned to them.

    Attributes
    ----------
    centers : ndarray of shape (t, d), float64
    sums, weights : integer objects of shape (t, d) and (t, 1)
        Of the rows that were assigned to each centre, in units of 2**-1074.
    moved : bool
        Whether a centre has moved since it was drawn.
    """

    centers: F64
    sums: Integers
    weights: Integers
    moved: bool = False

    @classmethod
    def empty(cls, d: int) -> OnlineState:
        return cls(np.empty((0, d)), np.zeros((0, d), object), np.zeros((0, 1), object))

    @property
    def t(self) -> int:
        """The number of centres."""
        return len(self.centers)


@dataclass(frozen=True)
class OnlineRule:
    """k : the number of centres to draw. update : whether centres move when there are k.

    unit : whether they stay on the unit sphere, as rows are.
    """

    k: int
    update: bool
    unit: bool = False

    def learn(
        self, state: OnlineState, batch: Rows, weight: F64 | None, rng: np.random.Generator
    ) -> OnlineState:
        """The state after one more batch. Pre: it has a row of positive weight."""
        if state.t < self.k:
            state = with_center(state, next_center(state.centers, batch, weight, rng).centers)
        if self.update and state.t >= self.k:
            state = moved_to_means(state, batch, weight, self.unit)
        return state


def next_center(
    centers: F64, batch: Rows, weight: F64 | None, rng: np.random.Generator
) -> Seeds[F64]:
    """The centres and one more, drawn from a batch; `indices` has the row of the batch it is."""

    def potential(data: Any, k: int) -> EuclideanPotential[Rows]:
        made = EuclideanPotential(data.rows, data.weight, len(centers) + k)
        made.add(centers)
        return made

    return sample_rows(SeedingProblem(HostData(batch, weight), 1, potential, rng=rng))


def with_center(state: OnlineState, centers: F64) -> OnlineState:
    """The state with one more centre, to which no row was assigned yet."""
    none = np.zeros((1, centers.shape[1]), object)
    sums, weights = np.concatenate([state.sums, none]), np.concatenate([state.weights, none[:, :1]])
    return replace(state, centers=centers, sums=sums, weights=weights)


def moved_to_means(
    state: OnlineState, batch: Rows, weight: F64 | None, unit: bool = False
) -> OnlineState:
    """Assign the rows of a batch, then move every centre that ever had rows to their mean.

    With `unit`, to the mean's direction.
    """
    labels = batch.nearest(state.centers)
    added = ClusterSums.of(batch, weight, labels, state.t)
    sums, weights = state.sums + added.sums.integers, state.weights + added.weights.integers
    centers, known = state.centers.copy(), np.flatnonzero(weights[:, 0])
    centers[known] = (sums[known] / weights[known]).astype(np.float64)
    centers = directions(centers, state.centers) if unit else centers
    return OnlineState(centers, sums, weights, moved=True)
