"""Certificates of k-median: lower bounds on the cost of any k medoids.

**Prices**, from the dual of k-median. Give every point i a price v_i, and let candidate j gain
g_j(v) = sum_i w_i max(v_i - d_ij, 0). For any k candidates C the cost of a point is at least
v_i - sum_{j in C} max(v_i - d_ij, 0), so

    cost(C)  >=  sum_i w_i v_i - sum_{j in C} g_j(v)
             >=  sum_i w_i v_i - (sum of the k largest g_j(v))  =:  L(v)

Every v proves a bound, with one pass over the distances. The largest L(v) is the optimum of the
linear program of k-median, which is close to that of k-median itself. No triangle inequality is
needed. A cap on the prices can only weaken the bound.

L is concave. `subgradient_ascent` follows its subgradients, 1 - (the number of the k best
candidates closer to i than its price), averaged with those before, in steps of Polyak's length,
which uses the cost of the known solution (Held, Wolfe and Crowder 1974). Steps are halved when the
bound has not risen for a while. If there are many candidates, `maximize_bound` takes these steps
with some of them and adds others that gain more.

**Exact.** Any prices v prove L(v) <= OPT. The bound is L(v) for the best prices found, minus a
bound on its rounding error. If all weights and distances are whole numbers, OPT is one too, and the
bound is rounded up.

**From a sample**, if a pass over all distances takes too long. Choose a cap r(x) > 0 for every
point x, here a multiple of max(its cost in the solution, the mean cost). Let R = sum_x w(x) r(x),
and draw s points independently with probabilities w(x) r(x) / R. For the best medoids C*

    Z = the mean over the draws of min(d(x, C*), r(x)) / r(x)

is a mean of s independent numbers in [0, 1] with mean m = sum_x w(x) min(d(x, C*), r(x)) / R, so
R m <= OPT. C* is one choice of k medoids for the drawn points with weights 1 / (s r(x)) and costs
capped at r(x), so a lower bound z for that problem has z <= Z. (With costs capped at r(x), prices
need not exceed r(x), and for such prices the cap changes nothing.) By Chernoff and Hoeffding

    P(Z >= z) <= exp(-s KL(z || m))    for m < z.

Let m_0 be the root below z of s KL(z || m_0) = ln(1 / alpha). Then m < m_0 has probability at most
alpha, and R m_0 is a lower bound on OPT with confidence 1 - alpha. The solution and the caps may
depend on anything but the draws. Low caps make the mean more certain but leave out costs above
them; `_best_factor` chooses how low they are, with draws of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kvariates.certificates.certificate import Certificate, smallest_mean
from kvariates.data.distance_tables import (
    DistanceOracle,
    DistanceTable,
    StreamedDistances,
    all_whole,
    graph_lists,
    row_lists,
)
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceRows, Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest
from kvariates.progress import Progress, Report

CAP = 1.1  # times the distance to the second nearest medoid: the largest price, with lists
TABLE_BYTES = 2**30  # of distances in a table
LIST_ENTRIES = 3 * 10**7  # in lists
BALL_ENTRIES = 16 * 10**6  # in lists of a graph
EXACT_WORK = 2.5e9  # distances, times `work`, up to which all are computed
FACTORS = 1.3, 1.8, 2.6, 4.0  # caps of a sample, as multiples of the points' costs
PILOT, CANDIDATES, PILOT_STEPS = 1000, 2048, 100  # draws, candidates and steps to choose a factor
WORK = 8e9  # distances, times `work`, in one pass over a sample
ENTRIES = 16 * 10**6  # on a graph: nodes within the caps of all draws
SIZES = 50, 16_000  # the smallest and the largest sample
MEMORY = 0.7  # the share of the previous direction in the next one
PATIENCE = 10  # steps without a better bound before steps are halved
SMALLEST = 1e-4  # the shortest step, as a part of Polyak's
LONGER = 2.0  # the growth of the step size when candidates were added
ADDED = 256  # the least number of candidates added at a time
ROUND, ROUNDS = 80, 6  # steps in a round, after which candidates are added, and rounds
POOL = 2**14  # candidates looked at in all rounds but the last two
SMALL = 2**21  # pairs of points and candidates up to which all candidates are used
ROUNDING = 2.0**-53
TOLD = 10  # steps after which progress is reported


@dataclass(frozen=True)
class CertifiedProblem:
    """The arrays have one entry for each point of positive weight."""

    space: MetricSpace
    k: int
    demand: Ints  # the points' numbers
    weight: F64
    nearest: F64  # distance to the nearest medoid
    second: F64  # distance to the second nearest medoid
    cost: float
    sample: int | None  # how many points to draw; None: an exact bound if possible
    confidence: float  # of a bound from a sample
    max_iter: int  # subgradient steps
    report: Report | None = None

    def start(self) -> F64:
        """Prices to start from: between the distances to the nearest and the second medoid."""
        if self.k == 1:  # prices above all distances make the bound exact
            return np.full(len(self.nearest), 2 * self.nearest.max())
        between = 0.75 * self.nearest + 0.25 * self.second
        return np.where(np.isfinite(self.second), between, self.nearest)

    def caps(self, factor: float) -> F64:
        """The largest cost of each point in a sample."""
        return factor * np.maximum(self.nearest, self.cost / math.fsum(self.weight))

    def below(self, bound: float) -> float:
        """A bound for the exact distances from a bound for the computed ones."""
        return self.space.below(bound, math.fsum(self.weight))

    def measured(self, points: Ints) -> DistanceRows:
        """The space, which is no graph, with costs measured at these points only."""
        space = self.space
        assert isinstance(space, DistanceRows)  # noqa: S101
        return space if len(points) == space.n else space.measured_at(points)


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
    dual = _all_distances(problem, rng) if sample is None else None
    return _from_sample(problem, rng) if dual is None else _exact(problem, dual, rng)


@dataclass(frozen=True)
class DualProblem:
    """Where prices start, and how far they may rise, for the distances that matter then."""

    distances: DistanceOracle
    k: int
    cost: float  # of the known solution
    start: F64
    cap: F64
    whole: bool = False  # the optimum is a whole number
    tol: float = 1e-4  # at which a bound is close enough to the cost
    report: Report | None = None

    def reached(self, bound: float) -> bool:
        if self.whole and math.ceil(bound) >= self.cost:
            return True
        return self.cost - bound <= self.tol * self.cost


def _exact(problem: CertifiedProblem, dual: DualProblem, rng: np.random.Generator) -> Certificate:
    best = maximize_bound(dual, problem.max_iter, rng)
    bound = problem.below(best.bound)
    if dual.whole:
        bound = float(math.ceil(bound))
    bound = min(bound, problem.cost)
    return Certificate(bound, problem.cost, 1.0, None, best.iterations, dual.whole)


def _all_distances(problem: CertifiedProblem, rng: np.random.Generator) -> DualProblem | None:
    """None if all distances that matter take too much time or memory."""
    space, weight = problem.space, problem.weight
    cap = problem.start() if problem.k == 1 else CAP * problem.second
    found: DistanceOracle | None
    if isinstance(space, Graph):
        if _ball_size(space, problem.demand, cap, rng) * len(weight) > BALL_ENTRIES:
            return None
        found = graph_lists(space, problem.demand, cap, weight, 2 * BALL_ENTRIES)
        whole = all_whole(space.csr.data[None])
    else:
        measured = problem.measured(problem.demand)
        pairs = measured.n_candidates * len(weight)
        if pairs * measured.work > EXACT_WORK:
            return None
        if pairs * measured.dtype.itemsize > TABLE_BYTES:
            lists = row_lists(measured, cap, weight, LIST_ENTRIES)
            found, whole = (None, False) if lists is None else (lists, lists.whole)
        else:
            D, cap = measured.matrix().D, np.full(len(weight), math.inf)
            found = DistanceTable(weight, D)
            whole = measured.exact_if_whole(float(D.max())) and all_whole(D)
    if found is None:
        return None
    whole, start = whole and all_whole(weight[None]), np.minimum(problem.start(), cap)
    return DualProblem(found, problem.k, problem.cost, start, cap, whole, report=problem.report)


def _ball_size(graph: Graph, points: Ints, radius: F64, rng: np.random.Generator) -> float:
    """The mean number of nodes within a point's radius, estimated from 16 points."""
    some = rng.choice(len(points), min(16, len(points)), replace=False)
    return max(1.0, len(graph.ball(points[some], radius[some]).point) / len(some))


@dataclass(frozen=True)
class Sample:
    """`size` draws. The dual is that of the distinct points with weights 1 / (s r(x))."""

    dual: DualProblem
    size: int
    total: float  # R

    @classmethod
    def draw(
        cls, problem: CertifiedProblem, factor: float, size: int, rng: np.random.Generator
    ) -> Sample:
        caps = problem.caps(factor)
        share = problem.weight * caps
        total = math.fsum(share)
        drawn, times = np.unique(rng.choice(len(share), size, p=share / total), return_counts=True)
        cap, weight = caps[drawn], times / (size * caps[drawn])
        points, space = problem.demand[drawn], problem.space
        found: DistanceOracle | None
        if isinstance(space, Graph):
            found = graph_lists(space, points, cap, weight, 2**31 - 1)
        else:
            streamed = StreamedDistances(weight, problem.measured(points))
            found = streamed.only(np.arange(streamed.n_candidates))
        if found is None:
            raise ValueError("The graph is too large to certify; give certify a smaller sample.")
        cost = float(np.sum(weight * problem.nearest[drawn]))
        start = np.minimum(problem.start()[drawn], cap)
        dual = DualProblem(found, problem.k, cost, start, cap, tol=1e-3, report=problem.report)
        return cls(dual, size, total)


def _from_sample(problem: CertifiedProblem, rng: np.random.Generator) -> Certificate:
    """A bound with the confidence, and from as many draws, as the problem says."""
    factor = _best_factor(problem, rng)
    size = problem.sample or _size(problem, factor, rng)
    sample = Sample.draw(problem, factor, size, rng)
    best = maximize_bound(sample.dual, problem.max_iter, rng)
    bound = sample.total * smallest_mean(best.bound, size, 1 - problem.confidence)
    # The last factor is far more than the rounding errors of sums and probabilities.
    bound = min(problem.below(bound) * (1 - 1e-9), problem.cost)
    return Certificate(bound, problem.cost, problem.confidence, size, best.iterations)


def _best_factor(problem: CertifiedProblem, rng: np.random.Generator) -> float:
    """The factor with the highest expected bound, by separate draws and a few candidates."""
    expected = {}
    for factor in FACTORS:
        planned = problem.sample or _size(problem, factor, rng)
        pilot = Sample.draw(problem, factor, max(1, min(PILOT, planned // 4)), rng)
        dual, many = pilot.dual, pilot.dual.distances.n_candidates
        some = dual.distances.only(rng.choice(many, min(CANDIDATES, many), replace=False))
        bound = subgradient_ascent(replace(dual, distances=some), dual.start, PILOT_STEPS).bound
        # As a share of the solution's cost in the pilot: most of the pilot's noise cancels.
        share = max(0.0, bound) / dual.cost if dual.cost > 0 else 0.0
        mean = min(1.0, share * problem.cost / pilot.total)
        expected[factor] = pilot.total * smallest_mean(mean, planned, 1 - problem.confidence)
    return max(expected, key=lambda factor: expected[factor])


def _size(problem: CertifiedProblem, factor: float, rng: np.random.Generator) -> int:
    """As many points as can be certified in about twenty seconds."""
    space, (least, most) = problem.space, SIZES
    if isinstance(space, Graph):
        each = _ball_size(space, problem.demand, problem.caps(factor), rng)
        return int(min(most, max(least, ENTRIES / each)))
    measured = problem.measured(problem.demand)
    return int(min(most, max(least, WORK / (measured.n_candidates * measured.work))))


@dataclass(frozen=True)
class DualSolution:
    price: F64
    bound: float
    iterations: int
    step: float = 1.0  # the last step size, as a part of Polyak's


def largest(gain: F64, k: int) -> Ints:
    """The k candidates with the largest gains."""
    if k >= len(gain):
        return np.arange(len(gain))
    return np.argpartition(gain, len(gain) - k)[len(gain) - k :]


def lower_bound(weight: F64, price: F64, gain: F64, k: int) -> float:
    """L(price) minus a bound on its rounding error. `gain`: of all candidates at these prices.

    Each term is a sum of at most n + 3 non-negative numbers, so its relative error is at most that
    many roundings.
    """
    offered = math.fsum(weight * price)
    gained = math.fsum(gain[largest(gain, k)])
    error = (len(price) + 8) * ROUNDING * (offered + gained)
    return max(0.0, offered - gained - 2.0 * error)


def subgradient_ascent(
    dual: DualProblem, price: F64, max_iter: int, step: float = 1.0
) -> DualSolution:
    """Take subgradient steps from `price`; return the best prices met."""
    distances, weight, iterations, since_best = dual.distances, dual.distances.weight, 0, 0
    best, best_price, best_slope, direction = -math.inf, price, price, None
    while iterations < max_iter:
        iterations += 1
        gain = distances.gains(price)
        chosen = largest(gain, dual.k)
        value = float(np.sum(weight * price) - gain[chosen].sum())
        slope = 1.0 - distances.cover(price, chosen)
        since_best += 1
        if value > best:
            best, best_price, best_slope, since_best = value, price, slope, 0
        elif since_best == PATIENCE:  # return to the best prices with smaller steps
            value, price, slope, direction = best, best_price, best_slope, None
            step, since_best = step / 2, 0
        if dual.report is not None and iterations % TOLD == 0:
            dual.report(Progress("bound, step", iterations, best))
        direction = slope if direction is None else (1 - MEMORY) * slope + MEMORY * direction
        length = float(np.sum(weight * direction * direction))
        if dual.reached(best) or step < SMALLEST or length <= 0:
            break
        price = np.clip(price + (step * (dual.cost - value) / length) * direction, 0.0, dual.cap)
    return DualSolution(best_price, best, iterations, step)


def maximize_bound(dual: DualProblem, max_iter: int, rng: np.random.Generator) -> DualSolution:
    """The best bound proved by a pass over all candidates.

    If there are many, steps are taken with a part of them: some at random, and those seen to gain
    more. These are looked for in a random pool, and among all candidates in the last two rounds.
    """
    distances, price = dual.distances, dual.start
    weight, many = distances.weight, distances.n_candidates
    if many * len(price) <= SMALL:
        found = subgradient_ascent(dual, price, max_iter)
        bound = lower_bound(weight, found.price, distances.gains(found.price), dual.k)
        return DualSolution(found.price, bound, found.iterations)
    used = rng.choice(many, min(max(ADDED, 8 * dual.k), many), replace=False)
    pool = rng.choice(many, min(POOL, many), replace=False)
    best, step, iterations = DualSolution(price, 0.0, 0), 1.0, 0
    for rounds_left in reversed(range(ROUNDS)):
        part, steps = distances.only(used), min(ROUND, max_iter - iterations)
        found = subgradient_ascent(replace(dual, distances=part), price, steps, step)
        step = min(1.0, LONGER * found.step)
        price, iterations = found.price, iterations + found.iterations
        if rounds_left < 2 or iterations >= max_iter or len(pool) == many:
            gain = distances.gains(price)
            bound = lower_bound(weight, price, gain, dual.k)
            best = DualSolution(price, bound, iterations) if bound > best.bound else best
            fresh = _candidates_to_add(gain, part.gains(price), dual.k, rng)
        else:
            gain = distances.only(pool).gains(price)
            fresh = pool[_candidates_to_add(gain, part.gains(price), dual.k, rng)]
        if dual.reached(best.bound) or iterations >= max_iter:
            break
        used = np.union1d(used, fresh)
    return replace(best, iterations=iterations)


def _candidates_to_add(gain: F64, used_gain: F64, k: int, rng: np.random.Generator) -> Ints:
    """Candidates that gain more than the k-th best used one: the best, and some of the others.

    The best alone would be neighbours of each other, since neighbours gain alike.
    """
    above = np.flatnonzero(gain >= used_gain[largest(used_gain, k)].min())
    some = rng.choice(above, min(len(above), max(ADDED, 4 * k)), replace=False)
    return np.concatenate([largest(gain, max(ADDED // 4, 2 * k)), some])
