"""Reports of fits of many kinds, small, for the tests of pages."""

from functools import cache
from pathlib import Path

import numpy as np
from api import FitRun, FittedTable, ShownRows, fit_record_of
from scipy import sparse

from kvariates import KMeans, KMedian, PrivateKMeans, StreamingKMeans

NASTY = (
    "</script><script>alert(1)</script>", "[/a]", "$$x_1$$", "<!-- <b>", "a\x1b[31mb\x00",
    "\"quote' & amp;", "\u202eright to left", "日本語 ë 🎈",
)  # fmt: skip


def rng(seed=0):
    return np.random.default_rng(seed)


def blobs(n, d, k, seed=0):
    g = rng(seed)
    centers = g.normal(size=(k, d)) * 8
    return centers[g.integers(0, k, n)] + g.normal(size=(n, d))


def run_of(model, X, names, *, sizes=None, path="data.csv", costs=(), **others):
    """A FitRun of a fitted model, as the command makes it."""
    k = model.n_clusters
    labels = getattr(model, "labels_", None)
    sizes = np.bincount(labels, minlength=k) if sizes is None else sizes
    centers = getattr(model, "cluster_centers_", None)
    if centers is None:
        centers = model.medoid_indices_.reshape(-1, 1).astype(float)
    steps = getattr(model, "n_iter_", getattr(model, "n_swaps_", None))
    return FitRun(
        FittedTable(Path(path), tuple(names), (), X.shape[0], **others),
        model.get_params(), centers, sizes, sizes.astype(float),
        getattr(model, "inertia_", None), steps, 0.25,
        record=fit_record_of(model), costs=tuple(costs),
        command=f"kvariates fit {path} -k {k} --seed 0 -o out/",
    )  # fmt: skip


def kmeans_case(X, k, names, **others):
    model = KMeans(k, random_state=0, **others.pop("parameters", {})).fit(X)
    run = run_of(model, X, names, **others)
    return run, ShownRows(X, model.labels_, model.cluster_centers_)


def two_columns():
    X = blobs(2000, 2, 5)
    X[7] = 4000.0, -3000.0  # one far row
    return kmeans_case(X, 6, ("width", "height"), costs=[900.0, 120.0, 80.0, 75.0, 74.9])


def fifty():
    return kmeans_case(blobs(6000, 9, 50), 50, [f"column {j}" for j in range(9)])


def nasty():
    names = NASTY[:8]
    run, shown = kmeans_case(blobs(300, 8, 4), 4, names, path=f"x{NASTY[4]}&.csv")
    return run, shown


def cities():
    g = rng(3)
    lat, lon = g.uniform(-50, 65, 1500), g.uniform(-170, 175, 1500)
    return kmeans_case(np.column_stack([lat, lon]), 9, ("Lat", "longitude_deg"))


def certified():
    X = blobs(400, 3, 4)
    parameters = {"certify": True, "size_min": 20, "size_max": 180, "init": "d2"}
    return kmeans_case(X, 4, ("a", "b", "c"), parameters=parameters)


def sparse_rows():
    X = sparse.random(500, 3000, 0.01, format="csr", random_state=0)
    return kmeans_case(X, 5, [f"word{j}" for j in range(3000)])


def stream():
    X = blobs(5000, 4, 3)
    model = StreamingKMeans(3, n_synopses=400, random_state=0).fit(X)
    centers, points = model.cluster_centers_, model.synopses_
    labels = ((points[:, None] - centers) ** 2).sum(2).argmin(1)
    run = run_of(model, X, "wxyz", sizes=np.array([1500, 1700, 1800]), streamed=True)
    return run, ShownRows(points, labels, centers, model.synopsis_weights_)


def network():
    g = rng(5)
    places = g.uniform(size=(600, 2))
    gaps = np.sqrt(((places[:, None] - places) ** 2).sum(2))
    graph = sparse.csr_matrix(np.where(gaps < 0.075, gaps, 0.0))
    model = KMedian(6, metric="graph", random_state=0).fit(graph)
    run = run_of(model, graph, ("node",), path="roads.mtx")
    edges = np.column_stack(sparse.triu(graph).nonzero())
    return run, ShownRows(places, model.labels_, places[model.medoid_indices_], edges=edges)


def private(d=4, names="abcd", **parameters):
    X = np.clip(blobs(3000, d, 3, seed=7), -30, 30)
    model = PrivateKMeans(3, epsilon=2.0, bounds=(-30, 30), **parameters).fit(X)
    return run_of(model, X, tuple(names), sizes=model.cluster_counts_), None


CASES = {
    "two_columns": two_columns,
    "fifty": fifty,
    "nasty": nasty,
    "cities": cities,
    "certified": certified,
    "sparse": sparse_rows,
    "stream": stream,
    "network": network,
    "private": private,
    "private_gaussian": lambda: private(2, "xy", delta=1e-6),
}


@cache
def case(name):
    return CASES[name]()
