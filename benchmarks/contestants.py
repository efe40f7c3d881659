"""The libraries that are compared. A contestant has functions that seed, refine and fit.

Each library runs through its public names with its default threads:
- scikit-learn-intelex: the estimator is imported directly (nothing is patched). A run that falls
  back to scikit-learn is an error. Seeding is the k-means++ of oneDAL (plain and greedy).
- faiss: float32 only, with all points. It returns no labels, so one search for them is timed, too
  (the fit of every other library ends with this pass). It has no stopping rule like scikit-learn's.
- faiss-super (`faiss.SuperKmeans`), superkmeans and clostera: of embeddings only. They take no
  starting centres: all begin with random rows of their own. The first two skip distances by a test
  that may err, so their labels are approximate. superkmeans uses all rows, as the others do.
A library that is not installed is left out, and the report says so.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import Array, Data, Workload


@dataclass(frozen=True)
class Fit:
    """The result of a fit: its centres, and the number of iterations that it reports."""

    centres: Array
    steps: int


Seed = Callable[[Data, int, int | None, int], Array]  # X, k, local trials (None: greedy), seed
Refine = Callable[[Data, Array, int, float], Fit]  # X, start, most steps, tolerance
FitAll = Callable[[Data, int], object]  # X, k: an ordinary fit, for its memory


@dataclass(frozen=True)
class Contestant:
    name: str
    seed: Seed
    refine: Refine
    fit: FitAll
    dtypes: tuple[str, ...] = ("float32", "float64")
    takes_csr: bool = True
    greedy: bool = True
    converges: bool = True
    takes_start: bool = True

    def takes(self, work: Workload) -> bool:
        return work.dtype in self.dtypes and (self.takes_csr or not work.is_sparse)


def _seeder(kmeans_plusplus: Any) -> Seed:
    """The seeding of a library with scikit-learn's `kmeans_plusplus`."""

    def seed(X: Data, k: int, trials: int | None, seed: int) -> Array:
        return np.asarray(kmeans_plusplus(X, k, n_local_trials=trials, random_state=seed)[0])

    return seed


def _estimator(KMeans: Any, check: Callable[[Any], None] = lambda _: None) -> tuple[Refine, FitAll]:
    """The two fits of a library with scikit-learn's `KMeans`."""

    def run(model: Any, X: Data) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 20 iterations may not converge
            model.fit(X)
        check(model)
        return model

    def refine(X: Data, start: Array, steps: int, tol: float) -> Fit:
        model = run(KMeans(len(start), init=start, n_init=1, max_iter=steps, tol=tol), X)
        return Fit(model.cluster_centers_, int(model.n_iter_))

    def fit(X: Data, k: int) -> object:
        return run(KMeans(k, n_init=1, max_iter=20, random_state=0), X)

    return refine, fit


def kvariates() -> Contestant:
    library = importlib.import_module("kvariates")
    return Contestant("kvariates", _seeder(library.kmeans_plusplus), *_estimator(library.KMeans))


def scikit_learn() -> Contestant:
    from sklearn.cluster import KMeans, kmeans_plusplus

    return Contestant("sklearn", _seeder(kmeans_plusplus), *_estimator(KMeans))


def intelex() -> Contestant:
    KMeans = importlib.import_module("sklearnex.cluster").KMeans
    onedal = importlib.import_module("onedal.cluster")

    def ran_onedal(model: Any) -> None:
        if not hasattr(model, "_onedal_estimator"):
            raise RuntimeError("scikit-learn-intelex fell back to scikit-learn: no figure of it")

    return Contestant("intelex", _seeder(onedal.kmeans_plusplus), *_estimator(KMeans, ran_onedal))


def faiss() -> Contestant:
    library = importlib.import_module("faiss")

    def seed(X: Data, k: int, trials: int | None, seed: int) -> Array:
        centres = np.empty((k, X.shape[1]), np.float32)
        method = library.ClusteringInitialization(X.shape[1], k)
        method.method = library.ClusteringInitMethod_KMEANS_PLUS_PLUS
        method.seed = seed
        method.init_centroids(len(X), library.swig_ptr(X), library.swig_ptr(centres))
        return centres

    def refine(X: Data, start: Array, steps: int, tol: float) -> Fit:
        model = library.Kmeans(
            X.shape[1],
            len(start),
            niter=steps,
            min_points_per_centroid=1,
            max_points_per_centroid=len(X),
        )
        model.train(X, init_centroids=start)
        model.assign(X)
        return Fit(model.centroids, steps)

    def fit(X: Data, k: int) -> object:
        return refine(X, seed(X, k, 1, 0), 20, 0.0)

    return Contestant(
        "faiss", seed, refine, fit, ("float32",), takes_csr=False, greedy=False, converges=False
    )


def _random_start(name: str, refine: Refine) -> Contestant:
    """A library that draws its first centres itself, from the rows."""

    def seed(X: Data, k: int, trials: int | None, seed: int) -> Array:
        raise NotImplementedError(f"{name} has no seeding of its own to measure")

    def fit(X: Data, k: int) -> object:
        return refine(X, X[:k], 20, 0.0)

    return Contestant(
        name, seed, refine, fit, ("float32",),
        takes_csr=False, greedy=False, converges=False, takes_start=False,
    )  # fmt: skip


def faiss_super() -> Contestant:
    library = importlib.import_module("faiss")
    if not hasattr(library, "SuperKmeans"):
        raise ImportError("this faiss has no SuperKmeans", name="faiss.SuperKmeans")

    def refine(X: Data, start: Array, steps: int, tol: float) -> Fit:
        model = library.SuperKmeans(
            X.shape[1],
            len(start),
            niter=steps,
            min_points_per_centroid=1,
            max_points_per_centroid=len(X),
        )
        model.train(X)
        model.assign(X)
        return Fit(model.centroids, steps)

    return _random_start("faiss-super", refine)


def superkmeans() -> Contestant:
    library = importlib.import_module("superkmeans")

    def refine(X: Data, start: Array, steps: int, tol: float) -> Fit:
        model = library.SuperKMeans(
            len(start),
            X.shape[1],
            hierarchical=False,
            iters=steps,
            sampling_fraction=1.0,
            max_points_per_cluster=len(X),
            early_termination=tol > 0,
            tol=tol,
        )
        centres = model.train(X)
        model.assign_training_points(X, centres)
        return Fit(centres, len(model.iteration_stats))

    return _random_start("superkmeans", refine)


def clostera() -> Contestant:
    library = importlib.import_module("clostera")

    def refine(X: Data, start: Array, steps: int, tol: float) -> Fit:
        model = library.DenseKMeans(k=len(start), iterations=steps, init="random")
        model.fit(X)
        return Fit(model.cluster_centers_, steps)

    return _random_start("clostera", refine)


MAKERS = {
    "kvariates": kvariates,
    "sklearn": scikit_learn,
    "intelex": intelex,
    "faiss": faiss,
    "faiss-super": faiss_super,
    "superkmeans": superkmeans,
    "clostera": clostera,
}
OURS = "kvariates"
PEERS = ("sklearn", "intelex", "faiss")


def present(names: tuple[str, ...] = tuple(MAKERS)) -> tuple[list[Contestant], list[str]]:
    """The libraries that are installed, and the reason for each that is left out."""
    found, absent = [], []
    for name in names:
        try:
            found.append(MAKERS[name]())
        except ImportError as error:
            absent.append(f"{name} (no module {error.name})")
    return found, absent


def help_faiss() -> None:
    """Tell OpenBLAS the processor, because the copy in faiss's wheel does not know newer ones.

    This makes faiss three times faster. It must run before faiss is imported. Other copies of
    OpenBLAS in the process make the same choice themselves.
    """
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text() if cpu.exists() else ""
    core = "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None
    if core:
        os.environ.setdefault("OPENBLAS_CORETYPE", core)
