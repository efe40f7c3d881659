"""Weighted points: what every summary holds and returns.

A *reduction* replaces weighted points by at most `size` of them. A *summary* takes rows forever
and holds a bounded number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from kvariates.data.cluster_sums import SumsByLabel, SumScale
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows, joint_cost

State = dict[str, Any]  # plain arrays, numbers, strings, and lists and dicts of them


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points and their weights, for example rows and how many rows each stands for.

    Attributes
    ----------
    points : ndarray or CSR matrix of shape (m, d), float32 or float64
    weights : ndarray of shape (m,), float64
        Positive.
    """

    points: Any
    weights: F64

    @classmethod
    def of(cls, X: Any, weight: F64 | None) -> WeightedPoints:
        """The rows of positive weight. Weight None: one each."""
        if weight is None:
            return cls(X, np.ones(X.shape[0]))
        return cls(X, weight).positive()

    @classmethod
    def joined(cls, parts: Sequence[WeightedPoints]) -> WeightedPoints:
        """Pre: there is a part, and all have the same features and dtype."""
        if len(parts) == 1:
            return parts[0]
        points = [part.points for part in parts]
        weights = np.concatenate([part.weights for part in parts])
        if sparse.issparse(points[0]):
            return cls(sparse.vstack(points, format="csr"), weights)
        return cls(np.concatenate(points), weights)

    @property
    def n(self) -> int:
        return len(self.weights)

    @property
    def data(self) -> HostData:
        """These points as data of a fit."""
        return HostData(Rows.of(self.points), self.weights)

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def mean(self) -> F64:
        """The weighted mean, of shape (1, d)."""
        rows, label = self.data.rows, np.zeros(self.n, dtype=np.int32)
        scale = SumScale.of(rows, self.weights)
        return SumsByLabel(rows, self.weights, label, 1, scale).values / self.total

    def variance(self) -> float:
        """The mean over the features of their weighted variance."""
        rows, label = self.data.rows, np.zeros(self.n, dtype=np.int32)
        cost = joint_cost([(rows.costs(self.mean(), label), self.weights)])
        return cost / (self.total * rows.d)

    def take(self, indices: Any) -> WeightedPoints:
        """A copy of the points at these indices, or in this slice."""
        if isinstance(indices, slice) or sparse.issparse(self.points):
            return WeightedPoints(self.points[indices].copy(), self.weights[indices].copy())
        # For whole rows this is several times faster than an index.
        return WeightedPoints(self.points.take(indices, axis=0), self.weights.take(indices))

    def positive(self) -> WeightedPoints:
        """Without the points of weight zero."""
        if self.weights.all():
            return self
        return self.take(np.flatnonzero(self.weights))

    def scaled(self, factor: float) -> WeightedPoints:
        """All weights times a factor. Points whose weight vanishes are dropped."""
        return WeightedPoints(self.points, self.weights * factor).positive()

    def to_dict(self) -> State:
        X = self.points
        if not sparse.issparse(X):
            return {"points": X, "weights": self.weights}
        csr = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": list(X.shape)}
        return {"csr": csr, "weights": self.weights}

    @classmethod
    def from_dict(cls, state: State) -> WeightedPoints:
        if "points" in state:
            return cls(state["points"], state["weights"])
        csr = state["csr"]
        parts = csr["data"], csr["indices"], csr["indptr"]
        return cls(sparse.csr_array(parts, shape=tuple(csr["shape"])), state["weights"])


@dataclass(frozen=True)
class SummaryOptions:
    """At most `size` points, made for k clusters. Pre: size >= 4, k >= 1."""

    size: int
    k: int


Reduction = Callable[[WeightedPoints, SummaryOptions, np.random.Generator], WeightedPoints]
"""At most `size` of the points, with the same total weight; all of them if they are no more."""


class StreamSummary(Protocol):
    """A bounded number of weighted points for any number of rows.

    All rows have the same features and the same dtype. The result does not depend on how the rows
    are cut into batches.
    """

    def add(self, rows: WeightedPoints, rng: np.random.Generator) -> None:
        """Take in rows. They are copied."""

    def merge(self, other: Any, rng: np.random.Generator) -> None:
        """Take in all that `other`, a summary of the same kind and options, has taken in."""

    def points(self, rng: np.random.Generator) -> WeightedPoints:
        """At most `size` points for all rows so far. The summary does not change. Pre: any row."""

    def copy(self) -> Any:
        """A summary of the same rows. Only one of both may take in more rows."""

    def rescale(self, factor: float) -> None:
        """Multiply all weights by a factor."""

    def to_dict(self) -> State: ...

    def restore(self, state: State) -> None:
        """Continue from a state of `to_dict`. Pre: nothing was added."""
