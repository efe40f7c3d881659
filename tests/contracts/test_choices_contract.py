"""Every init, algorithm, metric and distortion of KMeans keeps the estimator's contract."""

import copy
import pickle
import re

import numpy as np
import pytest
from api import DISTORTIONS, HOST_SEEDINGS, REFINEMENTS, HostData, objective_for
from contracts.choices import OF_OBJECTIVE, every_choice, positive_rows
from laws.cases import DTYPES, same_bits
from scipy import sparse
from sklearn.base import clone

import kvariates as kv
from kvariates import KMeans, kvariates_plusplus

X = positive_rows()
WEIGHTS = np.arange(300) % 4 + 0.5


@every_choice
def test_attributes(choice):
    for dtype in DTYPES:
        data = X.astype(dtype)
        model = KMeans(5, random_state=0, **choice)
        assert model.fit(data) is model
        assert model.cluster_centers_.shape == (5, 4)
        assert model.cluster_centers_.dtype == dtype
        assert model.cluster_centers_.flags.c_contiguous
        assert model.cluster_centers_.flags.writeable
        assert model.labels_.shape == (300,)
        assert model.labels_.dtype == model.predict(data).dtype == np.int32
        assert set(model.labels_) == set(range(5))
        assert isinstance(model.inertia_, float)
        assert isinstance(model.n_iter_, int)
        assert model.n_iter_ >= 1
        assert model.n_features_in_ == 4
        assert (model.guarantee_ is None) == isinstance(model.guarantee_lost_, str)


@every_choice
def test_methods_agree(choice):
    model = KMeans(5, random_state=3, **choice)
    fitted = clone(model).fit(X, sample_weight=WEIGHTS)
    assert np.array_equal(fitted.predict(X), fitted.labels_)
    assert -fitted.score(X, sample_weight=WEIGHTS) == pytest.approx(fitted.inertia_, rel=1e-9)
    distances = fitted.transform(X)
    own = distances[np.arange(300), fitted.labels_]
    assert (own <= distances.min(axis=1) * (1 + 1e-5) + 1e-6).all()
    assert np.array_equal(clone(model).fit_predict(X, sample_weight=WEIGHTS), fitted.labels_)
    assert np.array_equal(clone(model).fit_transform(X, sample_weight=WEIGHTS), distances)


@every_choice
def test_sparse_rows_are_fitted_or_refused(choice):
    csr = sparse.csr_array(X)
    parts = csr.data.copy(), csr.indices.copy(), csr.indptr.copy()
    model = KMeans(5, random_state=0, **choice)
    distortion = DISTORTIONS.get(choice.get("distortion"))
    if distortion is not None and not getattr(distortion.run, "takes_csr", False):
        with pytest.raises(ValueError, match="dense"):
            model.fit(csr)
        return
    assert np.array_equal(model.fit(csr).labels_, model.predict(csr))
    assert np.array_equal(model.predict(csr), model.predict(X))
    for before, after in zip(parts, (csr.data, csr.indices, csr.indptr), strict=True):
        assert np.array_equal(before, after)


@every_choice
def test_input_is_not_changed(choice):
    data, weights = X.copy(), WEIGHTS.copy()
    for copy_x in (True, False):
        KMeans(5, copy_x=copy_x, random_state=0, **choice).fit(data, sample_weight=weights)
        assert np.array_equal(data, X)
        assert np.array_equal(weights, WEIGHTS)


@every_choice
def test_the_same_seed_gives_the_same_fit(choice):
    for state in (lambda: 7, lambda: np.random.default_rng(1), lambda: np.random.RandomState(1)):
        fits = [KMeans(5, random_state=state(), **choice).fit(X) for _ in range(2)]
        assert same_bits(*fits)


@every_choice
def test_clone_copy_and_pickle(choice):
    model = KMeans(5, random_state=0, tol=1e-3, **choice).fit(X)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "labels_")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same_bits(model, other)
        assert np.array_equal(other.predict(X), model.labels_)


@every_choice
def test_fitting_again_forgets_the_first_fit(choice):
    model = KMeans(5, random_state=0, **choice).fit(X)
    model.set_params(n_clusters=3).fit(X[:, :2])
    assert model.n_features_in_ == 2
    assert same_bits(model, KMeans(3, random_state=0, **choice).fit(X[:, :2]))


@every_choice
def test_verbose_prints_and_changes_nothing(choice, capsys):
    model = KMeans(5, random_state=0, n_init=2, verbose=1, tol=0, **choice).fit(X)
    assert capsys.readouterr().out.count("Initialization complete") == 2
    assert same_bits(model, KMeans(5, random_state=0, n_init=2, tol=0, **choice).fit(X))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("objective", OF_OBJECTIVE, ids=str)
def test_every_pair_of_choices_is_fitted_or_refused(objective):
    """A refusal names the choices that work."""
    ((parameter, value),) = objective.items()
    given = {"metric": "euclidean", "distortion": None, **objective}
    offers = objective_for(**given, X=X, weight=None).offers
    for table in (HOST_SEEDINGS, REFINEMENTS):
        works = table.offered(offers | HostData.offers)
        for name in table:
            model = KMeans(4, random_state=1, max_iter=5, **objective, **{table.parameter: name})
            if name in works:
                given = KMeans(4, init=model.fit(X).cluster_centers_, n_init=1, **objective).fit(X)
                assert given.inertia_ <= model.inertia_ * (1 + 1e-9)
            else:
                words = (
                    f"{table.parameter}={name!r} does not work with {parameter}={value!r}; "
                    f"use one of {sorted(works)}."
                )
                with pytest.raises(ValueError, match=re.escape(words)):
                    model.fit(X)


def test_metric_and_distortion_exclude_each_other():
    for name in DISTORTIONS:
        with pytest.raises(ValueError, match="exclude each other"):
            KMeans(3, metric="cosine", distortion=name).fit(X)


def test_rows_outside_the_domain_are_refused():
    """By fit and predict alike, naming the first wrong value."""
    bad, refused = X.copy(), 0
    bad[7, 2] = -1.0
    for name, entry in DISTORTIONS.items():
        try:
            entry.run.check(bad)
        except ValueError:
            refused += 1
            with pytest.raises(ValueError, match="row 7, column 2"):
                KMeans(3, distortion=name).fit(bad)
            with pytest.raises(ValueError, match="row 7, column 2"):
                KMeans(3, distortion=name, random_state=0).fit(X).predict(bad)
        else:
            KMeans(3, distortion=name, random_state=0).fit(bad).predict(bad)
    assert refused >= 3


def test_ls_and_global_seeding_have_the_lowest_cost():
    """On touching groups, by the mean cost over seeds."""
    rng = np.random.default_rng(2)
    data = rng.normal(size=(2000, 2)) + 6 * rng.integers(0, 5, size=(2000, 2))
    cost = {
        init: np.mean(
            [KMeans(25, init=init, n_init=1, random_state=s).fit(data).inertia_ for s in range(8)]
        )
        for init in HOST_SEEDINGS
    }
    best = min(cost.values())
    assert cost["global"] <= 1.02 * best
    assert cost["ls++"] <= 1.02 * best
    assert max(cost["k-means++"], cost["k-means||"]) < cost["d2"] < cost["random"]


def test_functions_agree_with_the_estimator():
    nested = kv.global_kmeans(X, 6)
    assert [s.n_clusters for s in nested] == [1, 2, 3, 4, 5, 6]
    model = KMeans(6, init="global", random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(nested[-1].inertia, rel=1e-3)
    assert model.inertia_ <= nested[-1].inertia * (1 + 1e-12)
    centers, indices = kv.kmeans_parallel(X, 6, random_state=0)
    assert (X[indices] == centers).all()


def test_kvariates_says_what_is_wrong():
    wrong = [
        ({"density": 3}, "density"),
        ({"probe": 3}, "probe"),
        ({"probe": lambda rows, t: rows[:-1]}, "shape"),
        ({"distortion": "kl", "probe": lambda rows, t: rows}, "distortion"),
        ({"density": kv.UniformOver([0, 1])}, "group labels"),
        ({"probe": kv.MiniBatches([[0, 1], [2]])}, "batches"),
        ({"probe": kv.Synopses(X[:2], np.full(300, 2))}, "synopsis"),
    ]
    for options, words in wrong:
        with pytest.raises(ValueError, match=words):
            kvariates_plusplus(X, 3, **options)
