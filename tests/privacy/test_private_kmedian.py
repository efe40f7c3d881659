"""PrivateKMedian: ledgers and results; and the estimate of the demand by cells."""

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from api import (
    CHANCE,
    PRIVATE_KMEDIAN_METHODS,
    DemandCells,
    DemandHst,
    DemandLocalSearch,
    Ledger,
    Secret,
    nearest_counts,
    run_method,
)
from api import demand_counts_module as demand_counts
from privacy.demands import FREE, asked, spaces, task_of
from privacy.exact_noise import both_adjacencies
from scipy import sparse
from scipy.stats import binom
from sklearn.base import clone

from kvariates import KMedian, PrivateKMedian
from kvariates.privacy import Budget

RNG = np.random.default_rng(2)
SPACES = spaces(RNG)
X = RNG.normal(size=(60, 2)) + 9 * RNG.integers(0, 3, size=(60, 1))
DEMAND = RNG.integers(0, 60, size=900)
ROADS = sparse.csr_array(SPACES["graph"].csr)
METHODS = {name: e.run for name, e in PRIVATE_KMEDIAN_METHODS.items() if name != "auto"}
METHODS |= {"on k-median++": DemandLocalSearch(3, "k-median++"), "seeds": DemandHst(n_swaps=0)}
every_method = pytest.mark.parametrize("name", METHODS)


def fit(*args, X=X, demand=DEMAND, epsilon=2.0, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The noise of|The budget may|epsilon=")
        return PrivateKMedian(*args, epsilon=epsilon, **options).fit(X, demand=demand)


# ---- the ledger ----


@every_method
@both_adjacencies
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_ledger_equals_the_claim(name, adjacency, delta):
    for space, k, size in (("graph", 3, 1), ("float32", 7, 60), ("matrix", 40, 9)):
        space = "euclidean" if name == "candidates" else space
        demand = RNG.integers(0, 40, size=size)
        task = task_of(SPACES[space], demand, k, adjacency, epsilon=0.37, delta=delta)
        result = run_method(METHODS[name], task)
        total = Ledger(adjacency, result.charges, task.loss).total()  # raises if above
        assert total.epsilon == pytest.approx(0.37, rel=1e-9)
        assert total.delta == delta
        assert len(set(result.centers.tolist())) == k
        assert result.counts.values.shape == (k,)
        assert (result.counts.values >= 0).all()


@pytest.mark.parametrize(
    "name", sorted(METHODS.keys() - {"candidates"})
)  # its charges follow releases
def test_charges_do_not_depend_on_the_demand(name):
    one, two = (
        run_method(METHODS[name], task_of(SPACES["matrix"], demand, 3)).charges
        for demand in ([], np.full(500, 7))
    )
    assert one == two


def test_theory_uses_the_papers_numbers():
    model = fit(2, method="hst", theory=True)
    labels = [charge.label for charge in model.ledger_.charges]
    assert sum(label.startswith("swap") for label in labels) == 3  # 2 ln ln 60 = 2.8
    model = fit(1, method="local-search", theory=True)
    assert sum(c.label.startswith("swap") for c in model.ledger_.charges) == 25  # 6 ln 60 = 24.6
    with pytest.raises(ValueError, match="needs a method of a paper"):
        fit(2, theory=True)


def number_of_swaps(**options):
    charges = fit(2, **options).ledger_.charges
    return sum(charge.label.startswith("swap") for charge in charges)


@pytest.mark.parametrize("method", ["hst", "local-search"])
def test_n_swaps_is_the_number_of_swaps(method):
    assert number_of_swaps(method=method) == 20
    assert number_of_swaps(method=method, n_swaps=7) == 7
    assert number_of_swaps(method=method, n_swaps=4, theory=True) == 4
    both = PrivateKMedian(2, epsilon=1.0, method=method, n_swaps=4, theory=True)
    assert both._method(60) == replace(METHODS[method].with_theory(60, 2), n_swaps=4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": DemandHst(), "n_swaps": 5}, "n_swaps=5 goes with the name of a method; Demand"),
        ({"method": DemandHst(), "theory": True}, "theory=True goes with the name of a method"),
        ({"method": "cells", "n_swaps": 5}, "is for 'hst' and 'local-search'"),
        ({"n_swaps": 5}, r"give method=DemandCandidates\(swaps"),
        ({"method": "cells", "n_swaps": 5, "theory": True}, "needs a method of a paper"),
    ],
    ids=str,
)
def test_numbers_that_would_be_ignored_raise_and_spend_nothing(options, words):
    budget = Budget(5.0)
    with pytest.raises(ValueError, match=words) as refused:
        fit(2, budget=budget, **options)
    assert "\n" not in str(refused.value)
    assert budget.left.epsilon == 5.0


def test_a_report_names_the_fields_that_are_not_default():
    model = fit(2, method=DemandHst(levels=3, n_swaps=2))
    assert model.ledger_.facts.method == "PrivateKMedian, DemandHst(levels=3, n_swaps=2)"


# ---- cells ----


def test_cells_find_what_the_exact_demand_gives():
    model = fit(3, epsilon=1e5)
    exact = KMedian(3, random_state=0).fit(X, demand=np.bincount(DEMAND, minlength=60) * 1.0)
    assert sorted(model.medoid_indices_) == sorted(exact.medoid_indices_)
    np.testing.assert_allclose(
        np.sort(model.cluster_counts_), np.sort(np.bincount(exact.labels_[DEMAND])), rtol=0.05
    )


@pytest.mark.parametrize("name", SPACES)
def test_the_estimate_has_the_counts_of_the_cells(name):
    demand = RNG.integers(0, 40, size=200)
    task = task_of(SPACES[name], demand, 3)
    before = RNG.random(40) * (RNG.random(40) < 0.5)
    counted = demand_counts._count(task, np.ones(40), 6, "round 1", FREE)
    exact = np.bincount(counted.cells[demand], minlength=6)
    np.testing.assert_array_equal(counted.noisy.value, exact)
    estimate = counted.estimate(before)
    np.testing.assert_allclose(np.bincount(counted.cells, estimate, minlength=6), exact)
    for cell in range(6):
        own = counted.cells == cell
        if before[own].any():
            np.testing.assert_allclose(
                estimate[own] * before[own].sum(), before[own] * exact[cell], atol=1e-9
            )


def test_a_neighbour_moves_the_counts_of_cells_by_one():
    """The cells of the first round are public."""
    demand = RNG.integers(0, 40, size=30)
    here, there = (
        asked(lambda d=d: DemandCells(first=5)(task_of(SPACES["graph"], d)))[0].values
        for d in (demand, np.append(demand, 11))
    )
    assert len(here) == 5
    assert np.abs(here - there).sum() == 1


def test_nearest_counts():
    for size in (1, 2, 30):
        noisy = RNG.normal(size=size) * 10 + 1
        found = nearest_counts(noisy)
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(max(noisy.sum(), 1.0))
        shift = noisy - found  # the same for all that stay positive, and less for the others
        assert np.ptp(shift[found > 0]) < 1e-9
        assert (shift[found == 0] <= shift[found > 0].max() + 1e-9).all()


def test_cells_cost_less_than_the_papers_methods():
    """By far, on a demand of two of three groups: so a few runs tell."""
    far = np.flatnonzero(X[:, 0] < 12)
    demand = RNG.choice(far, 400)
    D = np.linalg.norm(X[:, None] - X[demand], axis=2)

    def cost(**options):
        runs = [fit(4, demand=demand, epsilon=1.0, **options) for _ in range(8)]
        return np.mean([D[run.medoid_indices_].min(axis=0).sum() for run in runs])

    ours = cost()
    for method in ("hst", "local-search"):
        assert ours < cost(method=method)


# ---- the estimator ----


@pytest.mark.parametrize("method", PRIVATE_KMEDIAN_METHODS)
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "precomputed", "graph"])
def test_any_metric(method, metric):
    points = {"precomputed": SPACES["matrix"].D, "graph": ROADS}.get(metric, X)
    if method == "candidates" and metric != "euclidean":
        budget = Budget(9.0)
        with pytest.raises(ValueError, match=r"needs rows and metric='euclidean'; .*'cells'"):
            fit(3, X=points, demand=DEMAND % 40, metric=metric, method=method, budget=budget)
        assert budget.left.epsilon == 9.0
        return
    model = fit(3, X=points, demand=DEMAND % 40, metric=metric, method=method)
    labels = model.predict({"graph": np.arange(40)}.get(metric, points))
    assert labels.shape == (points.shape[0],)
    np.testing.assert_array_equal(labels[model.medoid_indices_], np.arange(3))
    assert hasattr(model, "cluster_centers_") == (points is X)
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "inertia_")
    if metric != "graph":
        assert model.transform(points).shape == (len(points), 3)


def test_words_under_a_callable():
    words = ["a", "ab", "abc", "x", "xy", "xyz", "m"] * 5
    model = fit(3, X=words, demand=[0, 1, 1, 2, 3, 30], metric=lambda a, b: abs(len(a) - len(b)))
    assert len(model.cluster_centers_) == 3
    assert set(model.cluster_centers_) <= set(words)


def test_what_a_model_stores():
    for size in (0, 50_000):
        model = fit(3, demand=np.resize(DEMAND, size))
        assert set(vars(model)) - set(model.get_params(deep=False)) == {
            "medoid_indices_", "cluster_centers_", "cluster_counts_", "ledger_", "condition_",
            "n_features_in_", "_nearest", "notes_", "doubtful_", "center_errors_",
            "center_errors_about_",
        }  # fmt: skip
        assert len(pickle.dumps(model)) < 5000
        assert not any(isinstance(value, Secret) for value in vars(model).values())
    report = model.ledger_.report()
    assert "one entry of the demand" in report
    assert "60 public points, metric euclidean" in report


def test_a_fit_of_few_entries_says_which_medoids_may_be_only_noise():
    with pytest.warns(UserWarning, match="of 20 medoids may be only noise") as told:
        model = PrivateKMedian(20, epsilon=0.1).fit(X, demand=DEMAND[:3])
    assert str(told[0].message) == " ".join(model.notes_)
    many = re.search("([0-9]+) of 20 medoids", model.notes_[-1])[1]
    assert model.doubtful_.sum() == int(many)
    assert "(entries of the demand that cannot be read give no message)" in model.notes_[-1]
    assert model.notes_[-1] in " ".join(model.ledger_.report().replace("  - ", "").split())
    crowd = fit(2, demand=np.resize(DEMAND, 50_000), epsilon=4.0)
    assert crowd.notes_ == ()
    assert not crowd.doubtful_.any()
    assert crowd.center_errors_ is None


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("name", ["cells", "hst", "local-search", "candidates"])
def test_without_demand_all_medoids_are_doubtful_in_98_of_100_fits(name, k):
    """A test of this law fails by chance once in 1e6 times."""
    nobody, runs = np.empty(0, dtype=np.int64), 400
    clear = sum(not fit(k, demand=nobody, method=name).doubtful_.all() for _ in range(runs))
    assert clear <= binom.isf(1e-6, runs, CHANCE)


def test_clone_and_parameters():
    model = PrivateKMedian(5, epsilon=1.0, method=DemandHst(levels=3), metric="manhattan")
    assert clone(model).get_params() == model.get_params()
    assert model.fit_predict(X, demand=DEMAND).shape == (60,)
    assert "medoid_indices_" not in vars(clone(model))


def test_public_draws_can_be_seeded_and_noise_cannot():
    def first_query(seed):
        options = {"method": "hst", "random_state": seed, "adjacency": "replace-one"}
        return asked(lambda: fit(3, **options))[0].values.tolist()

    assert first_query(1) == first_query(1) != first_query(2)
    counts = [fit(3, method="hst", random_state=1).cluster_counts_.tolist() for _ in range(4)]
    assert len({tuple(c) for c in counts}) > 1
