"""PrivateKMedian: what is spent before the demand is read, and bad input."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from api import PRIVATE_KMEDIAN_METHODS, DemandCells, DemandHst, DemandLocalSearch, checked_demand
from privacy.exact_noise import both_adjacencies
from privacy.test_private_kmedian import DEMAND, X, fit

from kvariates import PrivateKMedian
from kvariates.privacy import Budget, BudgetError

# ---- the budget ----


class Unread(list):
    """A list that must not be read."""

    def __getitem__(self, index):
        raise AssertionError

    __iter__ = __contains__ = __getitem__


def test_the_budget_is_spent_before_the_demand_is_read():
    budget = Budget(1.0)
    fit(3, epsilon=0.6, budget=budget)
    with pytest.raises(BudgetError, match="what is left"):
        PrivateKMedian(3, epsilon=0.6, budget=budget).fit(X, demand=Unread([10**9]))
    with pytest.raises(ValueError, match="n_samples=60 should be"):
        fit(99, epsilon=0.4, budget=budget)  # a wrong parameter costs nothing
    for wrong in (5, {1, 2}, "abc", None):
        with pytest.raises(ValueError, match="demand"):
            fit(3, epsilon=0.4, budget=budget, demand=wrong)
    assert budget.left.epsilon == 0.4
    with pytest.raises(ValueError, match="no point of X"):
        fit(3, epsilon=0.4, budget=budget, demand=[60], missing="error")
    assert budget.left.epsilon == 0
    with pytest.raises(BudgetError, match="replace-one neighbours, the budget for add-remove"):
        fit(3, adjacency="replace-one", budget=Budget(9.0))


# ---- bad input ----


@pytest.mark.parametrize("bad", [np.nan, -1.0, None, "raise"])
def test_a_pair_without_a_distance_does_not_disclose_that_it_is_in_the_demand(bad):
    """Of more than 1,024 points not all pairs are tried before the budget is spent."""

    def metric(a, b):
        if {a, b} != {7, 9}:
            return abs(a - b)
        if bad == "raise":
            raise ZeroDivisionError
        return bad

    far = list(range(100, 1500))  # medoids are here: the distances from these are not private
    for demand in (far, [*far, 9]):
        model = fit(
            2, X=list(range(1500)), demand=demand, metric=metric, method="local-search",
            random_state=0,
        )  # fmt: skip
        assert not {7, 9} & set(model.medoid_indices_)


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (None, "needs demand"),
        (5, "must be a list or an array"),
        ({1, 2}, "with repeats"),
        (np.ones(60, dtype=complex), "must be numbers of points.*got complex128"),
        (np.ones(60, dtype=bool), "got bool"),
        ("abc", "got str"),
        (np.zeros((3, 3), dtype=int), "one dimension; it has 2"),
    ],
)
def test_bad_demand(demand, words):
    with pytest.raises(ValueError, match=words) as error:
        fit(3, demand=demand)
    assert "\n" not in str(error.value)


ODD = [60, -1, None, 1.5, "a", True, 10**30, [1, 2]]


@both_adjacencies
def test_entries_that_are_no_points_are_left_out_one_by_one(adjacency):
    """A fit that fails at one of them would disclose it."""
    good = DEMAND.tolist()
    kept = np.array(good if adjacency == "add-remove" else [*good, *[0] * len(ODD)])
    found = checked_demand([*good, *ODD], 60, adjacency, "drop")
    assert np.array_equal(found, kept)
    array = checked_demand(np.array([*good, 60, -1]), 60, adjacency, "drop")
    assert len(array) == len(good) + 2 * (adjacency == "replace-one")
    model = fit(3, demand=[*good, *ODD], adjacency=adjacency)
    assert model.condition_ is None
    for odd in ODD:
        with pytest.raises(ValueError, match="no point of X: they have numbers 0 to 59"):
            fit(3, demand=[*good, odd], adjacency=adjacency, missing="error")
    model = fit(3, adjacency=adjacency, missing="error")
    assert model.condition_ in model.ledger_.report().replace("\n  ", " ")


@pytest.mark.parametrize(
    ("column", "odd"),
    [
        (list, None), (list, pd.NaT), (np.array, np.nan), (np.array, 1.5), (pd.Series, None),
        (pd.Series, pd.NA), (pl.Series, None), (pa.array, None),
        (lambda entries: pd.Series(entries, dtype="Int64"), pd.NA),
    ],
)  # fmt: skip
def test_one_odd_entry_does_not_change_how_the_others_are_read(column, odd):
    """It makes floats or objects of all entries of most columns, or of a list of floats."""
    good = DEMAND.tolist()
    counts = [
        fit(3, epsilon=1e5, demand=column(demand)).cluster_counts_.sum()
        for demand in (good, [*good, odd])
    ]
    assert counts == [len(good)] * 2


@pytest.mark.parametrize("method", PRIVATE_KMEDIAN_METHODS)
def test_points_at_the_same_place(method):
    model = fit(3, X=np.ones((30, 2)), demand=DEMAND % 30, method=method)
    assert len(np.unique(model.medoid_indices_)) == 3


def test_an_empty_demand():
    """Noise alone is taken for demand in about one fit in 20,000: two of two, in 4e8."""
    with pytest.warns(UserWarning, match="close to a public one"):
        _ = [PrivateKMedian(3, epsilon=1.0).fit(X, demand=[]) for _ in range(2)]
    with pytest.raises(ValueError, match="demand is empty"):
        PrivateKMedian(3, epsilon=1.0, adjacency="replace-one").fit(X, demand=[])


@pytest.mark.parametrize("method", PRIVATE_KMEDIAN_METHODS)
def test_a_budget_that_is_too_small_is_said_in_words(method):
    """The size of the demand is noisy: about one fit in 60 takes it for large enough."""
    model = PrivateKMedian(3, epsilon=0.001, method=method)
    with pytest.warns(UserWarning, match="The (noise of|budget may) .* larger epsilon"):
        _ = [model.fit(X, demand=DEMAND) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "epsilon=")
        PrivateKMedian(3, epsilon=100.0, method=method).fit(X, demand=DEMAND)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-9}, "epsilon must be"),
        ({"method": "wrong"}, "'local-search'"),
        ({"diameter": 0.0}, "diameter"),
        ({"n_swaps": 0}, "n_swaps"),
        ({"metric": "precomputed"}, "square matrix"),
    ],
)
def test_bad_parameters(options, words):
    with pytest.raises(ValueError, match=words):
        fit(3, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DemandHst(levels=0), "levels must be an integer >= 1"),
        (lambda: DemandHst(decay=0.0), "decay must be a number above 0"),
        (lambda: DemandLocalSearch(0), "n_swaps must be an integer >= 1"),
        (lambda: DemandLocalSearch(start="x"), "start must be one of"),
        (lambda: DemandCells(first=0), "first must be"),
        (lambda: DemandCells(second_share=1.0), "second_share must be"),
    ],
)
def test_bad_choices(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_class_is_no_method():
    with pytest.raises(TypeError, match=r"give DemandHst\(...\)"):
        fit(3, method=DemandHst)


@pytest.mark.parametrize("kind", ["i8", "u1", object])
def test_masked_entries_are_left_out(kind):
    """One masked entry of unsigned integers is no error: the others would not be one."""
    for mask, expected in (([0, 0, 0], [1, 2, 3]), ([0, 1, 0], [1, 3])):
        demand = np.ma.masked_array(np.array([1, 2, 3], dtype=kind), mask=mask)
        assert checked_demand(demand, 9, "add-remove", "drop").tolist() == expected


MANY = [0, 1, 2] * 200


@pytest.mark.parametrize(
    "demand",
    [pd.Series(MANY, dtype="Int64"), pl.Series(MANY), pd.array(MANY, "Int64")],
    ids=["pandas", "polars", "array"],
)
def test_a_demand_may_be_a_column_of_a_frame(demand):
    X = np.arange(8.0).reshape(4, 2)
    assert len(PrivateKMedian(2, epsilon=3.0).fit(X, demand=demand).medoid_indices_) == 2
