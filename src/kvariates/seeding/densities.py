"""Densities: how a picked row becomes a centre.

A density p_a belongs to every row a of the space it is asked about: `sample` draws a centre for
each picked row, `mean` and `trace` give the expectation and the trace of the covariance of p_a for
every row. The last two are what the guarantee of k-variates++ depends on.

Weights are the rows' weights (None: all ones): a row of weight w counts as w rows. `pointwise` says
that only a row's values matter, not its place: then shuffling the rows changes no draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows

Indices = NDArray[np.int64]


@runtime_checkable
class Density(Protocol):
    def sample(
        self, space: Rows, rows: Indices, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        """One centre for each picked row."""

    def mean(self, space: Rows, weight: F64 | None) -> F64:
        """The expectation of every row's density: (n, d)."""

    def trace(self, space: Rows, weight: F64 | None) -> F64:
        """The trace of the covariance of every row's density: (n,)."""


@dataclass(frozen=True)
class Dirac:
    """The picked row is the centre."""

    pointwise: ClassVar[bool] = True

    def sample(
        self, space: Rows, rows: Indices, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        return space.take(rows)

    def mean(self, space: Rows, weight: F64 | None) -> F64:
        return space.take(np.arange(space.n))

    def trace(self, space: Rows, weight: F64 | None) -> F64:
        return np.zeros(space.n)


@dataclass(frozen=True)
class _Noise(ABC):
    """Centred noise on the picked row, of its own scale on every coordinate."""

    scale: Any  # a number, or one for every feature
    pointwise: ClassVar[bool] = True

    @abstractmethod
    def sample(
        self, space: Rows, rows: Indices, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        """One centre for each picked row."""

    @abstractmethod
    def _variance(self) -> Any:
        """Of one coordinate, or of each."""

    def mean(self, space: Rows, weight: F64 | None) -> F64:
        return space.take(np.arange(space.n))

    def trace(self, space: Rows, weight: F64 | None) -> F64:
        variance = np.broadcast_to(self._variance(), (space.d,))
        return np.full(space.n, float(np.sum(variance)))


class Laplace(_Noise):
    """Laplace noise of the given scale on every coordinate; its variance is 2 scale^2.

    This noise comes from `rng` and protects nobody: private fits take theirs from `privacy`.
    """

    def sample(
        self, space: Rows, rows: Indices, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        return rng.laplace(space.take(rows), self.scale)

    def _variance(self) -> Any:
        return 2 * np.square(self.scale)


class Gaussian(_Noise):
    """Gaussian noise of the given standard deviation on every coordinate."""

    def sample(
        self, space: Rows, rows: Indices, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        return rng.normal(space.take(rows), self.scale)

    def _variance(self) -> Any:
        return np.square(self.scale)


@dataclass(frozen=True, eq=False)
class UniformOver:
    """A row of the picked row's group, in proportion to weight; with `then`, that row's density.

    With groups as peers this is what a peer answers when it is asked for a centre.
    """

    groups: Any  # one label for every row
    then: Density = Dirac()

    def sample(
        self, space: Rows, rows: Indices, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        of = self._numbers(space)
        chosen = np.empty(len(rows), dtype=np.int64)
        for place, row in enumerate(rows):
            members = np.flatnonzero(of == of[row])
            share = None if weight is None else weight[members] / weight[members].sum()
            chosen[place] = rng.choice(members, p=share)
        return self.then.sample(space, chosen, weight, rng)

    def mean(self, space: Rows, weight: F64 | None) -> F64:
        of = self._numbers(space)
        return _group_means(of, self.then.mean(space, weight), weight)[of]

    def trace(self, space: Rows, weight: F64 | None) -> F64:
        # Law of total variance: within the group's means, plus the mean of what follows.
        of = self._numbers(space)
        means = self.then.mean(space, weight)
        off = means - _group_means(of, means, weight)[of]
        inner = np.einsum("ij,ij->i", off, off) + self.then.trace(space, weight)
        out: F64 = _group_means(of, inner[:, None], weight)[of, 0]
        return out

    def _numbers(self, space: Rows) -> NDArray[np.int64]:
        of = np.unique(np.asarray(self.groups), return_inverse=True)[1]
        if of.shape != (space.n,):
            raise ValueError(
                f"UniformOver has {of.size} group labels for {space.n} rows; give one per row."
            )
        return of


def _group_means(of: NDArray[np.int64], values: F64, weight: F64 | None) -> F64:
    w = np.ones(len(of)) if weight is None else weight
    sums = np.zeros((int(of.max()) + 1, values.shape[1]))
    np.add.at(sums, of, w[:, None] * values)
    total = np.bincount(of, weights=w)
    means: F64 = sums / np.where(total > 0, total, 1)[:, None]
    return means
