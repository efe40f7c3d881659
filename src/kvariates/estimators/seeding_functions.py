"""Seedings as functions: of k-means, k-variates++ with its guarantee, of k-median; the 2-HST."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from kvariates import guarantees
from kvariates.data.hst_tree import HstTree, grow, hst_seed
from kvariates.data.metric_spaces import Ints
from kvariates.data.metrics import METRICS
from kvariates.data.rows import F64, Labels, Rows, total_cost
from kvariates.estimators import metric_input, validation
from kvariates.estimators.validation import (
    DistanceFunction,
    DistortionName,
    MedianMetric,
    RandomState,
)
from kvariates.guarantees import Guarantee
from kvariates.objectives.distortion import Distortion
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.distortions import LOST as DISTORTION_LOST
from kvariates.objectives.objective import DivergenceObjective
from kvariates.refining.lloyd import StopRule, refine
from kvariates.seeding import global_kmeans as global_seeding
from kvariates.seeding import medoid_seedings
from kvariates.seeding import seedings as parallel_seeding
from kvariates.seeding.densities import (
    CallableProbe,
    EveryPoint,
    Gaussian,
    Laplace,
    MiniBatches,
    Probe,
    RowDensity,
    Synopses,
    UniformOver,
)
from kvariates.seeding.sampler import Dirac, SeedingProblem, check_drawn, greedy_trials, sample_rows
from kvariates.tables import Entry, documented

Promise = tuple[Guarantee | None, str | None]  # or why there is none
CENTRED = (Dirac, Laplace, Gaussian)  # densities whose mean is known to be the row


@validation.parameters(
    x_squared_norms=["array-like", None], n_local_trials=[*validation.COUNT, None]
)
def kmeans_plusplus(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    x_squared_norms: Any = None,
    random_state: RandomState = None,
    n_local_trials: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Pick n_clusters rows of X, each by its squared distance to those picked before.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to pick from.
    n_clusters : int
        How many centres.
    sample_weight : array-like of shape (n_samples,), default=None
        A row of weight w counts as w rows; one of weight 0 is never picked.
    x_squared_norms : array-like of shape (n_samples,), default=None
        Accepted for scikit-learn's signature; distances are computed from differences and do not
        need it.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.
    n_local_trials : int, default=None
        Rows drawn per centre, of which the one that lowers the cost most is kept. None:
        ``2 + int(log(n_clusters))``. With 1 the seeding is the plain one, whose expected cost is
        at most ``8 (ln k + 2)`` times the optimum; greedy trials have no such bound.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
    indices : ndarray of shape (n_clusters,)
        ``X[indices]`` are the centres.
    """
    problem = validation.seeding_problem(X, n_clusters, sample_weight, random_state)
    if x_squared_norms is not None:
        norms = check_array(x_squared_norms, dtype=problem.rows.dtype, ensure_2d=False)
        if norms.shape[0] != problem.rows.n:
            raise ValueError(
                f"The length of x_squared_norms {norms.shape[0]} should "
                f"be equal to the length of n_samples {problem.rows.n}."
            )
    trials = greedy_trials(n_clusters) if n_local_trials is None else n_local_trials
    seeds = sample_rows(problem, trials=trials)
    return seeds.centers.astype(problem.rows.dtype), seeds.indices


@validation.parameters(
    n_rounds=[Interval(Integral, 0, None, closed="left")],
    oversampling=[Interval(Real, 0, None, closed="neither")],
)
def kmeans_parallel(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    n_rounds: int = parallel_seeding.N_ROUNDS,
    oversampling: float = parallel_seeding.OVERSAMPLING,
    random_state: RandomState = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Pick n_clusters rows of X as centres by k-means||: many rows a round, few rounds.

    Parameters
    ----------
    X, n_clusters, sample_weight, random_state : as in `kmeans_plusplus`
    n_rounds : int, default=5
        Passes over X that add candidates.
    oversampling : float, default=1.0
        Candidates expected a round, in multiples of n_clusters.

    Returns
    -------
    centers, indices : as in `kmeans_plusplus`
    """
    problem = validation.seeding_problem(X, n_clusters, sample_weight, random_state)
    seeds = parallel_seeding.kmeans_parallel(problem, rounds=n_rounds, oversampling=oversampling)
    return seeds.centers.astype(problem.rows.dtype), seeds.indices


@dataclass(frozen=True)
class Clustering:
    """One of the solutions."""

    n_clusters: int
    cluster_centers: NDArray[Any]
    labels: Labels
    inertia: float


@validation.parameters(
    candidates=[StrOptions({"auto", "all"}), *validation.COUNT],
    full=["boolean"],
    max_iter=validation.COUNT,
    tol=[Interval(Real, 0, None, closed="left")],
)
def global_kmeans(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    candidates: int | Literal["auto", "all"] = "auto",
    full: bool = False,
    max_iter: int = 300,
    tol: float = 1e-3,
    random_state: RandomState = None,
) -> list[Clustering]:
    """Cluster X into 1, 2, ..., n_clusters clusters, one more centre at a time.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to cluster.
    n_clusters : int
        The largest number of clusters.
    sample_weight : array-like of shape (n_samples,), default=None
        A row of weight w counts as w rows.
    candidates : {"auto", "all"} or int, default="auto"
        Which rows are tried as the next centre: all of them, or so many drawn in proportion to
        their squared distance to the centres so far, from which clusters are cut in two. "auto":
        all where that is quick, otherwise ``2 log2(n_samples)``.
    full : bool, default=False
        Run Lloyd from every candidate instead of from the best one (Likas et al. 2003). Slow.
    max_iter, tol : int and float, default=300 and 1e-3
        When Lloyd stops, as in `KMeans`; looser, since the next solution goes on from each.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from; nothing is drawn if all rows are candidates.

    Returns
    -------
    solutions : list of Clustering
        Each with ``n_clusters``, ``cluster_centers``, ``labels`` and ``inertia``.
    """
    problem = validation.seeding_problem(X, n_clusters, sample_weight, random_state)
    stop = StopRule(max_iter, tol * problem.rows.spread())
    problem = replace(problem, lloyd=lambda data, c: refine(data, c, stop))
    found = global_seeding.global_kmeans(problem, candidates=candidates, full=full)
    return [Clustering(len(s.centers), s.centers, s.labels, s.inertia) for s in found]


# ---- k-variates++: any density and probe, with the guarantee of the pair -------------------------


@dataclass(frozen=True)
class KVariates:
    """k seeded centres.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
    indices : ndarray of shape (n_clusters,)
        The rows they were picked by (with `Synopses`: the synopses).
    guarantee : Guarantee or None
    guarantee_lost : str or None
        Why there is none.
    """

    centers: NDArray[Any]
    indices: NDArray[np.int64]
    guarantee: Guarantee | None
    guarantee_lost: str | None


@documented(DISTORTIONS=DISTORTIONS)
@validation.parameters(
    density=[HasMethods(["sample", "mean", "trace"]), None],
    probe=[HasMethods(["potential"]), callable, None],
    distortion=[StrOptions(DISTORTIONS.keys()), HasMethods(["divergence", "nearest"]), None],
)
def kvariates_plusplus(
    X: Any,
    n_clusters: int,
    *,
    density: Any = None,
    probe: Any = None,
    sample_weight: Any = None,
    distortion: DistortionName | Distortion | None = None,
    random_state: RandomState = None,
) -> KVariates:
    """Seed n_clusters centres by k-variates++ (Nock et al. 2016, Algorithm 0).

    Every centre is drawn from the density of a row that is picked in proportion to the squared
    distance of its probe to the centres so far. With the defaults this is plain k-means++: the same
    draws as ``kmeans_plusplus(X, n_clusters, n_local_trials=1)`` for the same random state.

    Parameters
    ----------
    X, n_clusters, sample_weight, random_state : as in `kmeans_plusplus`
    density : Dirac, Laplace, Gaussian, UniformOver or alike, default=None
        How a picked row becomes a centre: an object with ``sample``, ``mean`` and ``trace``. None:
        the row itself, ``Dirac()``.
    probe : EveryPoint, Synopses, MiniBatches or callable, default=None
        Where distances are measured. A callable takes X and the step t = 1, 2, ... and returns the
        rows' probes, an array of X's shape. None: at every row, ``EveryPoint()``.
    distortion : {<names of DISTORTIONS>} or None, default=None
        What is measured instead of squared Euclidean distance; then the density and the probe are
        the default ones.

    Returns
    -------
    seeds : KVariates
        With ``centers``, ``indices`` and ``guarantee``.
    """
    problem = validation.seeding_problem(X, n_clusters, sample_weight, random_state)
    if distortion is not None:
        if density is not None or probe is not None:
            raise ValueError(
                "distortion cannot be combined with density or probe. Remove distortion, or remove "
                "the other two."
            )
        entry = DISTORTIONS[distortion] if isinstance(distortion, str) else Entry(distortion, "")
        entry.run.check(problem.rows.X)
        objective = DivergenceObjective(entry.run.fitted(problem.rows.X, problem.weight))
        own = replace(problem, make_potential=objective.potential, density=objective.density)
        seeds = sample_rows(own)
        promise: Promise = None, entry.lost or DISTORTION_LOST
    else:
        density = Dirac() if density is None else density
        probe = EveryPoint() if probe is None else probe
        if not hasattr(probe, "potential"):
            probe = CallableProbe(probe)
        pair = replace(
            problem, density=density,
            make_potential=lambda data, k: probe.potential(data.rows, data.weight, k),
        )  # fmt: skip
        pointwise = all(getattr(part, "pointwise", False) for part in (probe, density))
        seeds = sample_rows(replace(pair, pointwise=pointwise))
        promise = _promise(problem, probe, density, seeds.centers)
    return KVariates(seeds.centers.astype(problem.rows.dtype), seeds.indices, *promise)


def _promise(problem: SeedingProblem, probe: Probe, density: RowDensity, centers: F64) -> Promise:
    """The theorem of this pair with its terms, `opt` being the cost of `centers`; or why none."""
    space, weight = problem.rows, problem.weight
    k, notes = len(centers), (guarantees.OPT_IS_FOUND,)
    opt = total_cost(space.costs(centers, space.nearest(centers)), weight)
    if isinstance(probe, Synopses | MiniBatches) and not isinstance(density, Dirac):
        return None, guarantees.LOST["density"]
    if isinstance(probe, MiniBatches):
        return guarantees.theorem_6(k, opt=opt, varsigma=None, notes=notes), None
    if isinstance(probe, Synopses):
        spread = _spread(space, weight, probe)
        if spread is None:
            return None, guarantees.LOST["synopses"]
        return guarantees.theorem_5(k, opt=opt, spread=spread, eta=None, notes=notes), None
    eta = 0.0 if isinstance(probe, EveryPoint) else None
    if isinstance(density, UniformOver) and isinstance(density.then, CENTRED) and eta == 0:
        # The spread of the groups is the variance of a uniform member.
        spread = total_cost(UniformOver(density.groups).trace(space, weight), weight)
        var = total_cost(density.then.trace(space, weight), weight)
        noisy = not isinstance(density.then, Dirac)
        promise = guarantees.theorem_4(k, opt=opt, spread=spread, var=var, noisy=noisy, notes=notes)
        return promise, None
    trace = density.trace(space, weight)
    check_drawn(density, trace, (space.n,))
    var = total_cost(trace, weight)
    centred = isinstance(density, CENTRED)
    promise = guarantees.theorem_2(k, opt=opt, var=var, eta=eta, centred=centred, notes=notes)
    return promise, None


def _spread(space: Rows, weight: F64 | None, probe: Synopses) -> float | None:
    """The sum of the rows' squared distances to their synopses; None if another one is nearer."""
    points = np.ascontiguousarray(probe.points, dtype=np.float64)
    own = space.costs(points, np.asarray(probe.of).astype(np.int32))
    least = space.costs(points, space.nearest(points))
    farther = own > least * (1 + 1e-12)  # the caller may have rounded a tie
    if (farther if weight is None else farther & (weight > 0)).any():
        return None
    return total_cost(own, weight)


# ---- The seedings of k-median, and the 2-HST that one of them uses, as functions -----------------


POINTS = "X n_clusters demand random_state"
METRIC = [StrOptions(METRICS.keys()), callable]


@documented(METRICS=METRICS)
@validation.parameters(POINTS, metric=METRIC, power=[Interval(Integral, 1, 2, closed="both")])
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


@validation.parameters(POINTS, metric=METRIC, n_local_trials=validation.COUNT)
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


@validation.parameters("X random_state", metric=METRIC)
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
