"""Lower bounds on the cost of any k medoids, from the dual of k-median.

Give every point i a price v_i, and let candidate j gain g_j(v) = sum_i w_i max(v_i - d_ij, 0). For
any k candidates C the cost of a point is at least v_i - sum_{j in C} max(v_i - d_ij, 0), so

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kvariates.data.distance_tables import DistanceOracle
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceRows, Ints, MetricSpace
from kvariates.data.rows import F64
from kvariates.progress import Progress, Report

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


def measured_at(space: MetricSpace, points: Ints) -> DistanceRows:
    """The space with costs measured at `points` only."""
    if not isinstance(space, DistanceRows):
        raise TypeError(f"cannot certify in a {type(space).__name__}")
    return space if len(points) == space.n else space.measured_at(points)


def ball_size(graph: Graph, points: Ints, radius: F64, rng: np.random.Generator) -> float:
    """The mean number of nodes within a point's radius, estimated from 16 points."""
    some = rng.choice(len(points), min(16, len(points)), replace=False)
    return max(1.0, len(graph.ball(points[some], radius[some]).point) / len(some))


@dataclass(frozen=True)
class Goal:
    """The problem's k, the cost of the known solution, and when a bound is close enough to it."""

    k: int
    cost: float
    whole: bool = False  # the optimum is a whole number
    tol: float = 1e-4
    report: Report | None = None

    def reached(self, bound: float) -> bool:
        if self.whole and math.ceil(bound) >= self.cost:
            return True
        return self.cost - bound <= self.tol * self.cost


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
    distances: DistanceOracle, goal: Goal, price: F64, cap: F64, max_iter: int, step: float = 1.0
) -> DualSolution:
    """Take subgradient steps from `price`; return the best prices met."""
    weight, iterations, since_best = distances.weight, 0, 0
    best, best_price, best_slope, direction = -math.inf, price, price, None
    while iterations < max_iter:
        iterations += 1
        gain = distances.gains(price)
        chosen = largest(gain, goal.k)
        value = float(np.sum(weight * price) - gain[chosen].sum())
        slope = 1.0 - distances.cover(price, chosen)
        since_best += 1
        if value > best:
            best, best_price, best_slope, since_best = value, price, slope, 0
        elif since_best == PATIENCE:  # return to the best prices with smaller steps
            value, price, slope, direction = best, best_price, best_slope, None
            step, since_best = step / 2, 0
        if goal.report is not None and iterations % TOLD == 0:
            goal.report(Progress("bound, step", iterations, best))
        direction = slope if direction is None else (1 - MEMORY) * slope + MEMORY * direction
        length = float(np.sum(weight * direction * direction))
        if goal.reached(best) or step < SMALLEST or length <= 0:
            break
        price = np.clip(price + (step * (goal.cost - value) / length) * direction, 0.0, cap)
    return DualSolution(best_price, best, iterations, step)


def maximize_bound(
    distances: DistanceOracle, goal: Goal, price: F64, cap: F64, max_iter: int,
    rng: np.random.Generator,
) -> DualSolution:  # fmt: skip
    """The best bound proved by a pass over all candidates.

    If there are many, steps are taken with a part of them: some at random, and those seen to gain
    more. These are looked for in a random pool, and among all candidates in the last two rounds.
    """
    weight, many = distances.weight, distances.n_candidates
    if many * len(price) <= SMALL:
        found = subgradient_ascent(distances, goal, price, cap, max_iter)
        bound = lower_bound(weight, found.price, distances.gains(found.price), goal.k)
        return DualSolution(found.price, bound, found.iterations)
    used = rng.choice(many, min(max(ADDED, 8 * goal.k), many), replace=False)
    pool = rng.choice(many, min(POOL, many), replace=False)
    best, step, iterations = DualSolution(price, 0.0, 0), 1.0, 0
    for rounds_left in reversed(range(ROUNDS)):
        part = distances.only(used)
        found = subgradient_ascent(part, goal, price, cap, min(ROUND, max_iter - iterations), step)
        step = min(1.0, LONGER * found.step)
        price, iterations = found.price, iterations + found.iterations
        if rounds_left < 2 or iterations >= max_iter or len(pool) == many:
            gain = distances.gains(price)
            bound = lower_bound(weight, price, gain, goal.k)
            best = DualSolution(price, bound, iterations) if bound > best.bound else best
            fresh = _candidates_to_add(gain, part.gains(price), goal.k, rng)
        else:
            gain = distances.only(pool).gains(price)
            fresh = pool[_candidates_to_add(gain, part.gains(price), goal.k, rng)]
        if goal.reached(best.bound) or iterations >= max_iter:
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
