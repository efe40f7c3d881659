"""k-variates++ as a function: any density and probe, with the guarantee of the pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import HasMethods, StrOptions

from kvariates import guarantees
from kvariates.data.rows import F64, Rows, total_cost
from kvariates.estimators import validation
from kvariates.estimators.names import DistortionName, RandomState
from kvariates.guarantees import Guarantee
from kvariates.objectives.distortion import Distortion
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.distortions import LOST as DISTORTION_LOST
from kvariates.objectives.divergence_objective import DivergenceObjective
from kvariates.seeding.densities import (
    CallableProbe,
    Dirac,
    EveryPoint,
    Gaussian,
    Laplace,
    MiniBatches,
    Probe,
    RowDensity,
    Synopses,
    UniformOver,
)
from kvariates.seeding.sampler import check_drawn
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows
from kvariates.tables import Entry, documented

Promise = tuple[Guarantee | None, str | None]  # or why there is none
CENTRED = (Dirac, Laplace, Gaussian)  # densities whose mean is known to be the row


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
