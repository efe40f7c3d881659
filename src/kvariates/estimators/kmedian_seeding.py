"""The seedings of k-median, and the 2-HST that one of them uses, as functions."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kvariates.data.hst_tree import HstTree, grow
from kvariates.data.metric_spaces import Ints
from kvariates.data.metrics import METRICS
from kvariates.estimators import metric_input, validation
from kvariates.estimators.names import DistanceFunction, MedianMetric, RandomState
from kvariates.seeding import medoid_seedings
from kvariates.seeding.hst import hst_seed
from kvariates.tables import documented

COMMON = {
    "X": "no_validation",
    "n_clusters": validation.COUNT,
    "metric": [StrOptions(METRICS.keys()), callable],
    "demand": ["array-like", None],
    "random_state": ["random_state", np.random.Generator],
}


@documented(METRICS=METRICS)
@validation.parameters(COMMON, power=[Interval(Integral, 1, 2, closed="both")])
def hst_seeding(
    X: Any,
    n_clusters: int,
    *,
    metric: MedianMetric | DistanceFunction = "euclidean",
    demand: Any = None,
    power: int = 1,
    random_state: RandomState = None,
) -> Ints:
    """Pick n_clusters points by a random tree over all of them (Fan et al. 2023, Algorithm 4).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), distances, sparse graph or sequence
        The points, as in `KMedian`.
    n_clusters : int
        How many points.
    metric : {<names of METRICS>} or callable, default="euclidean"
        As in `KMedian`.
    demand : array-like, default=None
        The points that count, as in `KMedian.fit`. The tree is always over all points.
    power : {1, 2}, default=1
        1 for k-median, 2 for k-means.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.

    Returns
    -------
    indices : ndarray of shape (n_clusters,)
    """
    points = metric_input.validated_points(X, metric, n_clusters, demand)
    rng = validation.generator(random_state)
    return hst_seed(points.space, n_clusters, points.weight, power, rng)


@validation.parameters(COMMON, n_local_trials=validation.COUNT)
def kmedian_plusplus(
    X: Any,
    n_clusters: int,
    *,
    metric: MedianMetric | DistanceFunction = "euclidean",
    demand: Any = None,
    n_local_trials: int = 1,
    random_state: RandomState = None,
) -> Ints:
    """Pick n_clusters points, each in proportion to its distance to those before it.

    Parameters
    ----------
    X, n_clusters, metric, random_state : as in `hst_seeding`
    demand : array-like, default=None
        The points that count, as in `KMedian.fit`; only they are picked.
    n_local_trials : int, default=1
        Points drawn for each pick, of which the one that lowers the cost most is kept.

    Returns
    -------
    indices : ndarray of shape (n_clusters,)
    """
    points = metric_input.validated_points(X, metric, n_clusters, demand)
    rng, trials = validation.generator(random_state), n_local_trials
    return medoid_seedings.kmedian_plusplus(points.space, n_clusters, points.weight, trials, rng)


@validation.parameters(COMMON)
def hst_tree(
    X: Any,
    *,
    metric: MedianMetric | DistanceFunction = "euclidean",
    random_state: RandomState = None,
) -> HstTree:
    """Grow a random 2-HST over the points: a tree whose distances are never below the true ones.

    Parameters
    ----------
    X, metric, random_state : as in `hst_seeding`

    Returns
    -------
    tree : HstTree
        With ``distance``, ``distances``, ``counts`` and ``distortion``.
    """
    space = metric_input.validated_points(X, metric).space
    return grow(space, validation.generator(random_state))
