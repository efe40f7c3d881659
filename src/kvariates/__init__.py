"""k-means, k-median and private k-means with scikit-learn's interface and with guarantees.

A public name is imported when it is first used, so that `import kvariates` and the command start
quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# First of all, `data` loads the native module.
from kvariates import data  # noqa: F401

if TYPE_CHECKING:
    from kvariates import guarantees, plot, privacy, report, sources
    from kvariates.estimators.anticlustering import AntiClustering, AntiClusterKFold
    from kvariates.estimators.choose_k import choose_k
    from kvariates.estimators.kmeans import KMeans
    from kvariates.estimators.kmeans_seeding import (
        global_kmeans,
        hst_seeding,
        hst_tree,
        kmeans_parallel,
        kmeans_plusplus,
        kmedian_plusplus,
    )
    from kvariates.estimators.kmedian import KMedian
    from kvariates.estimators.kvariates_plusplus import kvariates_plusplus
    from kvariates.estimators.online_kmeans import OnlineKMeans
    from kvariates.estimators.private_kmeans import PrivateKMeans
    from kvariates.estimators.private_kmedian import PrivateKMedian
    from kvariates.estimators.streaming_kmeans import StreamingKMeans
    from kvariates.estimators.vertical_kmeans import VerticalKMeans
    from kvariates.seeding.densities import (
        Dirac,
        EveryPoint,
        Gaussian,
        Laplace,
        MiniBatches,
        Synopses,
        UniformOver,
    )
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
    "plot",
    "privacy",
    "report",
    "sources",
]

# The module of every public name; the imports above say the same to type checkers and editors.
_MODULES = {
    "guarantees": "kvariates",
    "plot": "kvariates",
    "privacy": "kvariates",
    "report": "kvariates",
    "sources": "kvariates",
    "AntiClusterKFold": "kvariates.estimators.anticlustering",
    "AntiClustering": "kvariates.estimators.anticlustering",
    "choose_k": "kvariates.estimators.choose_k",
    "KMeans": "kvariates.estimators.kmeans",
    "global_kmeans": "kvariates.estimators.kmeans_seeding",
    "kmeans_parallel": "kvariates.estimators.kmeans_seeding",
    "kmeans_plusplus": "kvariates.estimators.kmeans_seeding",
    "KMedian": "kvariates.estimators.kmedian",
    "hst_seeding": "kvariates.estimators.kmeans_seeding",
    "hst_tree": "kvariates.estimators.kmeans_seeding",
    "kmedian_plusplus": "kvariates.estimators.kmeans_seeding",
    "OnlineKMeans": "kvariates.estimators.online_kmeans",
    "PrivateKMeans": "kvariates.estimators.private_kmeans",
    "PrivateKMedian": "kvariates.estimators.private_kmedian",
    "StreamingKMeans": "kvariates.estimators.streaming_kmeans",
    "VerticalKMeans": "kvariates.estimators.vertical_kmeans",
    "kvariates_plusplus": "kvariates.estimators.kvariates_plusplus",
    "Dirac": "kvariates.seeding.densities",
    "Gaussian": "kvariates.seeding.densities",
    "Laplace": "kvariates.seeding.densities",
    "UniformOver": "kvariates.seeding.densities",
    "EveryPoint": "kvariates.seeding.densities",
    "MiniBatches": "kvariates.seeding.densities",
    "Synopses": "kvariates.seeding.densities",
    "explain_guarantees": "kvariates.seeding.seedings",
}


if not TYPE_CHECKING:  # for a type checker, a name that is not above does not exist

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'kvariates' has no attribute {name!r}")
        module = _MODULES[name]
        if module == __name__:  # a module of ours, which its import puts here
            return import_module(f"{module}.{name}")
        value = globals()[name] = getattr(import_module(module), name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
