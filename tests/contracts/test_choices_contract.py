"""Every init, algorithm and distortion that KMeans takes keeps the estimator's contract."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from kvariates import KMeans, global_kmeans, kmeans_parallel, kvariates_plusplus

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(300, 4)) + 3 * RNG.integers(0, 4, size=(300, 1))) + 0.05
INITS = ["k-means++", "d2", "random", "k-means||", "ls++", "global", "hst"]
ALGORITHMS = ["auto", "lloyd", "elkan", "hamerly", "yinyang", "hartigan", "minibatch"]
DISTORTIONS = ["kl", "itakura-saito", "mahalanobis", "total-jensen"]
CHOICES = (
    [{"init": init} for init in INITS]
    + [{"algorithm": a} for a in ALGORITHMS]
    + [{"distortion": d} for d in DISTORTIONS]
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_contract(choice, dtype):
    rows = X.astype(dtype)
    model = KMeans(5, random_state=0, **choice).fit(rows)
    assert model.cluster_centers_.shape == (5, 4)
    assert model.cluster_centers_.dtype == dtype
    assert (model.labels_ == model.predict(rows)).all()
    assert -model.score(rows) == pytest.approx(model.inertia_, rel=1e-6)
    distances = model.transform(rows)
    assert distances.shape == (300, 5)
    own = distances[np.arange(300), model.labels_]
    assert (own <= distances.min(axis=1) * (1 + 1e-5) + 1e-6).all()
    again = KMeans(5, random_state=0, **choice).fit(rows)
    assert (again.cluster_centers_ == model.cluster_centers_).all()
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.predict(rows) == model.labels_).all()
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("choice", [*CHOICES[: len(INITS)], {"algorithm": "hartigan"}], ids=str)
def test_sparse_rows(choice):
    model = KMeans(5, random_state=0, **choice).fit(sparse.csr_array(X))
    assert (model.labels_ == model.predict(sparse.csr_array(X))).all()


@pytest.mark.parametrize("init", ["k-means++", "d2", "random"])
@pytest.mark.parametrize("distortion", DISTORTIONS)
def test_distortions_start_anywhere(distortion, init):
    model = KMeans(4, init=init, distortion=distortion, random_state=1).fit(X)
    given = KMeans(4, init=model.cluster_centers_, n_init=1, distortion=distortion).fit(X)
    assert given.inertia_ <= model.inertia_ * (1 + 1e-9)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"distortion": "kl", "metric": "cosine"}, "exclude"),
        ({"distortion": "kl", "init": "global"}, "does not work with distortion='kl'"),
        ({"distortion": "kl", "algorithm": "hartigan"}, "does not work with distortion='kl'"),
        ({"metric": "cosine", "algorithm": "minibatch"}, "does not work with metric='cosine'"),
        ({"metric": "cosine", "init": "ls++"}, "does not work with metric='cosine'"),
    ],
    ids=str,
)
def test_choices_that_exclude_each_other(choice, words):
    with pytest.raises(ValueError, match=words):
        KMeans(3, **choice).fit(X)


@pytest.mark.parametrize("distortion", ["kl", "itakura-saito", "total-jensen"])
def test_rows_outside_the_domain(distortion):
    bad = X.copy()
    bad[7, 2] = -1.0
    with pytest.raises(ValueError, match="row 7, column 2"):
        KMeans(3, distortion=distortion).fit(bad)
    fitted = KMeans(3, distortion=distortion, random_state=0).fit(X)
    with pytest.raises(ValueError, match="row 7, column 2"):
        fitted.predict(bad)


def test_better_starts_are_better():
    """On touching groups, by mean cost over seeds: LS++ and global are at the top."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2000, 2)) + 6 * rng.integers(0, 5, size=(2000, 2))
    cost = {
        init: np.mean(
            [KMeans(25, init=init, n_init=1, random_state=s).fit(rows).inertia_ for s in range(8)]
        )
        for init in INITS
    }
    best = min(cost.values())
    assert cost["global"] <= 1.02 * best
    assert cost["ls++"] <= 1.02 * best
    assert cost["k-means++"] < cost["d2"] < cost["random"]


def test_functions_agree_with_the_estimator():
    nested = global_kmeans(X, 6)
    assert [s.n_clusters for s in nested] == [1, 2, 3, 4, 5, 6]
    model = KMeans(6, init="global", random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(nested[-1].inertia, rel=1e-3)
    assert model.inertia_ <= nested[-1].inertia * (1 + 1e-12)
    centers, indices = kmeans_parallel(X, 6, random_state=0)
    assert (X[indices] == centers).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"density": 3}, "density"),
        ({"probe": 3}, "probe"),
        ({"probe": lambda rows, t: rows[:-1]}, "shape"),
        ({"distortion": "kl", "probe": lambda rows, t: rows}, "distortion"),
    ],
    ids=["density", "probe", "rows of a probe", "distortion"],
)
def test_kvariates_says_what_is_wrong(options, words):
    with pytest.raises(ValueError, match=words):
        kvariates_plusplus(X, 3, **options)


def test_unequal_numbers_of_groups_and_batches():
    from kvariates import MiniBatches, Synopses, UniformOver

    with pytest.raises(ValueError, match="group labels"):
        kvariates_plusplus(X, 3, density=UniformOver([0, 1]))
    with pytest.raises(ValueError, match="batches"):
        kvariates_plusplus(X, 3, probe=MiniBatches([[0, 1], [2]]))
    with pytest.raises(ValueError, match="synopsis"):
        kvariates_plusplus(X, 3, probe=Synopses(X[:2], np.full(300, 2)))
