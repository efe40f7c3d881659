"""Golden cases of the seedings, of global k-means and of choose_k."""

import itertools

import numpy as np
from golden.kmeans import POSITIVE, VARIANTS
from golden.sets import dense, repeated, rows, weights

import kvariates as kv
from kvariates import UniformOver, choose_k, kvariates_plusplus

LARGE = (20011, 67, 30)


def draws():
    """kmeans_plusplus and kmeans_parallel."""
    ways = {
        "kmeans_plusplus greedy": (kv.kmeans_plusplus, {}),
        "kmeans_plusplus n_local_trials=1": (kv.kmeans_plusplus, {"n_local_trials": 1}),
        "kmeans_plusplus n_local_trials=3": (kv.kmeans_plusplus, {"n_local_trials": 3}),
        "kmeans_parallel": (kv.kmeans_parallel, {}),
        "kmeans_parallel n_rounds=2 oversampling=2.5": (
            kv.kmeans_parallel, {"n_rounds": 2, "oversampling": 2.5},
        ),
        "kmeans_parallel n_rounds=0": (kv.kmeans_parallel, {"n_rounds": 0}),
    }  # fmt: skip
    for (what, (seed, options)), variant in itertools.product(ways.items(), VARIANTS):
        dtype, layout, weighted = variant

        def run(seed=seed, options=options, dtype=dtype, layout=layout, weighted=weighted):
            X, w = rows(900, 7, dtype, layout), weights(900, weighted)
            return seed(X, 25, sample_weight=w, random_state=3, **options)

        yield f"seeding/{what} dtype={dtype} layout={layout} weight={weighted}", run
    for what, (seed, options) in ways.items():

        def few(seed=seed, options=options):
            return seed(repeated(400, 3, 12), 14, random_state=1, **options)

        def large(seed=seed, options=options):
            n, d, k = LARGE
            return seed(rows(n, d, "float32"), k, random_state=2, **options)

        def state(seed=seed, options=options):
            return seed(rows(900, 7), 9, random_state=np.random.RandomState(4), **options)

        yield f"seeding/{what} k=14 of 12 distinct rows", few
        yield f"seeding/{what} RandomState", state
        yield f"seeding large/{what}", large


def moved(X, step):
    """A probe that is a callable."""
    return dense(X) * (1 + 0.1 * step)


def variates():
    """kvariates_plusplus: densities times probes, and distortions."""
    n, d, k = 600, 5, 8
    groups = np.arange(n) % 9
    batches = [np.arange(t, n, 11) for t in range(11)]
    densities = {
        "default": None,
        "Dirac": kv.Dirac(),
        "Laplace": kv.Laplace(0.3),
        "Gaussian": kv.Gaussian(0.2),
        "Gaussian per feature": kv.Gaussian(np.linspace(0.1, 1, d)),
        "UniformOver": UniformOver(groups),
        "UniformOver then Laplace": UniformOver(groups, then=kv.Laplace(0.1)),
        "UniformOver then Gaussian": UniformOver(groups, then=kv.Gaussian(0.1)),
    }
    probes = {
        "default": None,
        "EveryPoint": kv.EveryPoint(),
        "EveryPoint skip=False": kv.EveryPoint(skip=False),
        "Synopses": kv.Synopses(rows(9, d, seed=7), groups),
        "MiniBatches": kv.MiniBatches(batches),
        "callable": moved,
    }
    everything = itertools.product(densities.items(), probes.items())
    for place, ((density, p), (probe, q)) in enumerate(everything):
        dtype, layout, weighted = VARIANTS[(place + place // 8) % 8]

        def run(p=p, q=q, dtype=dtype, layout=layout, weighted=weighted):
            X, w = rows(n, d, dtype, layout), weights(n, weighted)
            found = kvariates_plusplus(X, k, density=p, probe=q, sample_weight=w, random_state=6)
            return found.centers, found.indices, found.guarantee is None  # fmt: skip

        name = f"density={density} probe={probe} dtype={dtype} layout={layout} weight={weighted}"
        yield f"kvariates/{name}", run
    for distortion, variant in itertools.product((*POSITIVE, "mahalanobis"), VARIANTS):
        dtype, layout, weighted = variant

        def distorted(distortion=distortion, dtype=dtype, layout=layout, weighted=weighted):
            X = rows(n, d, dtype, layout, positive=distortion in POSITIVE)
            w = weights(n, weighted)
            found = kvariates_plusplus(X, k, distortion=distortion, sample_weight=w, random_state=6)
            return found.centers, found.indices  # fmt: skip

        name = f"distortion={distortion} dtype={dtype} layout={layout} weight={weighted}"
        yield f"kvariates/{name}", distorted
    X = rows(n, d)
    others = {  # refused, all but the first
        "groups of synopses": {
            "probe": probes["Synopses"], "density": UniformOver(groups[:9] % 3), "random_state": 1,
        },
        "distortion and density": {"distortion": "mahalanobis", "density": kv.Dirac()},
        "too few batches": {"probe": kv.MiniBatches(batches[:3])},
        "groups of another length": {"density": UniformOver(groups[:9])},
        "synopses of other features": {"probe": kv.Synopses(X[:9, :2], groups)},
        "synopses without rows": {"probe": kv.Synopses(X[:3], groups)},
        "probe of another shape": {"probe": lambda X, step: X[:, :2]},
    }  # fmt: skip
    for what, options in others.items():

        def other(options=options):
            found = kvariates_plusplus(X, k, **options)
            return found.centers, found.indices

        yield f"kvariates/{what}", other


def solutions(found):
    return [(s.n_clusters, s.cluster_centers, s.labels, s.inertia) for s in found]


def nested():
    """global_kmeans and choose_k."""
    for candidates, (dtype, layout, weighted) in itertools.product(("auto", "all", 5), VARIANTS):

        def run(candidates=candidates, dtype=dtype, layout=layout, weighted=weighted):
            X = rows(400, 4, dtype, layout)
            how = {"sample_weight": weights(400, weighted), "random_state": 1}
            return solutions(kv.global_kmeans(X, 7, candidates=candidates, **how))

        name = f"candidates={candidates} dtype={dtype} layout={layout} weight={weighted}"
        yield f"global/{name}", run
    more = {
        "full all": lambda: kv.global_kmeans(rows(120, 3), 5, full=True, candidates="all"),
        "full 6": lambda: kv.global_kmeans(
            rows(300, 3), 6, full=True, candidates=6, random_state=1, sample_weight=weights(300)
        ),
        "few distinct rows": lambda: kv.global_kmeans(repeated(300, 3, 8), 10, candidates="all"),
        "max_iter=1 tol=0": lambda: kv.global_kmeans(rows(300, 3), 6, max_iter=1, tol=0),
        "too many rows to try all": lambda: kv.global_kmeans(rows(20001, 3), 6, random_state=1),
    }
    for what, run in more.items():
        yield f"global/{what}", lambda run=run: solutions(run())
    for method, (dtype, layout, weighted) in itertools.product(("warm", "global"), VARIANTS):

        def choose(method=method, dtype=dtype, layout=layout, weighted=weighted):
            X, w = rows(350, 5, dtype, layout), weights(350, weighted)
            return choice(choose_k(X, (1, 8), method=method, sample_weight=w, random_state=1))

        yield f"choose_k/{method} dtype={dtype} layout={layout} weight={weighted}", choose
    several = {
        "sampled": lambda: choose_k(rows(1500, 3), (2, 6), silhouette_sample=200, random_state=1),
        "range": lambda: choose_k(rows(300, 3), range(3, 6), random_state=1),
        "wide": lambda: choose_k(rows(60, 90), (1, 4), random_state=1),
        "few distinct rows": lambda: choose_k(repeated(200, 3, 5), (1, 9), random_state=1),
        "bad range": lambda: choose_k(rows(300, 3), (5, 2)),
    }
    for what, run in several.items():
        yield f"choose_k/{what}", lambda run=run: choice(run())


def choice(found):
    table = [found.ks, found.inertia, found.elbow, found.silhouette, found.dividing]
    return [found.k, found.clear, found.centers, *table, *found.solutions]


def cases():
    for part in (draws, variates, nested):
        yield from part()
