"""PrivateKMeans: parameters, a shared budget, prediction, conditions, public names."""

import copy
import io
import pickle
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from api import (
    Budget,
    BudgetError,
    Candidates,
    Domain,
    GridMethod,
    Gupt,
    Loss,
    NoisyLloyd,
    PrivateMethod,
    SampleAggregate,
    Traits,
    without_missing,
)
from privacy.method_cases import watch_releases
from privacy.private_models import X, make_model
from scipy import sparse

from kvariates import PrivateKMeans, PrivateKMedian

# ---- parameters ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"method": "magic"}, "method"),
        ({"bounds": None}, "Do not compute them from the data.*reveal.*range"),
        ({"bounds": (1.0, -1.0)}, "low < high"),
        ({"bounds": ([0, 0], [1, 0])}, "low < high"),
        ({"bounds": (0.0, np.inf)}, "finite"),
        ({"bounds": (np.nan, 1.0)}, "finite"),
        ({"bounds": (0.0, 1e200)}, "rescale"),
        ({"bounds": 3.0}, "pair"),
        ({"bounds": (1, 2, 3)}, "pair"),
        ({"bounds": ("a", "b")}, "number"),
        ({"bounds": ([0, 0], [1, 1, 1])}, "2 low ends and 3"),
        ({"bounds": ([0, 0, 0], [1, 1, 1])}, "3 features, but X has 2"),
        ({"radius": 1.0}, "either"),
        ({"center": [0, 0]}, "either"),
        ({"bounds": None, "radius": 0.0}, "radius"),
        ({"bounds": None, "radius": np.inf}, "radius"),
        ({"bounds": None, "radius": "wide"}, "radius"),
        ({"bounds": None, "radius": True}, "radius"),
        ({"bounds": None, "radius": 1e-200}, "rescale"),
        ({"bounds": None, "radius": 1.0, "center": [0, 0, 0]}, "3 features, but X has 2"),
        ({"bounds": None, "radius": 1.0, "center": [np.nan, 0]}, "finite"),
        ({"bounds": None, "center": [0.0, 0.0]}, "Do not compute them from the data"),
        ({"budget": 1.0}, "budget"),
        ({"method": "kvariates-conditional"}, "delta_w"),
    ],
    ids=str,
)
def test_bad_parameters_raise_and_spend_nothing(options, message):
    budget = Budget(5.0, 0.5)
    with pytest.raises(ValueError, match=message) as refused:
        make_model(**{"budget": budget, **options}).fit(X)
    assert "\n" not in str(refused.value)
    assert budget.spent == Loss(0.0, 0.0)


def test_bounds_by_the_names_of_columns():
    """In the order of X, whatever the order of the names; also if two pairs could be read twice."""
    frame = pd.DataFrame({"b": np.full(5000, 15.0), "a": np.full(5000, 2.0)})
    bounds = {"a": (0.0, 10.0), "b": (5.0, 20.0)}
    for named in (bounds, dict(reversed(bounds.items()))):
        model = PrivateKMeans(1, epsilon=5.0, bounds=named, method="lloyd").fit(frame)
        np.testing.assert_allclose(model.cluster_centers_, [[15.0, 2.0]], atol=1.0)
    assert "b 5 to 20, a 0 to 10" in model.ledger_.report()


@pytest.mark.parametrize(
    ("bounds", "line"),
    [
        ({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, "bounds: X has no column 'c'."),
        ({"a": (0, 1)}, "bounds: there are none for 'b'."),
        ({"a": (0, 1), "b": 3}, "bounds of column 'b' must be a pair (low, high)."),
        ({"a": (0, 1), "b": (1, 0)}, "bounds must have low < high, for every feature"),
        ({"a": (0, 1), "b": ("x", 0)}, "bounds' low end must be a number"),
        ({}, "bounds: there are none for 'a', 'b'."),
    ],
)
def test_bad_bounds_by_name_cost_nothing(bounds, line):
    budget, frame = Budget(1.0), pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match=re.escape(line)) as refused:
        make_model(bounds=bounds, budget=budget).fit(frame)
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="need an X with names of columns, such as a DataFrame"):
        make_model(bounds=bounds, budget=budget).fit(X)
    assert budget.left == Loss(1.0, 0.0)


def test_bad_choices_of_methods_raise():
    bad = [(NoisyLloyd, 0), (GridMethod, 0.0), (Gupt, 1.5), (SampleAggregate, -1)]
    for method, value in bad:
        with pytest.raises(ValueError, match="must be"):
            method(value)
    with pytest.raises(TypeError, match="give NoisyLloyd"):
        make_model(method=NoisyLloyd).fit(X)


def test_centers_are_inside_a_ball_with_a_center():
    rows = np.random.default_rng(0).normal([50.0, -20.0], size=(2000, 2))
    model = PrivateKMeans(2, epsilon=5.0, radius=4.0, center=[50, -20], method="lloyd").fit(rows)
    assert (np.linalg.norm(model.cluster_centers_ - [50.0, -20.0], axis=1) <= 4 + 1e-9).all()


# ---- a shared budget ----


class Unreadable:
    """Data that raise when they are read."""

    def __array__(self, *_, **__):
        raise AssertionError("was read")

    __len__ = __iter__ = __getitem__ = __array__


def test_a_fit_above_the_budget_does_not_read_the_data():
    budget = Budget(2.5)
    for _ in range(2):
        make_model(budget=budget).fit(X)
    assert budget.left == Loss(0.5, 0.0)
    with pytest.raises(BudgetError, match=r"what is left is epsilon = 0\.5"):
        make_model(budget=budget).fit(Unreadable())
    assert budget.left == Loss(0.5, 0.0)
    make_model(budget=budget, epsilon=0.5).fit(X)
    with pytest.raises(BudgetError):
        make_model(budget=Budget(9.0), delta=1e-6).fit(Unreadable())
    assert [line.loss.epsilon for line in budget.lines] == [1.0, 1.0, 0.5]


@pytest.mark.parametrize(
    "rows", [None, sparse.csr_array(X), X[:, 0], X.astype(complex), "text", {"a": X}]
)
def test_input_of_a_wrong_kind_costs_nothing(rows):
    budget = Budget(1.0)
    with pytest.raises((TypeError, ValueError)):
        make_model(budget=budget).fit(rows)
    assert budget.left == Loss(1.0, 0.0)


@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, list, tuple, pd.DataFrame])
def test_the_number_of_features_is_looked_at_before_spending(kind):
    budget, rows = Budget(2.0), kind(X)
    for options, words in (
        ({"method": Candidates(dimension=3)}, "dimension=3 is above the number of features, 2"),
        ({"bounds": ([0] * 3, [1] * 3)}, "given for 3 features, but X has 2"),
    ):
        with pytest.raises(ValueError, match=words):
            make_model(budget=budget, **options).fit(rows)
    assert budget.left == Loss(2.0, 0.0)
    make_model(budget=budget, method=Candidates(dimension=2)).fit(rows)
    assert budget.left == Loss(1.0, 0.0)


@pytest.mark.parametrize("rows", [["text"], [1.0, 2.0], [{"a": 1}], [[1.0], [1.0, 2.0]]])
def test_a_list_that_is_no_table_fails_after_spending(rows):
    budget = Budget(1.0)
    with pytest.raises((TypeError, ValueError)) as refused:
        make_model(budget=budget).fit(rows)
    assert "text" not in str(refused.value)
    assert budget.left == Loss(0.0, 0.0)


def test_an_empty_list_raises_before_spending():
    budget = Budget(1.0)
    with pytest.raises(ValueError, match=r"array of shape \(0, d\)"):
        make_model(budget=budget).fit([])
    assert budget.left == Loss(1.0, 0.0)


def test_a_model_is_stored_if_its_warning_is_an_error():
    model = make_model(epsilon=0.001, method=Candidates())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The budget may be too small")
        with pytest.raises(UserWarning, match="too small"):
            model.fit(np.zeros((9, 2)))
    assert model.ledger_.total().epsilon == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("tree", "PrivateKMeans, tree,"),
        (NoisyLloyd(), "PrivateKMeans, NoisyLloyd(),"),
        (NoisyLloyd(steps=3), "PrivateKMeans, NoisyLloyd(steps=3),"),
        (Candidates(swaps=1, start="uniform"), "Candidates(start='uniform', swaps=1),"),
        (GridMethod(), "PrivateKMeans, GridMethod(),"),
    ],
)
def test_a_report_names_the_fields_that_are_not_default(method, words):
    ledger = make_model(method=method).fit(X).ledger_
    assert words.rstrip(",") in ledger.facts.method
    assert f"{words} 3 clusters" in ledger.report()


def test_three_tenths_are_enough_for_three_fits():
    budget = Budget(0.3)
    for _ in range(3):
        model = make_model(budget=budget, epsilon=0.1).fit(X)
        assert Fraction(model.ledger_.total().epsilon) <= Fraction(1, 10)
    assert budget.left == Loss(0.0, 0.0)


def test_fits_share_a_budget_in_zcdp():
    """A method that is always pure costs epsilon^2 / 2, also with delta > 0."""
    budget = Budget(3.0, 1e-6, accountant="zcdp")
    for method in ("lloyd", "kvariates", "tree"):
        model = make_model(method, budget=budget, epsilon=0.5, delta=1e-6).fit(X)
        rho = budget.lines[-1].rho
        spent = sum(charge.exact(concentrated=True) for charge in model.ledger_.charges)
        assert spent <= Fraction(rho), method
    assert budget.lines[1].rho == 0.125
    assert budget.lines[0].rho == budget.lines[2].rho < 0.01


def test_traps_warn_or_raise():
    with pytest.warns(UserWarning, match="epsilon=5.1 protects little.*Usual values are 0.1 to 3"):
        make_model(epsilon=5.1).fit(X)
    make_model(epsilon=5.0).fit(X)  # no warning
    with pytest.warns(UserWarning, match=r"delta=0.1 is large"):
        make_model(delta=0.1).fit(X)
    with pytest.warns(UserWarning, match="feature 1 from -9 to 49.5"):
        make_model(bounds=[(-9, 2.5), (49.5, 61)]).fit(X)
    with pytest.raises(ValueError, match=r"bounds=\(\[0, -9\], \[5, 2.5\]\)"):
        make_model(bounds=[(0, 5), (-9, 2.5)]).fit(X)
    for epsilon in (5e-324, 1e-20, 1e12):
        with pytest.raises(ValueError, match=r"1e-06 to 1e.06"):
            make_model(epsilon=epsilon).fit(X)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_rows_with_missing_values_are_dropped_or_moved_one_by_one(adjacency):
    rows, kept = np.vstack([X, [[np.nan, 0.1]], [[0.2, np.inf]]]), X
    if adjacency == "replace-one":  # the number of rows is public and must stay
        kept = np.vstack([X, np.zeros((2, 2))])
    assert np.array_equal(without_missing(rows, adjacency, np.zeros(2)), kept)
    model = make_model(adjacency=adjacency).fit(rows)
    assert model.condition_ is None
    model = make_model(adjacency=adjacency, missing="error").fit(X)
    assert "missing" in model.condition_
    with pytest.raises(ValueError, match="NaN or infinity"):
        make_model(adjacency=adjacency, missing="error").fit(rows)


TABLES = {
    "list": list,
    "array": lambda rows: np.array(rows, dtype=object),
    "pandas": lambda rows: pd.DataFrame(rows, columns=["east", "north"]),
    "pandas Int64": lambda rows: TABLES["pandas"](rows).convert_dtypes(),
    "polars": lambda rows: pl.DataFrame(TABLES["array"](rows), schema=["east", "north"]),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("odd", [None, pd.NA, pd.NaT, np.nan, Decimal("sNaN")], ids=repr)
def test_one_missing_cell_does_not_decide_whether_a_fit_fails(kind, odd):
    """Neighbours: the same rows, and one row more that has a missing cell."""
    rows = np.rint(X).astype(int).tolist()
    models = []
    for table in (rows, [*rows, [odd, 1]]):
        with pytest.warns(UserWarning, match="protects little"):
            models.append(make_model(epsilon=1e5).fit(TABLES[kind](table)))
    assert [model.cluster_counts_.sum() for model in models] == [len(rows)] * 2
    if kind.startswith("p"):
        assert [list(model.feature_names_in_) for model in models] == [["east", "north"]] * 2


def test_the_report_says_what_an_officer_asks():
    model = make_model(delta=1e-6).fit(X)
    report = model.ledger_.report()
    for words in (
        "rows are in  -1 to 1 in each of 2 features",
        "3 clusters",
        "one row",
        "rho =",
        "kvariates 0.1.0",
        "What is not promised",
        "time",
        "What may be published",
        "add-remove",
    ):
        assert words in report, words
    other = make_model("kvariates-conditional").fit(X).ledger_.report()
    assert "Only if: conditional" in " ".join(other.split())
    assert max(map(len, report.splitlines())) <= 110


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([0, 0], [120, 200], "x0 0 to 120, x1 0 to 200"),
        ([-1.5] * 3, [2] * 3, "-1.5 to 2 in each of 3 features"),
        ([0], [9], "x0 0 to 9"),
        (range(9), [20] * 9, ", ".join(f"x{j} {j} to 20" for j in range(8)) + ", ..."),
    ],
)
def test_the_bounds_in_words(low, high, words):
    assert Domain.box(np.array(low, dtype=float), np.array(high, dtype=float)).words() == words


def test_cluster_counts_are_near_the_truth():
    rows = np.repeat([[-0.8, -0.8], [0.8, 0.8], [0.8, -0.8]], [3000, 2000, 1000], axis=0)
    for method in ("tree", "grid", "gupt"):
        for delta in (0.0, 1e-6):
            model = make_model(method, epsilon=5.0, delta=delta).fit(rows)
            exact = np.bincount(model.predict(rows), minlength=3)
            assert np.abs(model.cluster_counts_ - exact).max() < 400, (method, delta)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_counts_of_lloyd_are_the_means_of_its_later_steps(delta):
    """Exactly, of what was released: it need not have converged."""
    values = {}
    with watch_releases(values):
        model = make_model("lloyd", delta=delta).fit(X)  # five steps
    counts = [value for label, value in values.items() if "rows of each" in label]
    assert len(counts) == 5
    expected = np.maximum(np.mean(counts[2:], axis=0), 0.0)
    np.testing.assert_array_equal(model.cluster_counts_, expected)


def test_the_budget_is_spent_before_data_are_read():
    budget = Budget(1.0)
    with pytest.raises(AssertionError, match="was read"):
        make_model(budget=budget).fit(Unreadable())
    assert budget.left == Loss(0.0, 0.0)


def test_an_unpickled_model_predicts_and_has_no_budget():
    budget = Budget(3.0)
    model = make_model(budget=budget).fit(X)
    again = pickle.load(io.BytesIO(pickle.dumps(model)))
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(BudgetError, match="pickled"):
        again.fit(X)


# ---- prediction and names ----


def test_labels_distances_and_score_are_those_of_the_centers():
    model = make_model().fit(X)
    distance = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(model.transform(X), distance)
    assert np.array_equal(model.predict(X), distance.argmin(axis=1))
    assert model.score(X) == pytest.approx(-(distance.min(axis=1) ** 2).sum())
    assert model.fit_predict(X).shape == (60,)
    assert list(model.get_feature_names_out()) == [f"privatekmeans{j}" for j in range(3)]


def test_a_conditional_claim_is_named_everywhere():
    assert make_model("kvariates").fit(X).condition_ is None
    model = make_model("kvariates-conditional").fit(X)
    assert model.condition_ == "conditional: delta_w = 0.5 asserted, not checked"
    assert model.condition_ in repr(model)
    assert all("conditional" in charge.label for charge in model.ledger_.charges)

    class Assuming(PrivateMethod):
        traits = Traits(condition="rows are distinct")

        def __call__(self, task):
            return NoisyLloyd()(task)

    model = make_model(method=Assuming()).fit(X)
    assert repr(model).endswith("# conditional: rows are distinct")
    assert all("conditional" in charge.label for charge in model.ledger_.charges)


@pytest.mark.parametrize("name", ["labels_", "inertia_"])
def test_what_is_not_private_is_not_an_attribute(name):
    median = PrivateKMedian(3, epsilon=5.0).fit(X, demand=np.arange(60).repeat(1000))
    for model in (make_model(), make_model().fit(X), median):
        assert not hasattr(model, name)
        words = {"labels_": r"use predict\(X\)", "inertia_": r"use score\(X\)"}[name]
        with pytest.raises(AttributeError, match=f"has no {name}: .* not private; {words}"):
            getattr(model, name)
        with pytest.raises(AttributeError, match=r"PrivateKMe.* has no label_."):
            _ = model.label_
        assert copy.deepcopy(model).n_clusters == 3


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_number_above_the_range_of_floats_is_dropped_without_a_word(adjacency):
    rows = X.astype(np.longdouble)
    if np.finfo(rows.dtype).max <= np.finfo(np.float64).max:
        pytest.skip("longdouble is float64 here")
    rows[0, 0] = np.longdouble("1e4000")
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.filterwarnings("error", category=RuntimeWarning)
        make_model(adjacency=adjacency).fit(rows)
