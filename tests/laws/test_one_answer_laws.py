"""The same seed gives the same centres in memory and over shards, however the rows are cut."""

import itertools
import warnings

import numpy as np
import pytest
from api import SMALL, FitOptions, HostData, Rows, SquaredEuclidean, fit_kmeans
from laws.cases import LAYOUTS, weighted_or_not, weights_for
from laws.shards import ShardData

from kvariates import KMeans

N, D, K = 20_000, 14, 12  # more values than are put into canonical order


def ugly_rows(dtype):
    """Columns of many scales, heavy tails and one far row."""
    rng = np.random.default_rng(7)
    X = rng.standard_t(2, size=(N, D)) * np.logspace(-3, 3, D) * rng.uniform(size=(N, 1))
    X[N // 3] = 1e9
    X[rng.uniform(size=X.shape) < 0.5] = 0
    return X.astype(dtype)


def fit_shards(X, weight, cuts):
    """KMeans(K, n_init=1, max_iter=15, tol=0, random_state=0) over shards."""
    parts = [Rows.of(part) for part in cut(X, cuts)]
    masses = [None] * len(parts) if weight is None else np.split(weight, cuts)
    shards = [HostData(part, w) for part, w in zip(parts, masses, strict=True)]
    options = FitOptions(K, "k-means++", max_iter=15, tol=0.0)
    return fit_kmeans(ShardData(shards), SquaredEuclidean(), options, np.random.default_rng(0))


def cut(X, cuts):
    ends = [0, *cuts, X.shape[0]]
    return [X[a:b] for a, b in itertools.pairwise(ends)]


@weighted_or_not
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shards_give_the_centres_of_a_fit_in_memory(dtype, layout, weighted):
    X = LAYOUTS[layout](ugly_rows(dtype))
    assert N * D > SMALL
    weight = weights_for(N) if weighted else None
    model = KMeans(K, n_init=1, max_iter=15, tol=0, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, sample_weight=weight)
    assert model.n_iter_ > 3
    many = np.sort(np.random.default_rng(1).integers(N, size=16)).tolist()
    for cuts in ([], [N // 2], [5, 6], many):
        end = fit_shards(X, weight, cuts)
        assert end.centers.astype(dtype).tobytes() == model.cluster_centers_.tobytes()
        assert end.n_iter == model.n_iter_
