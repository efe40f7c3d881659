"""k-means, k-median and private k-means with scikit-learn's interface and with guarantees."""

# First of all, `_openmp` loads the native module.
from kvariates import _openmp, guarantees, privacy  # noqa: F401
from kvariates.estimators.anticluster_kfold import AntiClusterKFold
from kvariates.estimators.anticlustering import AntiClustering
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.kmeans_seeding import global_kmeans, kmeans_parallel, kmeans_plusplus
from kvariates.estimators.kmedian import KMedian
from kvariates.estimators.kmedian_seeding import hst_seeding, hst_tree, kmedian_plusplus
from kvariates.estimators.kvariates_plusplus import kvariates_plusplus
from kvariates.estimators.online_kmeans import OnlineKMeans
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.estimators.private_kmedian import PrivateKMedian
from kvariates.estimators.streaming_kmeans import StreamingKMeans
from kvariates.estimators.vertical_kmeans import VerticalKMeans
from kvariates.seeding.densities import Dirac, Gaussian, Laplace, UniformOver
from kvariates.seeding.probes import EveryPoint, MiniBatches, Synopses
from kvariates.seeding.seedings import explain_guarantees

__version__ = "0.1.0"

__all__ = [
    "AntiClusterKFold",
    "AntiClustering",
    "Dirac",
    "EveryPoint",
    "Gaussian",
    "KMeans",
    "KMedian",
    "Laplace",
    "MiniBatches",
    "OnlineKMeans",
    "PrivateKMeans",
    "PrivateKMedian",
    "StreamingKMeans",
    "Synopses",
    "UniformOver",
    "VerticalKMeans",
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
