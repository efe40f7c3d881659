"""Types of parameters, so that editors complete names and type checkers find wrong ones.

A type checker cannot read the tables of choices. So their names stand here once more, and a test
compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Init = Literal["k-means++", "d2", "k-means||", "ls++", "global", "hst", "random"]
Algorithm = Literal["auto", "lloyd", "elkan", "hamerly", "yinyang", "hartigan", "swap", "minibatch"]
KMeansMetric = Literal["euclidean", "cosine"]
DistortionName = Literal["kl", "itakura-saito", "mahalanobis", "total-jensen"]
MedianMetric = Literal["euclidean", "manhattan", "cosine", "haversine", "precomputed", "graph"]
MedianInit = Literal["hst", "k-median++", "random"]
PrivateMethodName = Literal[
    "auto", "tree", "candidates", "forgy", "gupt", "sample-aggregate", "lloyd", "grid", "kvariates",
    "kvariates-laplace", "kvariates-conditional",
]  # fmt: skip
DemandMethodName = Literal["auto", "cells", "hst", "local-search", "candidates"]
SynopsisName = Literal["coreset", "lightweight", "reservoir", "k-means#"]
GroupObjectiveName = Literal["variance", "kplus", "diversity", "dispersion"]
GroupMetric = Literal["euclidean", "manhattan", "cosine", "precomputed"]

PeerInit = Literal["k-means++", "d2", "k-means||", "dk-means++"]  # kvariates.dask.KMeans

Auto = Literal["auto"]
MissingRows = Literal["error", "drop"]
RandomState = int | np.integer[Any] | np.random.RandomState | np.random.Generator | None
GivenCenters = NDArray[Any] | Sequence[Sequence[float]] | Sequence[NDArray[Any]]
Integers = NDArray[Any] | Sequence[int]
MakeCenters = Callable[..., Any]  # takes X, n_clusters and random_state
DistanceFunction = Callable[[Any, Any], float]
