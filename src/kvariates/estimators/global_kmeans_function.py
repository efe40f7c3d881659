"""Global k-means as a function: solutions for every k up to n_clusters, each from the last."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from kvariates.data.rows import Labels
from kvariates.estimators import validation
from kvariates.refining.lloyd import StopRule
from kvariates.seeding import global_kmeans as solving
from kvariates.seeding import seedings


@dataclass(frozen=True)
class Clustering:
    """One of the solutions."""

    n_clusters: int
    cluster_centers: NDArray[Any]
    labels: Labels
    inertia: float


@validate_params(
    {
        **validation.COMMON,
        "n_clusters": validation.COUNT,
        "candidates": [StrOptions({"auto", "all"}), *validation.COUNT],
        "full": ["boolean"],
        "max_iter": validation.COUNT,
        "tol": [Interval(Real, 0, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def global_kmeans(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    candidates: Any = "auto",
    full: bool = False,
    max_iter: int = 300,
    tol: float = 1e-3,
    random_state: Any = None,
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
        their squared distance to the centres so far. "auto": all where that is quick, otherwise
        ``2 log2(n_samples)``.
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
    given = validation.validated_rows(X, n_clusters, sample_weight, random_state)
    space, weight, rng = given.space, given.weight, given.rng
    lloyd = solving.lloyd_on(space, weight, StopRule(max_iter, tol * space.spread()))
    if candidates == "auto":
        candidates = seedings.candidates(space)
    found = solving.global_kmeans(
        space, n_clusters, weight, lloyd,
        candidates=candidates, full=full, rng=rng,
    )  # fmt: skip
    return [
        Clustering(len(s.centers), s.centers.astype(space.dtype), s.labels, s.cost) for s in found
    ]
