"""Golden cases of streams, and of KMeans on blocks."""

import numpy as np
from golden.kmeans import INITS, VARIANTS, result, start
from golden.sets import dense, rows, weights
from laws.block_sources import CutRows

from kvariates import KMeans, OnlineKMeans, StreamingKMeans

SYNOPSES = ("coreset", "lightweight", "reservoir")
LARGE = (40001, 19, 33)


def blocks(n, d, dtype="float64", layout="dense", weight="no", **options):
    cuts = (7, n // 3, n // 2)
    return CutRows(rows(n, d, dtype, layout), weights(n, weight), cuts, **options)


def stream(source, k, **options):
    """What is digested of a StreamingKMeans."""
    model = StreamingKMeans(k, random_state=0, **options).fit(source)
    return [
        dense(model.synopses_), model.synopsis_weights_, model.weight_seen_,
        model.cluster_centers_, model.inertia_, model.n_iter_,
        np.asarray(model.predict(source)), model.score(source),
    ]  # fmt: skip


def kmeans(source, k, **options):
    """What is digested of a KMeans on blocks."""
    model = KMeans(k, random_state=0, **options).fit(source)
    model.labels_ = np.asarray(model.labels_)
    return [*result(model), model.score(source)]


def inits():
    """Every init on blocks and, by its name, on a stream; the other choices take turns."""
    for i, init in enumerate(INITS):
        dtype, layout, weight = VARIANTS[i % 8]
        kind = f"dtype={dtype} layout={layout} weight={weight}"

        def streamed(init=init, synopsis=SYNOPSES[i % 3], kind=VARIANTS[i % 8]):
            how = {"n_synopses": 150, "synopsis": synopsis, "init": init, "n_init": 2}
            return stream(blocks(2000, 5, *kind), 6, **how)

        def fitted(init=init, kind=VARIANTS[i % 8], runs=1 if init == "array" else 2):
            source = blocks(2000, 5, *kind)
            return kmeans(source, 9, init=start(init, source.X, 9), n_init=runs)

        yield f"blocks/init={init} {kind}", fitted
        if init not in ("callable", "array"):
            yield f"streams/init={init} synopsis={SYNOPSES[i % 3]} {kind}", streamed


def options():
    few, online = {"n_synopses": 150}, OnlineKMeans(3, random_state=0)
    given = {
        "streams/half_life=300": lambda: stream(blocks(2000, 5), 6, half_life=300.0, **few),
        "streams/max_iter=0": lambda: stream(blocks(2000, 5), 6, max_iter=0, n_init=3, **few),
        "streams/too few rows": lambda: stream(blocks(20, 5), 21),
        "blocks/cosine": lambda: kmeans(blocks(2000, 5), 9, metric="cosine"),
        "blocks/cosine csr": lambda: kmeans(blocks(2000, 5, layout="csr"), 9, metric="cosine"),
        "blocks/read once": lambda: kmeans(blocks(2000, 5, repeatable=False), 9),
        "streams/OnlineKMeans": lambda: online.fit(blocks(2000, 5)).cluster_centers_,
    }
    yield from given.items()


def large():
    """Large enough that a second thread starts."""
    n, d, k = LARGE
    for synopsis in SYNOPSES:

        def streamed(synopsis=synopsis):
            return stream(blocks(n, d, "float32"), k, n_synopses=2000, synopsis=synopsis)

        yield f"streams large/{synopsis}", streamed
    yield "streams large/csr", lambda: stream(blocks(n, d, layout="csr"), k, n_synopses=2000)
    for init in ("k-means++", "k-means||"):

        def fitted(init=init):
            return kmeans(blocks(n, d, weight="yes"), k, init=init, max_iter=5)

        yield f"blocks large/{init}", fitted


def cases():
    for part in (inits, options, large):
        yield from part()
