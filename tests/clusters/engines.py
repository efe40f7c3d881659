"""The engines as the contracts see them: how rows get there, who fits, who can be killed."""

import itertools
import os
import signal
from contextlib import contextmanager

import numpy as np
import pandas as pd

SIZES = (700, 1, 0, 1299, 1000)  # of the partitions of 3000 rows
NAMES = ["a", "b", "c", "d"]


def pieces(X, sizes=SIZES):
    ends = np.cumsum((0, *sizes))
    return [X[first:last] for first, last in itertools.pairwise(ends)]


class Dask:
    """`client(workers)` gives a cluster with so many workers."""

    forms = ("array", "unknown", "frame", "blocks")

    def __init__(self, client):
        from kvariates.dask import KMeans

        self._client, self._estimator = client, KMeans

    def kmeans(self, k, workers=2, **options):
        return self._estimator(k, client=self._client(workers), **options)

    def put(self, X, weight=None, form="blocks", sizes=SIZES):
        """X and the weights in partitions of these sizes."""
        parts = [X, *([] if weight is None else [weight])]
        held = [getattr(self, f"_{form}")(part, sizes) for part in parts]
        return held if len(held) == 2 else (*held, None)

    def _array(self, X, sizes):
        """Cut by columns as well, which `fit` has to undo."""
        from dask import array as da

        return da.from_array(X, chunks=(sizes, -1 if X.ndim == 1 else 3)[: X.ndim])

    def _unknown(self, X, sizes):
        X = self._array(X, sizes)
        return X[(X if X.ndim == 1 else X[:, 0]) > -np.inf]

    def _frame(self, X, sizes):
        from dask import dataframe as dd
        from dask import delayed

        make, names = (pd.Series, {}) if X.ndim == 1 else (pd.DataFrame, {"columns": NAMES})
        parts = [delayed(make)(part, **names) for part in pieces(X, sizes)]
        return dd.from_delayed(parts, meta=make(X[:0], **names), verify_meta=False)

    def _blocks(self, X, sizes):
        return self.blocks(pieces(X, sizes))

    def blocks(self, parts):
        from dask import delayed

        return [delayed(part) for part in parts]

    def gathered(self, found):
        """Labels or distances as an array."""
        if isinstance(found, list):
            return np.concatenate([part.compute() for part in found])
        return np.asarray(found.compute())

    @contextmanager
    def killing(self, model, question, call):
        """A worker dies when it is asked this for the call-th time."""
        from clusters.test_dask_faults import plant

        worker = plant(model.client, question, call)
        yield
        assert worker not in model.client.nthreads()


class Ray:
    forms = ("dataset", "parquet", "blocks")

    def __init__(self, folder):
        from kvariates.ray import KMeans

        self._estimator, self._folder = KMeans, folder

    def kmeans(self, k, workers=2, **options):
        return self._estimator(k, n_workers=workers, **options)

    def put(self, X, weight=None, form="blocks", sizes=SIZES):
        if form == "blocks":
            held = weight if weight is None else self.blocks(pieces(weight, sizes))
            return self.blocks(pieces(X, sizes)), held
        frame = pd.DataFrame(X, columns=NAMES)
        if weight is not None:
            frame["w"] = weight
        return getattr(self, f"_{form}")(pieces(frame, sizes)), None if weight is None else "w"

    def _dataset(self, parts):
        import ray.data

        return ray.data.from_pandas(parts)

    def _parquet(self, parts):
        folder = self._folder()
        for number, part in enumerate(parts):
            part.to_parquet(folder / f"{number}.parquet")
        return folder

    def blocks(self, parts):
        import ray

        return [ray.put(part) for part in parts]

    def gathered(self, found):
        import ray

        if isinstance(found, list):
            return np.concatenate(ray.get(found))
        return found.to_pandas().to_numpy().squeeze()

    @contextmanager
    def killing(self, model, question, call):
        import pytest
        import ray
        from api import RayActors

        asked, send = [], RayActors.send

        def spy(actors, envelopes):
            asked.extend(e.question.name for e in list(envelopes.values())[:1])
            if asked[-1:] == [question] and asked.count(question) == call:
                pid = actors._actors[0].__ray_call__.remote(lambda _: os.getpid())
                os.kill(ray.get(pid), signal.SIGKILL)
            return send(actors, envelopes)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RayActors, "send", spy)
            yield
        assert asked.count(question) >= call
