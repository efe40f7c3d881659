"""What is known of a stream between batches: `StreamState`, and `OnlineState` of OLk-means++.

`StreamState` has a summary, a few witness rows, and how many rows were seen. With a half-life h, a
row's weight is halved by every h rows that follow. New rows get weights that grow instead, and what
is read is divided by the weight of a row that came just now. After a fixed number of rows, before
the weights get large, all of them are scaled.

OLk-means++ (Nock et al. 2016, Algorithm 3) draws one centre from every batch, until there are k:
the first from the first batch by weight, each later one from its own batch by weight * D^2, D being
the distance to the centres so far. This is the sampler's step, with a potential that knows the
centres of earlier batches. Afterwards centres may move: each becomes the mean of all rows that were
assigned to it since all centres exist.

Totals and sums are exact integers without a limit, in units of 2**-1074, so that they do not depend
on how rows are cut into batches, and a stream can be of any length.
"""

from __future__ import annotations

import json
import math
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvariates.data.cluster_sums import ClusterSums
from kvariates.data.exact_sums import ExactSums, Integers, exact_total, from_float, to_float
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows, directions
from kvariates.numerics.elementary import exp2
from kvariates.seeding.sampler import EuclideanPotential, SeedingProblem, Seeds, sample_rows
from kvariates.summaries.merge_reduce import SYNOPSES, Reservoir
from kvariates.summaries.weighted_points import State, SummaryOptions, WeightedPoints

WITNESSES = 1000
FORGOTTEN = 1e-100  # of the largest weight
DOUBLINGS = 64  # of the weight of a new row, after which all weights are scaled


@dataclass(frozen=True)
class SpreadEstimate:
    """The sum of the rows' squared distances to their nearest synopses, estimated.

    The standard error is zero if every row was measured.
    """

    value: float
    standard_error: float


class StreamState:
    """A summary that can be saved and merged.

    `size`: the largest number of synopses, at least four. `half_life`: in rows, at least one; None:
    nothing is forgotten. `rng` seeds the draws of this stream.
    """

    def __init__(
        self, size: int, k: int, synopsis: str, half_life: float | None, rng: np.random.Generator
    ) -> None:
        self.options = SummaryOptions(size, k)
        self.synopsis, self.half_life = synopsis, half_life
        # Two generators: the draws of one must not depend on how rows are cut into batches.
        self._rng = np.random.default_rng(rng.integers(2**63, size=4))
        self._witness_rng = np.random.default_rng(rng.integers(2**63, size=4))
        self._summary = SYNOPSES[synopsis].run(self.options)
        self._witnesses = Reservoir(SummaryOptions(WITNESSES, k))
        self.rows_seen = 0
        self._weight = 0  # of all rows, exactly
        self._clock = 0  # rows of this stream, without merged ones
        self._halvings = 0  # that all weights were scaled by

    @property
    def _age(self) -> float:
        """log2 of the weight of a row that came just now."""
        return 0.0 if self.half_life is None else self._clock / self.half_life - self._halvings

    @property
    def weight_seen(self) -> float:
        """The weight of all rows, less what was forgotten."""
        return to_float(self._weight) * float(exp2(-self._age))

    def add(self, X: Any, weight: F64 | None) -> None:
        """Take in a batch of rows, or nothing of it if that fails.

        Pre: clean, with the features, layout and dtype of those before.
        """
        before = dict(self.__dict__)
        draws = self._rng.bit_generator.state, self._witness_rng.bit_generator.state
        self._summary, self._witnesses = copy(self._summary), copy(self._witnesses)
        try:
            period = None if self.half_life is None else int(DOUBLINGS * self.half_life)
            first, n = 0, X.shape[0]
            while first < n:
                left = n if period is None else period - self._clock % period
                part = slice(first, first + left)
                self._add(X[part], None if weight is None else weight[part])
                first = part.stop
                if period is not None and self._clock % period == 0:
                    halvings = math.floor(self._age)
                    self._rescale(math.ldexp(1.0, -halvings))
                    self._halvings += halvings
        except BaseException:
            self.__dict__ = before
            self._rng.bit_generator.state, self._witness_rng.bit_generator.state = draws
            raise

    def _add(self, X: Any, weight: F64 | None) -> None:
        n = X.shape[0]
        if self.half_life is not None:
            rows = np.arange(self._clock + 1, self._clock + n + 1)
            growth = exp2(rows / self.half_life - self._halvings)
            weight = growth if weight is None else weight * growth
        points = WeightedPoints.of(X, weight)
        self._summary.add(points, self._rng)
        self._witnesses.add(points, self._witness_rng)
        self._weight += exact_total(points.weights)
        self.rows_seen += n
        self._clock += n

    def merge(self, other: StreamState) -> None:
        """Take in another stream that ends now, too. Pre: same options, synopsis, half-life."""
        added = StreamState.from_dict(other.to_dict())
        added._rescale(float(exp2(self._age - other._age)))
        self._summary.merge(added._summary, self._rng)
        self._witnesses.merge(added._witnesses, self._witness_rng)
        self._weight += added._weight
        self.rows_seen += added.rows_seen

    def synopses(self) -> WeightedPoints:
        """At most `size` weighted points for all rows. The draws of the stream do not change.

        Pre: a row of positive weight was seen.
        """
        return self._now(self._summary.points(self._apart(1))).take(slice(None))

    def spread(self) -> SpreadEstimate:
        """Theorem 5's spread: how far rows are from their nearest synopses. Pre: as `synopses`."""
        witnesses = self._now(self._witnesses.points(self._apart(2)))
        rows, synopses = witnesses.data.rows, self.synopses().data.rows
        centers = synopses.take(np.arange(synopses.n))
        cost = rows.costs(centers, rows.nearest(centers))
        share = witnesses.weights / witnesses.total
        mean = float(share @ cost)
        variance = float(share**2 @ (cost - mean) ** 2)
        # Draws without replacement: what remains is the share of the rows that were not measured.
        left = 0.0 if self._witnesses.complete else 1 - witnesses.n / self.rows_seen
        return SpreadEstimate(self.weight_seen * mean, self.weight_seen * (variance * left) ** 0.5)

    def solving_rng(self) -> np.random.Generator:
        """A generator for k-means on the synopses, the same until the next batch."""
        return self._apart(3)

    def to_dict(self) -> State:
        """Plain arrays, numbers and strings, from which the stream continues as without a stop."""
        return {
            "size": self.options.size,
            "k": self.options.k,
            "synopsis": self.synopsis,
            "half_life": self.half_life,
            "rows_seen": self.rows_seen,
            "weight": self._weight,
            "clock": self._clock,
            "halvings": self._halvings,
            "generators": [
                json.dumps(rng.bit_generator.state) for rng in (self._rng, self._witness_rng)
            ],
            "summary": self._summary.to_dict(),
            "witnesses": self._witnesses.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: State) -> StreamState:
        size, k, synopsis = state["size"], state["k"], state["synopsis"]
        stream = cls(size, k, synopsis, state["half_life"], np.random.default_rng(0))
        for rng, saved in zip((stream._rng, stream._witness_rng), state["generators"], strict=True):
            rng.bit_generator.state = json.loads(saved)
        stream._summary.restore(state["summary"])
        stream._witnesses.restore(state["witnesses"])
        stream.rows_seen = state["rows_seen"]
        stream._weight, stream._clock = state["weight"], state["clock"]
        stream._halvings = state["halvings"]
        return stream

    # A pickle must hold the rows that were kept, not the memory that buffers reserve for others.
    __getstate__ = to_dict

    def __setstate__(self, state: State) -> None:
        self.__dict__ = StreamState.from_dict(state).__dict__

    def _rescale(self, factor: float) -> None:
        if factor != 1:
            self._summary.rescale(factor)
            self._witnesses.rescale(factor)
            self._weight = from_float(to_float(self._weight) * factor)

    def _now(self, points: WeightedPoints) -> WeightedPoints:
        """Weights as of now. Rows that are forgotten up to a rest below float64 are left out."""
        if self.half_life is None:
            return points
        scaled = points.scaled(float(exp2(-self._age)))
        kept = np.flatnonzero(scaled.weights > FORGOTTEN * scaled.weights.max())
        return scaled if len(kept) == scaled.n else scaled.take(kept)

    def _apart(self, jumps: int) -> np.random.Generator:
        """A generator far from the draws of the stream, which it does not change."""
        bits: Any = self._rng.bit_generator
        return np.random.Generator(bits.jumped(jumps))


# ---- OLk-means++


@dataclass(frozen=True, eq=False)
class OnlineState:
    """The centres so far, and what was assigned to them."""

    centers: F64
    sums: Integers  # of the rows that were assigned to each centre, in units of 2**-1074
    weights: Integers  # of these rows, of shape (t, 1)
    moved: bool = False  # whether a centre has moved since it was drawn

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
            centers = next_center(state.centers, batch, weight, rng).centers
            sums = np.concatenate([state.sums, np.zeros((1, batch.d), object)])
            weights = np.concatenate([state.weights, np.zeros((1, 1), object)])
            state = replace(state, centers=centers, sums=sums, weights=weights)
        if self.update and state.t >= self.k:
            state = self._moved(state, batch, weight)
        return state

    def _moved(self, state: OnlineState, batch: Rows, weight: F64 | None) -> OnlineState:
        """Every centre that ever had rows is their mean, those of this batch included."""
        added = ClusterSums(batch, weight, state.t).recompute(batch.nearest(state.centers))
        exact = ExactSums(added.sums.limbs, added.sums.exponent)
        sums, weights = state.sums + exact.integers, state.weights + added.weights.integers
        centers, known = state.centers.copy(), np.flatnonzero(weights[:, 0])
        centers[known] = (sums[known] / weights[known]).astype(np.float64)
        centers = directions(centers, state.centers) if self.unit else centers
        return OnlineState(centers, sums, weights, moved=True)


def next_center(centers: F64, batch: Rows, weight: F64 | None, rng: np.random.Generator) -> Seeds:
    """The centres and one more, drawn from a batch; `indices` has the row of the batch it is."""

    def potential(data: Any, k: int) -> EuclideanPotential:
        made = EuclideanPotential(data.rows, data.weight, len(centers) + k)
        made.add(centers)
        return made

    return sample_rows(SeedingProblem(HostData(batch, weight), 1, potential, rng=rng))
