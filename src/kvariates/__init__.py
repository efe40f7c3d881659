"""k-means, k-median and private k-means with scikit-learn's interface and with guarantees."""

from kvariates import _openmp

_openmp.load()

from kvariates import guarantees, privacy  # noqa: E402
from kvariates.estimators.choose_k import choose_k  # noqa: E402
from kvariates.estimators.kmeans import KMeans  # noqa: E402
from kvariates.estimators.kmeans_seeding import (  # noqa: E402
    global_kmeans,
    kmeans_parallel,
    kmeans_plusplus,
)
from kvariates.estimators.kmedian import KMedian  # noqa: E402
from kvariates.estimators.kmedian_seeding import (  # noqa: E402
    hst_seeding,
    hst_tree,
    kmedian_plusplus,
)
from kvariates.estimators.kvariates_plusplus import kvariates_plusplus  # noqa: E402
from kvariates.estimators.private_kmeans import PrivateKMeans  # noqa: E402
from kvariates.seeding.densities import Dirac, Gaussian, Laplace, UniformOver  # noqa: E402
from kvariates.seeding.probes import EveryPoint, MiniBatches, Synopses  # noqa: E402
from kvariates.seeding.seedings import explain_guarantees  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "Dirac",
    "EveryPoint",
    "Gaussian",
    "KMeans",
    "KMedian",
    "Laplace",
    "MiniBatches",
    "PrivateKMeans",
    "Synopses",
    "UniformOver",
    "__version__",
    "choose_k",
    "explain_guarantees",
    "global_kmeans",
    "guarantees",
    "hst_seeding",
    "hst_tree",
    "kmeans_parallel",
    "kmeans_plusplus",
    "kmedian_plusplus",
    "kvariates_plusplus",
    "privacy",
]
