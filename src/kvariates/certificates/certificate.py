"""Certificates: lower bounds on the cost of any k medoids.

**Exact.** Any prices v prove L(v) <= OPT (`certificates.dual`). The bound is L(v) for the best
prices found, minus a bound on its rounding error. If all weights and distances are whole numbers,
OPT is one too, and the bound is rounded up.

**From a sample**, if a pass over all distances takes too long: `certificates.sampled_bound`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.certificates import dual
from kvariates.certificates.dual import CertifiedProblem
from kvariates.certificates.sampled_bound import sampled_bound
from kvariates.data.distance_tables import DistanceLists, DistanceOracle, DistanceTable, graph_lists
from kvariates.data.graph import Graph, NeighborLists
from kvariates.data.metric_spaces import DistanceRows, MetricSpace
from kvariates.data.rows import F64, Floats, TwoNearest
from kvariates.notebook_html import boxed, shortened
from kvariates.progress import Report

CAP = 1.1  # times the distance to the second nearest medoid: the largest price, with lists
TABLE_BYTES = 2**30  # of distances in a table
LIST_ENTRIES = 3 * 10**7  # in lists
BALL_ENTRIES = 16 * 10**6  # in lists of a graph
USELESS = 1.0  # a gap above which a bound tells hardly anything
EXACT_WORK = 2.5e9  # distances, times `work`, up to which all are computed


@dataclass(frozen=True)
class Certificate:
    """Proof that no k medoids (or centres) cost less than `lower_bound`."""

    lower_bound: float
    cost: float  # of the medoids or centres that were found
    confidence: float  # 1 if the bound is exact
    sample: int | None  # how many points were drawn
    iterations: int
    rounded: bool = False  # up to a whole number, as all weights and distances are
    centers: str = "medoids"  # what was found, in words
    missing: str | None = None  # why no bound was computed
    only_rounding: bool = False  # the whole cost is rounding errors of the centres

    @property
    def gap(self) -> float:
        """The most by which the cost can exceed the optimum, as a part of the optimum.

        0 if the whole cost is rounding errors.
        """
        if self.cost <= self.lower_bound or self.only_rounding:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.inf

    def __str__(self) -> str:
        if self.missing is not None:
            return f"no bound was computed: {self.missing}"
        if self.gap > USELESS:
            return "no useful bound"
        how = "certified"
        if self.sample is not None:
            how = f"{100 * self.confidence:.6g} % confidence, from a sample of {self.sample:,}"
        if self.gap == 0:
            return f"optimal{' up to rounding' if self.only_rounding else ''} ({how})"
        return f"within {_percent(self.gap)} of optimal ({how})"

    def __repr__(self) -> str:
        words = shortened(str(self), 200)
        return f"Certificate({words!r}, cost={self.cost:.6g}, lower_bound={self.lower_bound:.6g})"

    def _repr_html_(self) -> str:
        said = str(self)
        return boxed(f"{said[0].upper()}{said[1:]}", self.explain().splitlines())

    def explain(self) -> str:
        """What was proved, and how, in plain words."""
        cost = f"The {self.centers} cost {self.cost:.6g}."
        if self.missing is not None:
            return f"{cost}\nNo bound was computed: {self.missing}."
        if self.only_rounding:
            return f"{cost}\nThis is only rounding error: every row is equal to its centre."
        lines = [
            cost,
            f"No choice of as many {self.centers} costs less than {self.lower_bound:.6g},",
            f"so these are {self}."
            if self.gap <= USELESS
            else "which is less than half of the cost: no useful bound.",
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
    """Rounded up, so that no more is promised than was proved; at least 0.0001 %."""
    digits = max(0, 1 - math.floor(math.log10(100 * part)))
    scale = 10.0 ** min(digits, 4)
    return f"{math.ceil(100 * part * scale * (1 - 1e-12)) / scale:.12g} %"


def certify(
    space: MetricSpace, k: int, near: TwoNearest, weight: F64 | None, rng: np.random.Generator,
    *, sample: int | None = None, confidence: float = 0.99, max_iter: int = 480,
    report: Report | None = None,
) -> Certificate:  # fmt: skip
    """A lower bound on the cost of any k medoids; `near` belongs to those that were found.

    The bound is exact if all distances that matter can be computed in a few seconds and no sample
    is asked for.
    """
    mass = np.ones(space.n) if weight is None else np.asarray(weight, dtype=np.float64)
    demand = np.flatnonzero(mass > 0)
    mass = mass[demand]
    nearest, second = (d[demand].astype(np.float64) for d in (near.cost, near.second_cost))
    cost = math.fsum(mass * nearest)
    if not 0 < cost < math.inf:
        missing = "the cost is infinite" if cost > 0 else None
        return Certificate(0.0, cost, 1.0, None, 0, missing=missing)
    problem = CertifiedProblem(
        space, k, demand, mass, nearest, second, cost, sample, confidence, max_iter, report
    )
    exact = _exact(problem, rng) if sample is None else None
    if exact is not None:
        return exact
    found = sampled_bound(problem, rng)
    return Certificate(found.bound, cost, confidence, found.size, found.iterations)


def _exact(problem: CertifiedProblem, rng: np.random.Generator) -> Certificate | None:
    """None if that takes too much time or memory."""
    found = _all_distances(problem, rng)
    if found is None:
        return None
    whole = found.whole and _all_whole(problem.weight[None])
    goal = dual.Goal(problem.k, problem.cost, whole, report=problem.report)
    start = np.minimum(problem.start(), found.cap)
    best = dual.maximize_bound(found.distances, goal, start, found.cap, problem.max_iter, rng)
    bound = problem.below(best.bound)
    if whole:
        bound = float(math.ceil(bound))
    return Certificate(min(bound, problem.cost), problem.cost, 1.0, None, best.iterations, whole)


@dataclass(frozen=True)
class _AllDistances:
    distances: DistanceOracle  # all that matter while prices stay below the cap
    cap: F64
    whole: bool  # all distances are whole numbers, also those left out


def _all_distances(problem: CertifiedProblem, rng: np.random.Generator) -> _AllDistances | None:
    space, weight = problem.space, problem.weight
    cap = problem.start() if problem.k == 1 else CAP * problem.second
    if isinstance(space, Graph):
        if dual.ball_size(space, problem.demand, cap, rng) * len(weight) > BALL_ENTRIES:
            return None
        lists = graph_lists(space, problem.demand, cap, weight, 2 * BALL_ENTRIES)
        whole = _all_whole(space.csr.data[None])
        return None if lists is None else _AllDistances(lists, cap, whole)
    measured = dual.measured_at(space, problem.demand)
    pairs = measured.n_candidates * len(weight)
    if pairs * measured.work > EXACT_WORK:
        return None
    if pairs * measured.dtype.itemsize > TABLE_BYTES:
        return _lists_of_rows(measured, cap, weight)
    D, cap = measured.matrix().D, np.full(len(weight), math.inf)
    whole = measured.exact_if_whole(float(D.max())) and _all_whole(D)
    return _AllDistances(DistanceTable(weight, D), cap, whole)


def _lists_of_rows(space: DistanceRows, cap: F64, weight: F64) -> _AllDistances | None:
    """Compute all rows of distances, and keep the distances below the cap."""
    counts, points, kept, whole, size = [], [], [], True, 0
    for first in range(0, space.n_candidates, space.block):
        rows = space.distances(np.arange(first, min(first + space.block, space.n_candidates)))
        whole = whole and space.exact_if_whole(float(rows.max())) and _all_whole(rows)
        below = rows < cap
        counts.append(np.count_nonzero(below, axis=1))
        size += int(counts[-1].sum())
        if size > LIST_ENTRIES * min(1.0, 0.1 + (first + len(rows)) / space.n_candidates):
            return None
        points.append(np.nonzero(below)[1].astype(np.int32))
        kept.append(rows[below].astype(np.float64))
    start = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    lists = NeighborLists(start, np.concatenate(points), np.concatenate(kept))
    return _AllDistances(DistanceLists(weight, lists), cap, whole)


def _all_whole(D: Floats) -> bool:
    step = max(1, 2**20 // max(1, D.shape[1]))
    parts = (D[first : first + step] for first in range(0, len(D), step))
    return all(bool(np.all(part == np.rint(part))) for part in parts)
