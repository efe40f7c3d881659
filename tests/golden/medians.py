"""Golden cases of KMedian, of its seedings and of the tree."""

import itertools

import numpy as np
from golden.sets import distances, grid_graph, rows, weights

from kvariates import KMedian, hst_seeding, hst_tree, kmedian_plusplus


def apart(a, b):
    """A metric that is a callable."""
    return float(np.abs(a - b).max())


def letters(a, b):
    """A metric between words of the same length."""
    return float(sum(x != y for x, y in zip(a, b, strict=True)))


METRICS = ("euclidean", "manhattan", "cosine", "precomputed", "graph", "callable")
INITS = ("hst", "k-median++", "random", "array")
DEMANDS = ("all", "numbers", "mask", "floats", "sample_weight")


def points(metric, dtype="float64"):
    """X for a metric, and the metric as KMedian takes it."""
    if metric == "precomputed":
        return distances(250, dtype=dtype), metric
    if metric == "graph":
        return grid_graph(17, 16), metric
    if metric == "callable":
        return rows(130, 3, dtype), apart
    return rows(400, 6, dtype), metric


def demand_of(kind, n):
    """The keywords of fit that say which points count."""
    if kind == "numbers":
        return {"demand": np.random.default_rng(n).integers(n, size=n // 2)}
    if kind == "mask":
        return {"demand": np.arange(n) % 3 > 0}
    if kind == "floats":
        return {"demand": weights(n)}
    return {"sample_weight": weights(n)} if kind == "sample_weight" else {}


def result(model, new=None):
    found = [model.medoid_indices_, model.labels_, model.inertia_, model.n_swaps_]
    if hasattr(model, "cluster_centers_"):
        found.append(model.cluster_centers_)
    if hasattr(model, "certificate_"):
        proof = model.certificate_
        found += [proof.lower_bound, proof.cost, proof.confidence, proof.iterations]
        found += [-1 if proof.sample is None else proof.sample]
    if new is not None:
        found.append(model.predict(new))
        if model.metric != "graph":
            found += [model.transform(new), model.score(new)]
    return found


def fit(X, k, *, new=None, demand=None, sample_weight=None, **options):
    options = {"random_state": 0, **options}
    return result(KMedian(k, **options).fit(X, demand=demand, sample_weight=sample_weight), new)


def everywhere():
    """Every metric with every init and every kind of demand."""
    product = itertools.product(enumerate(METRICS), enumerate(INITS), enumerate(DEMANDS))
    for (m, metric), (i, init), (w, kind) in product:
        dtype = ("float64", "float32")[(m + i + w) % 2]

        def run(metric=metric, init=init, kind=kind, dtype=dtype, k=(4, 9)[(i + w) % 2]):
            X, given = points(metric, dtype)
            n = X.shape[0]
            first = np.arange(k) * 3 if init == "array" else init
            new = {"graph": np.arange(20), "callable": X[:20]}.get(metric, X[:20])
            return fit(X, k, metric=given, init=first, new=new, **demand_of(kind, n))

        yield f"kmedian/metric={metric} init={init} demand={kind} {dtype}", run


def options():
    ways = {
        "certify": {"certify": True},
        "n_restarts=0": {"n_restarts": 0},
        "n_restarts=8": {"n_restarts": 8},
        "n_init=3": {"n_init": 3, "init": "k-median++"},
        "max_swaps=0": {"max_swaps": 0},
        "max_swaps=2": {"max_swaps": 2, "init": "random"},
    }
    for metric, (what, how) in itertools.product(METRICS, ways.items()):

        def run(metric=metric, how=how):
            X, given = points(metric)
            return fit(X, 6, metric=given, **how)

        yield f"kmedian options/{metric} {what}", run
    X = rows(300, 4)
    rng = np.random.default_rng(9)
    words = ["".join("abcd"[i] for i in row) for row in rng.integers(4, size=(90, 6))]
    broken = rng.random((40, 40)) ** 8
    broken = (broken + broken.T) * (1 - np.eye(40))
    kinds = {
        "words": lambda: fit(words, 5, metric=letters, init="k-median++"),
        "whole distances certify": lambda: fit(
            distances(200, whole=True), 12, metric="precomputed", certify=True
        ),
        "whole distances restarts": lambda: fit(
            distances(400, whole=True, dtype="float32"), 30, metric="precomputed", n_restarts=20
        ),
        "weighted certify": lambda: fit(X, 7, certify=True, demand=weights(300)),
        "mask certify": lambda: fit(X, 7, certify=True, demand=np.arange(300) % 2 == 0),
        "graph certify demand": lambda: fit(
            grid_graph(12, 11), 5, metric="graph", certify=True, demand=np.arange(0, 130, 3)
        ),
        "graph restarts": lambda: fit(grid_graph(15, 15), 6, metric="graph", n_restarts=2),
        "two components": lambda: fit(grid_graph(14, 14, cut=True), 6, metric="graph"),
        "two components hst": lambda: fit(
            grid_graph(14, 14, cut=True), 2, metric="graph", certify=True
        ),
        "broken triangles": lambda: fit(broken, 4, metric="precomputed"),
        "duplicates": lambda: fit(np.repeat(X[:9], 20, axis=0), 12),
        "one medoid": lambda: fit(X, 1, certify=True),
        "as many as points": lambda: fit(X[:12], 12),
        "Generator": lambda: fit(X, 5, random_state=np.random.default_rng(3)),
        "demand twice": lambda: fit(X, 5, demand=np.arange(9), sample_weight=weights(300)),
        "one component too many": lambda: fit(grid_graph(6, 6, cut=True), 1, metric="graph"),
        "not square": lambda: fit(X, 5, metric="precomputed"),
        "not symmetric": lambda: fit(np.triu(distances(30)), 3, metric="precomputed"),
        "sparse rows": lambda: fit(grid_graph(6, 6), 3),
        "dense graph": lambda: fit(distances(30), 3, metric="graph"),
        "init twice the same": lambda: fit(X, 3, init=[1, 1, 2]),
        "init of another length": lambda: fit(X, 3, init=[1, 2]),
        "integers for every point": lambda: fit(X, 3, demand=np.ones(300, dtype=int)),
        "more medoids than points": lambda: fit(X[:2], 3),
        "transform a graph": lambda: (
            KMedian(2, metric="graph", random_state=0).fit(grid_graph(4, 4)).transform([1])
        ),
    }  # fmt: skip
    for what, run in kinds.items():
        yield f"kmedian options/{what}", run


def large():
    """Above the size where a sample is searched first, and where a second thread starts."""
    mask = np.arange(13001) % 7 > 0
    kinds = {
        "2501x19 euclidean": lambda: fit(rows(2501, 19, "float32"), 17, certify=True),
        "1801x131 manhattan": lambda: fit(rows(1801, 131), 12, metric="manhattan"),
        "2203x40 cosine": lambda: fit(rows(2203, 40, "float32"), 9, metric="cosine"),
        "12001x2 sampled": lambda: fit(rows(12001, 2), 15),
        "13001x3 sampled mask": lambda: fit(
            rows(13001, 3), 6, metric="manhattan", demand=mask, n_restarts=0
        ),
        "1500 callable": lambda: fit(rows(1500, 2), 4, metric=apart, init="random", n_restarts=0),
        "graph of 2400": lambda: fit(grid_graph(60, 40), 10, metric="graph", init="k-median++"),
    }
    for what, run in kinds.items():
        yield f"kmedian large/{what}", run


def tree_of(tree):
    pairs = np.random.default_rng(0).integers(len(tree.leaf), size=(200, 2))
    return tree.parent, tree.height, tree.center, tree.leaf, tree.distances(pairs), tree.counts()


def seedings():
    for metric, dtype in itertools.product(METRICS, ("float64", "float32")):

        def tree(metric=metric, dtype=dtype):
            X, given = points(metric, dtype)
            return tree_of(hst_tree(X, metric=given, random_state=2))

        yield f"median seeding/hst_tree {metric} {dtype}", tree
        for kind in ("all", "numbers", "mask", "floats"):

            def draw(metric=metric, dtype=dtype, kind=kind):
                X, given = points(metric, dtype)
                how = {"metric": given, "random_state": 2, **demand_of(kind, X.shape[0])}
                trees = [hst_seeding(X, 9, power=power, **how) for power in (1, 2)]
                plain = [kmedian_plusplus(X, 9, n_local_trials=trials, **how) for trials in (1, 3)]
                return trees + plain

            yield f"median seeding/hst and k-median++ {metric} {dtype} demand={kind}", draw
    kinds = {
        "hst_tree 30001x2": lambda: tree_of(hst_tree(rows(30001, 2), random_state=1)),
        "hst_tree 4500x131": lambda: tree_of(hst_tree(rows(4500, 131, "float32"), random_state=1)),
        "hst_tree graph": lambda: tree_of(
            hst_tree(grid_graph(90, 60), metric="graph", random_state=1)
        ),
        "hst_seeding 30001x2": lambda: hst_seeding(rows(30001, 2), 50, power=2, random_state=1),
        "kmedian_plusplus 33001x131": lambda: kmedian_plusplus(
            rows(33001, 131, "float32"), 6, n_local_trials=3, random_state=1
        ),
        "two components": lambda: tree_of(
            hst_tree(grid_graph(9, 9, cut=True), metric="graph", random_state=1)
        ),
    }
    for what, run in kinds.items():
        yield f"median seeding large/{what}", run


def cases():
    for part in (everywhere, options, large, seedings):
        yield from part()
