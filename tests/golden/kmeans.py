"""Golden cases of KMeans."""

import itertools

import numpy as np
from golden.sets import dense, repeated, rows, weights
from scipy import sparse

from kvariates import KMeans

INITS = (
    "k-means++", "d2", "k-means||", "ls++", "global", "hst", "random", "callable", "array",
)  # fmt: skip
ALGORITHMS = ("auto", "lloyd", "elkan", "hamerly", "yinyang", "hartigan", "minibatch", "swap")
OBJECTIVES = {
    "euclidean": {},
    "cosine": {"metric": "cosine"},
    "kl": {"distortion": "kl"},
    "itakura-saito": {"distortion": "itakura-saito"},
    "mahalanobis": {"distortion": "mahalanobis"},
    "total-jensen": {"distortion": "total-jensen"},
}
POSITIVE = ("kl", "itakura-saito", "total-jensen")
TAKES_CSR = ("euclidean", "cosine", "kl")
VARIANTS = tuple(itertools.product(("float64", "float32"), ("dense", "csr"), ("no", "yes")))


def some_rows(X, n_clusters, random_state):
    """An init that is a callable."""
    return dense(X[random_state.permutation(X.shape[0])[:n_clusters]])


def start(init, X, k):
    if init == "callable":
        return some_rows
    return dense(X[:k]) if init == "array" else init


def result(model, new=None):
    """What is digested of a fitted KMeans."""
    found = [model.cluster_centers_, model.labels_, model.inertia_, model.n_iter_]
    if new is not None:
        found += [model.predict(new), model.transform(new), model.score(new)]
    return found


def fit(X, k, *, weight=None, new=None, **options):
    options = {"random_state": 0, **options}
    return result(KMeans(k, **options).fit(X, sample_weight=weight), new)


def pairs():
    """Every init with every algorithm and every objective; the other choices take turns."""
    numbered = itertools.product(enumerate(INITS), enumerate(ALGORITHMS), enumerate(OBJECTIVES))
    for (i, init), (a, algorithm), (o, objective) in numbered:
        choice = 7 * i + 3 * a + o
        steps = (0,)
        if objective in POSITIVE and algorithm in ("auto", "lloyd"):
            taken = init in ("k-means++", "d2", "random", "callable", "array")
            more = (0, 2, 5, 7) if objective == "kl" else (0, 1, 4, 5)
            steps = more if taken else (0,)
        for step in steps:
            dtype, layout, weighted = VARIANTS[(choice + step) % 8]
            yield pair(
                (i, a, o), init=init, algorithm=algorithm, objective=objective, dtype=dtype,
                layout=layout if objective in TAKES_CSR else "dense", weight=weighted,
            )  # fmt: skip
    for objective, (dtype, layout, weighted) in itertools.product(OBJECTIVES, VARIANTS):
        if objective not in TAKES_CSR and layout == "csr":
            yield pair(
                (0, 1, 0), init="k-means++", algorithm="lloyd", objective=objective, dtype=dtype,
                layout=layout, weight=weighted,
            )  # fmt: skip


def pair(place, *, init, algorithm, objective, dtype, layout, weight):
    i, a, o = place
    n, d = 300 + 100 * ((i + 2 * a + 3 * o) % 5), (2, 5, 17, 40)[(i + a + o) % 4]
    k = (3, 7, 12, 20)[(2 * i + a) % 4]
    most = (300, 300, 1, 2, 20)[(i + 3 * a + o) % 5]
    if objective == "total-jensen":  # its centres are found by iteration, which is slow
        n, d, k, most = 300, min(d, 5), min(k, 7), min(most, 8)
    options = {
        "algorithm": algorithm,
        "tol": 0 if (i + a + o) % 3 == 0 else 1e-4,
        "max_iter": most,
        "n_init": 2 if (a + o) % 4 == 0 and init != "array" else "auto",
        "random_state": i + a,
        "verbose": 0,
        **OBJECTIVES[objective],
    }

    def run():
        positive = objective in POSITIVE
        X = rows(n, d, dtype, layout, positive=positive)
        new = rows(60, d, dtype, layout, positive=positive, seed=5) if (i + a) % 3 == 0 else None
        start_at, w = start(init, X, k), weights(n, weight)
        return fit(X, k, init=start_at, weight=w, new=new, **options)

    name = (
        f"init={init} algorithm={algorithm} objective={objective} dtype={dtype} "
        f"layout={layout} weight={weight}"
    )
    return f"kmeans/{name}", run


def accepted(objective):
    """The algorithms that an objective takes."""
    if objective in POSITIVE:
        return ("lloyd",)
    return ALGORITHMS[:5] if objective == "cosine" else ALGORITHMS


def empties():
    """Clusters become empty: few distinct rows, or a start whose centres are all equal."""
    for o, objective in enumerate(OBJECTIVES):
        positive = objective in POSITIVE
        for a, algorithm in enumerate(accepted(objective)):
            options = {"algorithm": algorithm, **OBJECTIVES[objective]}
            dtype = ("float64", "float32")[(a + o) % 2]
            layout = "csr" if objective in TAKES_CSR and a % 3 == 2 else "dense"

            def equal(options=options, dtype=dtype, layout=layout, positive=positive):
                X = rows(500, 6, dtype, layout, positive=positive)
                return fit(X, 9, init=np.tile(dense(X[:1]), (9, 1)), **options)

            def far(options=options, dtype=dtype, layout=layout, positive=positive):
                X = rows(400, 3, dtype, layout, positive=positive)
                given = np.concatenate([dense(X[:6]), 50 + dense(X[:6])])
                return fit(X, 12, init=given, weight=weights(400), tol=0, **options)

            def few(options=options, dtype=dtype, layout=layout, positive=positive):
                X = repeated(600, 4, 22, dtype, layout, positive=positive)
                return fit(X, 20, init="random", n_init=3, **options)

            def fewer(options=options, dtype=dtype, layout=layout, positive=positive):
                X = repeated(350, 4, 12, dtype, layout, positive=positive)
                return fit(X, 15, init=dense(X[:15]), max_iter=3, **options)

            for what, run in (("equal start", equal), ("far start", far),
                              ("k=20 of 22 distinct rows", few),
                              ("k=15 of 12 distinct rows", fewer)):  # fmt: skip
                yield f"kmeans empty/{what} {algorithm} {objective} {dtype} {layout}", run
    for algorithm, seed in itertools.product(("lloyd", "hartigan"), range(3)):

        def kept(algorithm=algorithm, seed=seed):
            X = repeated(1500, 2, 40)
            return fit(X, 40, init="random", n_init=1, algorithm=algorithm, random_state=seed)

        yield f"kmeans empty/k=40 of 40 distinct rows {algorithm} seed {seed}", kept


def one_iteration():
    for most, tol, algorithm in itertools.product((1, 2), (0, 1e-4), ALGORITHMS):

        def run(most=most, tol=tol, algorithm=algorithm):
            X = rows(1200, 10, "float32")
            return fit(X, 25, max_iter=most, tol=tol, algorithm=algorithm, init="d2", n_init=2)

        yield f"kmeans steps/max_iter={most} tol={tol} {algorithm}", run


def inputs():
    """Other kinds of X, weights and random states."""
    X = rows(700, 8)
    zero = X.copy()
    zero[::9] = 0
    wide = rows(300, 150, "float32", "csr")
    kinds = {
        "list": lambda: fit(X.tolist(), 6),
        "integers": lambda: fit(np.rint(4 * X).astype(np.int64), 6),
        "fortran order": lambda: fit(np.asfortranarray(X), 6),
        "every second row": lambda: fit(X[::2], 6, weight=weights(700)[::2]),
        "csc": lambda: fit(sparse.csc_array(wide), 6),
        "offset 1e4 float32": lambda: fit((X + 1e4).astype(np.float32), 6),
        "offset 1e6": lambda: fit(X + 1e6, 6, new=X[:20] + 1e6),
        "scale 1e-9": lambda: fit(X * 1e-9, 6),
        "one feature": lambda: fit(X[:, :1], 10),
        "one cluster": lambda: fit(X, 1, algorithm="lloyd"),
        "one cluster cosine": lambda: fit(X, 1, metric="cosine"),
        "as many clusters as rows": lambda: fit(X[:30], 30),
        "zero rows cosine": lambda: fit(zero, 5, metric="cosine", new=zero[:30]),
        "whole weights": lambda: fit(X, 6, weight=np.arange(700) % 4),
        "scalar weight": lambda: fit(X, 6, weight=2.5),
        "RandomState": lambda: fit(X, 6, random_state=np.random.RandomState(5)),
        "Generator": lambda: fit(X, 6, random_state=np.random.default_rng(5)),
        "Generator callable": lambda: fit(
            X, 6, init=lambda X, k, random_state: X[random_state.permutation(len(X))[:k]],
            random_state=np.random.default_rng(5),
        ),
        "n_init=4": lambda: fit(X, 9, init="d2", n_init=4),
        "fit twice": lambda: result(KMeans(5, random_state=0).fit(X[:300]).fit(X)),
        "fit_predict": lambda: KMeans(5, random_state=0).fit_predict(X, sample_weight=weights(700)),
        "fit_transform": lambda: KMeans(5, random_state=0).fit_transform(X),
        "weighted score": lambda: KMeans(5, random_state=0).fit(X).score(
            X, sample_weight=weights(700)
        ),
        "feature names": lambda: KMeans(5).fit(X).get_feature_names_out().tolist(),
        "more clusters than rows": lambda: fit(X[:4], 5),
        "metric and distortion": lambda: fit(np.abs(X), 5, metric="cosine", distortion="kl"),
        "negative kl": lambda: fit(X, 5, distortion="kl"),
        "zero itakura-saito": lambda: fit(np.abs(zero), 5, distortion="itakura-saito"),
        "negative total-jensen": lambda: fit(X, 5, distortion="total-jensen"),
        "negative weights": lambda: fit(X, 5, weight=np.linspace(-1, 1, 700)),
        "no weight": lambda: fit(X, 5, weight=np.zeros(700)),
        "few weights random": lambda: fit(X, 5, init="random", weight=np.arange(700) < 3),
        "init of another shape": lambda: fit(X, 5, init=X[:4]),
        "squares overflow": lambda: fit(X * 1e200, 5),
        "predict other features": lambda: KMeans(5).fit(X).predict(X[:, :3]),
    }  # fmt: skip
    for what, run in kinds.items():
        yield f"kmeans inputs/{what}", run


def large():
    """Large enough that a second thread starts."""
    small, middle, wide, tall = (60001, 2, 40), (9001, 19, 33), (4500, 131, 12), (33001, 131, 5)
    plan = [
        *((middle, algorithm, "float64", "dense", {}) for algorithm in ALGORITHMS),
        *((small, algorithm, "float32", "dense", {}) for algorithm in ("lloyd", "yinyang")),
        *((wide, algorithm, "float32", "csr", {}) for algorithm in ("elkan", "hamerly")),
        (wide, "hamerly", "float64", "dense", {"metric": "cosine"}),
        (wide, "lloyd", "float64", "dense", {"distortion": "kl"}),
        (middle, "lloyd", "float32", "csr", {"distortion": "kl"}),
        (wide, "lloyd", "float64", "dense", {"distortion": "mahalanobis"}),
        (middle, "lloyd", "float32", "dense", {"distortion": "itakura-saito"}),
        ((30001, 5, 40), "auto", "float64", "dense", {"init": "hst"}),
        ((30001, 5, 40), "auto", "float64", "dense", {"init": "ls++"}),
        (middle, "auto", "float32", "dense", {"init": "k-means||"}),
        (middle, "auto", "float32", "dense", {"init": "global"}),
        (tall, "lloyd", "float32", "dense", {"init": "d2", "max_iter": 2}),
    ]
    for (n, d, k), algorithm, dtype, layout, options in plan:

        def run(n=n, d=d, k=k, algorithm=algorithm, dtype=dtype, layout=layout, options=options):
            positive = options.get("distortion") in POSITIVE
            X = rows(n, d, dtype, layout, positive=positive)
            weight = weights(n) if d == 19 else None
            how = {"max_iter": 6, "algorithm": algorithm, **options}
            return fit(X, k, weight=weight, new=X, **how)

        what = " ".join(str(value) for value in options.values())
        yield f"kmeans large/{n}x{d} k={k} {algorithm} {dtype} {layout} {what}".strip(), run


def limited():
    """Limits on the sizes of clusters."""
    places = itertools.product(VARIANTS, ("euclidean", "cosine"))
    for i, ((dtype, layout, weight), metric) in enumerate(places):
        n, k = (300, 700, 3000)[i % 3], (4, 9, 15)[(i + 1) % 3]

        def run(n=n, k=k, dtype=dtype, layout=layout, weight=weight, metric=metric):
            X, w = rows(n, 6, dtype, layout), weights(n, weight)
            mean = (n if w is None else w.sum()) / k
            return sized(X, k, mean, weight=w, metric=metric)

        yield f"kmeans sizes/{n} k={k} {dtype} {layout} weight={weight} {metric}", run
    for dtype, layout in itertools.product(("float64", "float32"), ("dense", "csr")):

        def many(dtype=dtype, layout=layout):
            return sized(rows(20000, 9, dtype, layout), 30, 20000 / 30, max_iter=6)

        yield f"kmeans sizes large/20000x9 k=30 {dtype} {layout}", many


def sized(X, k, mean, weight=None, **options):
    """A fit with sizes within 10 % of their mean: also its gap."""
    model = KMeans(k, random_state=0, size_min=0.9 * mean, size_max=1.1 * mean, **options)
    return [*result(model.fit(X, sample_weight=weight)), model.assignment_gap_]


def cases():
    for part in (pairs, empties, one_iteration, inputs, large, limited):
        yield from part()
