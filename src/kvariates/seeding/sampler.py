"""k-variates++ (Nock et al. 2016, Algorithm 0): the only D^2 sampler.

    for t = 1..k:  pick a row a with probability proportional to  weight(a) * D_t(probe(a))
                   draw the centre c_t from density(a)

D_t is the cost of the nearest of c_1..c_{t-1} (constant for t = 1). A setting is a choice of probe
(where the cost is measured) and density (how a picked row becomes a centre); docs/architecture.md
lists the family. The sampler asks a potential (made by a probe) and a density, and knows nothing
else of the data. Here are also the potential of k-means++ and what every seeding is given.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from kvariates.data.exact_sums import share_of, unscaled
from kvariates.data.host_data import Data, HostData
from kvariates.data.row_costs import Costs, RowCosts, choose_unit, stay_limit
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64


class Potential(ABC):
    """The cost of every row with the centres added so far; draws rows by weight * cost.

    Centres are one array: coordinates (k, d), or the indices (k,) of points of a metric space.
    `room`: an array for all of them. `points`: what drawn indices refer to. `weight`: of each of
    them; None if all are one.
    """

    points: Any
    weight: F64 | None

    def __init__(self, room: NDArray[Any]) -> None:
        self._centers, self._known = room, 0

    @property
    def centers(self) -> NDArray[Any]:
        """The centres added so far."""
        return self._centers[: self._known]

    def add(self, centers: NDArray[Any]) -> None:
        """Add all of these centres. The work may be put off until `flush`."""
        self._centers[self._known : self._known + len(centers)] = centers
        self._known += len(centers)

    @abstractmethod
    def add_best(self, candidates: NDArray[Any]) -> int:
        """Add the candidate that lowers the total most; return its index."""

    @abstractmethod
    def total(self) -> float:
        """Sum of weight * cost; of the weights if there is no centre yet."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> int:
        """Draw an index in proportion to weight * cost; by weight alone if all costs are zero."""

    def draws(self, size: int, rng: np.random.Generator) -> I64:
        """So many indices as `draw` gives them."""
        return np.array([self.draw(rng) for _ in range(size)], dtype=np.int64)

    def flush(self) -> None:  # noqa: B027
        """Do the work that `add` has put off."""


class Density(Protocol):
    """How a picked point becomes a centre."""

    def sample(
        self, points: Any, picked: I64, weight: F64 | None, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Draw one centre for each picked index."""


@dataclass(frozen=True)
class Seeds:
    """`indices`: the points the centres were picked by."""

    centers: NDArray[Any]
    indices: I64


def check_drawn(density: object, values: object, shape: tuple[int, ...]) -> None:
    """ValueError unless a density gave finite numbers of this shape."""
    name = type(density).__name__
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "fiub":
        raise ValueError(
            f"The density {name} returned {array.dtype} of shape {array.shape}; it must return "
            f"numbers of shape {shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"The density {name} returned NaN or infinity; its values must be finite.")


def greedy_trials(k: int) -> int:
    """scikit-learn's number of candidates per step."""
    return 2 + int(math.log(k))


def sample(
    potential: Potential, density: Density, k: int, rng: np.random.Generator, *, trials: int = 1
) -> Seeds:
    """Draw k centres, one `sample_step` each."""
    picked = [sample_step(potential, density, rng, trials=trials) for _ in range(k)]
    return Seeds(potential.centers, np.array(picked, dtype=np.int64))


def sample_step(
    potential: Potential, density: Density, rng: np.random.Generator, *, trials: int = 1
) -> int:
    """Draw one more centre, add it to the potential and return the index it was picked by.

    With trials > 1 (greedy seeding) every centre but the first is the best of so many draws. The
    distribution then differs from that of Algorithm 0, so its guarantee does not hold.
    """
    size = trials if trials > 1 and len(potential.centers) else 1
    picked = potential.draws(size, rng)
    candidates = density.sample(potential.points, picked, potential.weight, rng)
    check_drawn(density, candidates, (size, *potential.centers.shape[1:]))
    if size > 1:
        return int(picked[potential.add_best(candidates)])
    potential.add(candidates)
    return int(picked[0])


PROPOSALS = 16  # tried before all pending centres are taken in
FINE_BITS = 48  # of the total of the costs
FLAT = 32  # features up to which a filter of rows in bytes does not pay
FEW = 16  # pending centres that never force a pass, and passes too few for a filter to pay


class EuclideanPotential(Potential):
    """The potential of rows under squared Euclidean distance, with room for k centres.

    A plain draw needs no pass over the rows. Added centres stay *pending*: the kept costs are then
    upper bounds, a row is proposed by its bound and accepted with probability (true cost / bound),
    which is exactly the law of the true costs. All pending centres are taken in together, in one
    pass, once they are as many as the centres before, or once many proposals were rejected. So k
    centres cost about as much as one assignment to k centres, not k passes.

    With skip=False no row is left out by bounds: no draw changes.

    `rows`: `Rows`, or `Data` with its `costs` if they are not in memory.
    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """

    def __init__(
        self,
        rows: Any,
        weight: F64 | None,
        k: int,
        *,
        skip: bool = True,
        costs: Costs | None = None,
    ) -> None:
        super().__init__(np.empty((k, rows.d)))
        self.points, self.weight, self.skip = rows, weight, skip
        self._flushed = 0  # how many of the added centres the costs know
        self._costs: Costs = costs or RowCosts(rows, weight)
        self._exponent = 0  # of the sums of costs
        self._rejected = 0  # proposals since the last flush
        self._filter_due = True
        self._squares_checked = False

    def masses(self) -> F64:
        self.flush()
        _, exponent = self._by_weight()
        exact = self._costs.masses(self._known, exponent)
        return np.array([unscaled(mass, exponent) for mass in exact])

    def total(self) -> float:
        if self._known == 0:
            by_weight, exponent = self._by_weight()
            return unscaled(by_weight.total(), exponent)
        self.flush()
        return unscaled(self._costs.total(), self._exponent)

    def draw(self, rng: np.random.Generator) -> int:
        if self._known == 0:
            return self._draw_by_weight(rng)
        pending = self._known - self._flushed
        many = pending >= max(FEW, self._flushed) or self._rejected * pending > self.points.n // 8
        if many or self._flushed == 0:
            self.flush()
        while True:
            fresh = self._centers[self._flushed : self._known]
            for _ in range(PROPOSALS):
                total = self._costs.total()
                if total == 0:
                    break
                goal = share_of(total, rng.random())
                found = self._costs.propose(goal, fresh, self._flushed)
                if rng.random() * found.bound < found.cost:
                    return found.row
                self._rejected += 1
            if self._flushed == self._known and total == 0:
                self._check_squares()
                return self._draw_by_weight(rng)
            self.flush()

    def draws(self, size: int, rng: np.random.Generator) -> I64:
        if size > 1:
            self.flush()
        total = self._costs.total() if size > 1 else 0
        if total == 0:
            return super().draws(size, rng)
        uniforms = rng.random((size, 2))  # of `draw`: a goal, and a proposal that is accepted
        return self._costs.rows_at([share_of(total, u) for u in uniforms[:, 0].tolist()])

    def draw_many(self, size: int, rng: np.random.Generator) -> I64:
        self.flush()
        total = self._costs.total()
        if total == 0:
            return np.zeros(size, dtype=np.int64)
        return self._costs.rows_at([share_of(total, u) for u in rng.random(size).tolist()])

    def add_best(self, candidates: F64) -> int:
        self.flush()
        if self._filter_due:
            self._filter_due = False
            passes = len(self._centers) - self._known
            if self.skip and self.points.d > FLAT and passes >= FEW:
                self._costs.make_filter()
        limit = None if self._costs.has_filter else self._limit(candidates)
        best = self._best_of(candidates, limit)
        self._costs.lower_to(candidates, best, self._known)
        self.add(candidates[best : best + 1])
        self._flushed = self._known
        self._refine_unit()
        return best

    def _best_of(self, candidates: F64, limit: F64 | None) -> int:
        """The first candidate of the largest gain; exact gains decide where bounds overlap."""
        bounds = self._costs.gain_bounds(candidates, limit).tolist()
        least = max(low for low, _ in bounds)
        largest = [i for i, (_, high) in enumerate(bounds) if not high < least]
        if len(largest) == 1:
            return largest[0]
        gains = self._costs.gains(candidates[largest], limit)
        return largest[gains.index(max(gains))]

    def flush(self) -> None:
        if self._flushed == self._known:
            return
        fresh = self._centers[self._flushed : self._known]
        self._costs.lower(fresh, self._flushed, self._limit(fresh))
        if self._flushed == 0:
            self._choose_unit()
        self._flushed, self._rejected = self._known, 0
        self._refine_unit()

    def _choose_unit(self) -> None:
        """Costs only fall, so the largest cost at the first centres bounds all later ones."""
        try:
            self._exponent = choose_unit(self._costs)
        except ValueError:
            self._check_squares()  # raises if the rows are the reason
            raise

    def _check_squares(self) -> None:
        """Raise if squares of the rows vanish or overflow. All rows are read, but only once."""
        if not self._squares_checked:
            self.points.spread()
            self._squares_checked = True

    def _refine_unit(self) -> None:
        """Choose the unit again if costs have fallen so far that it rounds them."""
        if self._costs.total().bit_length() < FINE_BITS and self._costs.largest() > 0:
            self._choose_unit()

    def _limit(self, fresh: F64) -> F64 | None:
        """`stay_limit` of the known centres; none for pending ones, which may be nearest too."""
        old = self._flushed
        if not self.skip or old == 0 or old * len(fresh) > 4 * self.points.n:
            return None  # nothing to compare with, or more pairs of centres than rows to save
        limit = np.full(self._known, -1.0)
        limit[:old] = stay_limit(self._centers[:old], fresh)
        return limit

    def _by_weight(self) -> tuple[Costs, int]:
        """The rows with a cost of one each, and the exponent of their sums."""
        costs = self._costs.by_weight()
        return costs, choose_unit(costs)

    def _draw_by_weight(self, rng: np.random.Generator) -> int:
        if not self._costs.weighted:
            return share_of(self.points.n, rng.random())
        costs, _ = self._by_weight()
        return int(costs.rows_at([share_of(costs.total(), rng.random())])[0])


def euclidean_potential(data: Data, k: int) -> EuclideanPotential:
    """The potential of rows, wherever they are, with room for k centres."""
    if isinstance(data, HostData):
        return EuclideanPotential(data.rows, data.weight, k)
    costs = data.costs()
    return EuclideanPotential(data, None, k, costs=costs, skip=costs.skips)


# ---- What every seeding is given -----------------------------------------------------------------


@dataclass(frozen=True)
class Dirac:
    """The picked row is the centre."""

    pointwise: ClassVar[bool] = True

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: np.random.Generator) -> F64:
        return rows.take(picked)

    def mean(self, rows: Rows, weight: F64 | None) -> F64:
        return rows.take(np.arange(rows.n))

    def trace(self, rows: Rows, weight: F64 | None) -> F64:
        return np.zeros(rows.n)


DIRAC = Dirac()
MakePotential = Callable[[Any, int], Potential]  # from data, and room for centres


@dataclass(frozen=True)
class SeedingProblem:
    """Rows to be seeded with k centres, under any objective. Pre: 1 <= k <= n."""

    data: Any  # `Data`; HostData where a seeding needs "host rows"
    k: int
    make_potential: MakePotential = euclidean_potential
    density: Density = DIRAC
    lloyd: Any = None  # from some of the data and centres to a `LloydResult`, for seedings with it
    pointwise: bool = True  # whether potential and density know rows by values, not by indices
    order: I64 | None = None  # where the rows were before `canonical`; None if they did not move
    rng: np.random.Generator = field(kw_only=True)

    @property
    def rows(self) -> Rows:
        return cast("Rows", self.data.rows)

    @property
    def weight(self) -> F64 | None:
        return cast("F64 | None", self.data.weight)

    def canonical(self) -> SeedingProblem:
        """The same problem with rows in canonical order, for draws that do not depend on theirs."""
        if not self.pointwise or self.order is not None:
            return self
        found = self.data.canonical()
        return self if found is None else replace(self, data=found[0], order=found[1])

    def original(self, indices: I64) -> I64:
        """The indices of these rows before `canonical`."""
        return indices if self.order is None else self.order[indices]


def sample_rows(problem: SeedingProblem, *, trials: int = 1) -> Seeds:
    """Run the sampler on rows in canonical order. trials > 1: greedy seeding."""
    p = problem.canonical()
    seeds = sample(p.make_potential(p.data, p.k), p.density, p.k, p.rng, trials=trials)
    return Seeds(seeds.centers, p.original(seeds.indices))
