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
    from kvariates.estimators.kmedian import KMedian
    from kvariates.estimators.online_kmeans import OnlineKMeans
    from kvariates.estimators.private_kmeans import PrivateKMeans
    from kvariates.estimators.private_kmedian import PrivateKMedian
    from kvariates.estimators.seeding_functions import (
        global_kmeans,
        hst_seeding,
        hst_tree,
        kmeans_parallel,
        kmeans_plusplus,
        kmedian_plusplus,
        kvariates_plusplus,
    )
    from kvariates.estimators.streaming_kmeans import StreamingKMeans
    from kvariates.estimators.vertical_kmeans import VerticalKMeans
    from kvariates.seeding.densities import (
        EveryPoint,
        Gaussian,
        Laplace,
        MiniBatches,
        Synopses,
        UniformOver,
    )
    from kvariates.seeding.sampler import Dirac
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
_NAMES = {
    "kvariates": "guarantees plot privacy report sources",
    "kvariates.estimators.anticlustering": "AntiClusterKFold AntiClustering",
    "kvariates.estimators.choose_k": "choose_k",
    "kvariates.estimators.kmeans": "KMeans",
    "kvariates.estimators.kmedian": "KMedian",
    "kvariates.estimators.online_kmeans": "OnlineKMeans",
    "kvariates.estimators.private_kmeans": "PrivateKMeans",
    "kvariates.estimators.private_kmedian": "PrivateKMedian",
    "kvariates.estimators.seeding_functions": "global_kmeans hst_seeding hst_tree kmeans_parallel "
    "kmeans_plusplus kmedian_plusplus kvariates_plusplus",
    "kvariates.estimators.streaming_kmeans": "StreamingKMeans",
    "kvariates.estimators.vertical_kmeans": "VerticalKMeans",
    "kvariates.seeding.densities": "EveryPoint Gaussian Laplace MiniBatches Synopses UniformOver",
    "kvariates.seeding.sampler": "Dirac",
    "kvariates.seeding.seedings": "explain_guarantees",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


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
