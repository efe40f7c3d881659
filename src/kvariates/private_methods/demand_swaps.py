"""DP local search of k medoids for a private demand (Gupta et al. 2010; Fan et al. 2023, Alg. 7).

The swaps of `private_swaps`, of which one more point of the demand lowers the scores by at most the
cap on distances; and which points are candidates. The swaps and the choice have equal parts of the
budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.data.capped_distances import CappedDistances
from kvariates.data.hst_tree import HstTree, grow
from kvariates.data.metric_spaces import Ints
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.demand_task import DemandTask
from kvariates.private_methods.private_swaps import PrivateChooser, SwapPath, draw_swaps
from kvariates.refining.swaps import MedoidProblem

ALL_CANDIDATES = 2**14  # points up to which all are candidates
CANDIDATES = 2**11  # of more points


@dataclass(frozen=True, eq=False)
class DemandPath(SwapPath):
    """Of points of a universe. `reach`: so many far points weigh as much as the noise of a swap."""

    reach: float


def private_search(
    task: DemandTask, start: Ints, candidates: Ints, costs: list[Cost], accountant: Accountant
) -> DemandPath:
    """`len(costs) - 1` private swaps, and the private choice of one of the sets on the way.

    Pre: the candidates are ascending and contain the start; there are more of them than medoids.
    """
    distances, number = CappedDistances(task.space, task.cap), len(candidates)
    problem = task.demand.map(lambda demand: _problem(distances, candidates, demand))
    choose = PrivateChooser(distances.cap, distances.step, task.adjacency, costs, accountant)
    first = np.searchsorted(candidates, start)
    path = draw_swaps(problem, first, number, len(costs) - 1, choose)
    noise = accountant.charges[-1].scale / distances.cap
    reach = noise * math.log(task.k * (number - task.k) + 1)
    return DemandPath([candidates[each] for each in path.sets], path.chosen, reach)


def _problem(distances: CappedDistances, candidates: Ints, demand: Ints) -> MedoidProblem:
    points, counts = np.unique(demand, return_counts=True)
    if not len(points):  # a point of weight zero stands for no demand
        points, counts = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    matrix = distances.matrix(candidates, points)
    return MedoidProblem(matrix, counts.astype(np.float64), np.searchsorted(candidates, points))


def public_candidates(
    task: DemandTask, start: Ints, most: int | None, tree: HstTree | None = None
) -> Ints:
    """The start and, of many points, the centres of the highest nodes of a tree; else all points.

    `most`: how many, about; None is ALL_CANDIDATES points or, of more, CANDIDATES.
    """
    n = task.space.n
    if most is None:
        most = n if n <= ALL_CANDIDATES else CANDIDATES
    if most >= n:
        return np.arange(n)
    tree = grow(task.space, task.rng) if tree is None else tree
    centers = tree.center[np.argsort(-tree.height, kind="stable")]
    first = np.sort(np.unique(centers, return_index=True)[1])[: max(most, len(start) + 1)]
    more = np.union1d(centers[first], start)
    if len(more) <= len(start):  # a tree with few nodes
        more = np.arange(n)
    return more.astype(np.int64)
