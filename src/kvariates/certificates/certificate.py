"""How far from the best k medoids a solution can be: a lower bound on what any k medoids cost.

**Exact.** Prices v prove L(v) <= OPT, whatever they are (`refining.dual`). A certificate's bound is
L(v) for the best prices found, rounded down by more than rounding may have added; where all weights
and distances are whole numbers OPT is one as well, and the bound is rounded up to the next.

**From a sample**, where a pass over all distances takes too long: `refining.sampled`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.certificates.certified_problem import (
    CertifiedProblem,
    ball_size,
    balls,
    onto,
    trust,
    work,
)
from kvariates.certificates.dual import DistanceLists, DistanceOracle, DistanceTable, Goal, ascend
from kvariates.certificates.sampled_bound import sampled
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceRows, Ints, MetricSpace
from kvariates.data.rows import F64, Floats, TwoNearest

REACH = 1.1  # prices go up to so many times the distance to the second nearest medoid, in lists
TABLE_BYTES = 2**30  # of distances, in a table
LIST_ENTRIES = 3 * 10**7  # in lists
BALL_ENTRIES = 16 * 10**6  # in lists that have to be turned over
EXACT_WORK = 2.5e9  # distances (see `problem.work`) for which a pass over all is not too long


@dataclass(frozen=True)
class Certificate:
    """Proof that no k medoids cost less than `lower_bound`."""

    lower_bound: float
    cost: float  # of the medoids that were found
    confidence: float  # 1 if the bound is exact
    sample: int | None  # how many points were drawn
    iterations: int
    rounded: bool = False  # up to a whole number: all weights and distances are

    @property
    def gap(self) -> float:
        """By what part of the best possible cost the solution's may be above it."""
        if self.cost <= self.lower_bound:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.inf

    def __str__(self) -> str:
        how = "certified"
        if self.sample is not None:
            how = f"{100 * self.confidence:.6g} % confidence, from a sample of {self.sample:,}"
        if not math.isfinite(self.gap):
            return f"no bound was found ({how})"
        if self.gap == 0:
            return f"optimal ({how})"
        return f"within {_percent(self.gap)} of optimal ({how})"

    def explain(self) -> str:
        """What was proved, and what it rests on, in plain words."""
        lines = [
            f"The medoids cost {self.cost:.6g}.",
            f"No choice of as many medoids costs less than {self.lower_bound:.6g},",
            f"so these are {self}.",
        ]
        if self.sample is not None:
            lines.append(
                f"The bound comes from {self.sample:,} points drawn at random; of certificates "
                f"like this one, at most {100 * (1 - self.confidence):.3g} % are wrong."
            )
        else:
            lines.append("That was checked against every distance; no chance is involved.")
        if self.rounded:
            lines.append("All distances and weights are whole: the bound is the next whole number.")
        return "\n".join(lines)


def _percent(part: float) -> str:
    """Rounded up: a certificate may not promise more than was proved."""
    digits = max(0, 1 - math.floor(math.log10(100 * part)))
    scale = 10.0 ** min(digits, 6)
    return f"{math.ceil(100 * part * scale * (1 - 1e-12)) / scale:.12g} %"


def certify(
    space: MetricSpace,
    medoids: Ints,
    near: TwoNearest,
    weight: F64 | None,
    *,
    confidence: float = 0.99,
    sample: int | None = None,
    max_iter: int = 480,
    rng: np.random.Generator,
) -> Certificate:
    """A lower bound for the problem that `medoids` solve; `near` says at what cost.

    Exact where all distances that matter can be looked at in a few seconds, else from a sample, of
    `sample` points if given (then always).
    """
    k, demand = len(medoids), np.arange(len(near.cost))
    mass = np.ones(len(demand)) if weight is None else np.asarray(weight, dtype=np.float64)
    demand = demand[mass > 0]
    mass, paid, second = mass[demand], _wide(near.cost, demand), _wide(near.second_cost, demand)
    cost = math.fsum(mass * paid)
    if not 0 < cost < math.inf:
        return Certificate(0.0, cost, 1.0, None, 0)
    problem = CertifiedProblem(space, k, demand, mass, paid, second, cost, max_iter)
    made = _exact(problem, rng) if sample is None else None
    if made is not None:
        return made
    seen = sampled(problem, confidence, sample, rng)
    return Certificate(seen.bound, cost, confidence, seen.size, seen.iterations)


def _wide(values: Floats, rows: Ints) -> F64:
    out: F64 = values[rows].astype(np.float64)
    return out


def _exact(problem: CertifiedProblem, rng: np.random.Generator) -> Certificate | None:
    """None: that would take too long, or too much memory."""
    reach = _whole_reach(problem, rng)
    if reach is None:
        return None
    whole = reach.whole and bool(np.all(problem.mass == np.rint(problem.mass)))
    goal = Goal(problem.k, problem.cost, whole)
    start = np.minimum(problem.start(), reach.cap)
    ascent = ascend(reach.distances, goal, start, reach.cap, problem.max_iter, rng)
    bound = ascent.bound * trust(problem.space)
    if whole:
        bound = float(math.ceil(bound))
    return Certificate(min(bound, problem.cost), problem.cost, 1.0, None, ascent.iterations, whole)


@dataclass(frozen=True)
class _Reached:
    distances: DistanceOracle
    cap: F64  # prices for which the distances suffice
    whole: bool  # all distances are whole numbers, those left out too


def _whole_reach(problem: CertifiedProblem, rng: np.random.Generator) -> _Reached | None:
    space, mass = problem.space, problem.mass
    cap = problem.start() if problem.k == 1 else REACH * problem.second
    if isinstance(space, Graph):
        if ball_size(space, problem.demand, cap, rng) * len(mass) > BALL_ENTRIES:
            return None
        lists = balls(space, problem.demand, cap, mass, 2 * BALL_ENTRIES)
        whole = bool(np.all(space.csr.data == np.rint(space.csr.data)))
        return None if lists is None else _Reached(lists, cap, whole)
    measured = onto(space, problem.demand)
    pairs = measured.universe * len(mass)
    if pairs * work(measured) > EXACT_WORK:
        return None
    if pairs * measured.dtype.itemsize > TABLE_BYTES:
        return _near_rows(measured, cap, mass)
    D = measured.matrix().D
    return _Reached(DistanceTable(D, mass), np.full(len(mass), math.inf), _all_whole(D))


def _near_rows(space: DistanceRows, cap: F64, mass: F64) -> _Reached | None:
    """Lists from rows of distances that are not kept."""
    counts, points, found, whole, size = [], [], [], True, 0
    for first in range(0, space.universe, space.block):
        rows = space.distances(np.arange(first, min(first + space.block, space.universe)))
        whole = whole and _all_whole(rows)
        close = rows < cap
        counts.append(np.count_nonzero(close, axis=1))
        size += int(counts[-1].sum())
        if size > LIST_ENTRIES * min(1.0, 0.1 + (first + len(rows)) / space.universe):
            return None
        points.append(np.nonzero(close)[1].astype(np.int32))
        found.append(rows[close].astype(np.float64))
    start = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return _Reached(
        DistanceLists(start, np.concatenate(points), np.concatenate(found), mass), cap, whole
    )


def _all_whole(D: Any) -> bool:
    step = max(1, 2**20 // max(1, D.shape[1]))
    parts = (D[first : first + step] for first in range(0, len(D), step))
    return all(bool(np.all(part == np.rint(part))) for part in parts)
