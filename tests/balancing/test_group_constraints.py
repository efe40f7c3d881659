"""Sizes, categories and links hold in every result, or an error says what clashes."""

import re

import numpy as np
import pandas as pd
import pytest
from api import InfeasibleError, dealt
from api import feasible_groups_module as feasible_groups
from balancing.brute_groups import OBJECTIVES, even_sizes, feasible, groupings
from hypothesis import given
from hypothesis import strategies as st

from kvariates import AntiClustering


@st.composite
def problems(draw):
    n = draw(st.integers(2, 8))
    groups = draw(st.integers(1, min(3, n)))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    must, cannot = draw(st.lists(pair, max_size=3)), draw(st.lists(pair, max_size=3))
    category = draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    return n, groups, category, must, cannot, draw(st.sampled_from(list(OBJECTIVES)))


@given(problems())
def test_small_problems_are_solved_if_they_can_be(problem):
    n, groups, category, must, cannot, objective = problem
    X = np.random.default_rng(n).normal(size=(n, 2))
    table = groupings(n, even_sizes(n, groups))
    allowed = feasible(table, category, must, cannot, groups)
    constraints = {"categories": category, "must_link": must, "cannot_link": cannot}
    for method in ("exchange", "exact"):
        model = AntiClustering(groups, objective=objective, method=method, random_state=0)
        if not len(allowed):
            with pytest.raises(InfeasibleError):
                model.fit(X, **constraints)
            continue
        model.fit(X, **constraints)
        assert (allowed == model.labels_).all(axis=1).any()
        best = OBJECTIVES[objective](X, allowed).max()
        if method == "exact" and np.isfinite(best):
            assert model.objective_ == pytest.approx(best, rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["kplus", "diversity"]))
def test_constraints_hold_for_many_rows(seed, sized, objective):
    rng = np.random.default_rng(seed)
    n, groups = 120, int(rng.integers(2, 7))
    X, category = rng.normal(size=(n, 3)), rng.integers(4, size=(n, 2))
    sizes = None
    if sized:
        share = rng.multinomial(n - 10 * groups, np.ones(groups) / groups)
        sizes = share + 10
    must = np.where(rng.random(n) < 0.2, rng.integers(12, size=n), -1)
    hidden = rng.integers(groups, size=n)  # so that there is a solution without other constraints
    cannot = rng.integers(n, size=(40, 2))
    cannot = cannot[(hidden[cannot[:, 0]] != hidden[cannot[:, 1]])]
    cannot = cannot[(must[cannot[:, 0]] != must[cannot[:, 1]]) | (must[cannot[:, 0]] < 0)]
    model = AntiClustering(
        groups, objective=objective, group_sizes=sizes, n_restarts=2, random_state=seed
    )
    try:
        labels = model.fit_predict(X, must_link=must, cannot_link=cannot)
    except InfeasibleError:  # links were drawn that joined rows of several hidden groups
        return
    assert_sizes(labels, sizes, n, groups)
    assert all(len(set(labels[must == m])) <= 1 for m in range(12))
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    labels = model.fit_predict(X, categories=category, cannot_link=cannot)
    assert_sizes(labels, sizes, n, groups)
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    counts = np.bincount(labels, minlength=groups)
    for cell in {tuple(c) for c in category}:
        here = (category == cell).all(axis=1)
        share = here.sum() * (counts / n if sized else np.full(groups, 1 / groups))
        got = np.bincount(labels[here], minlength=groups)
        assert (np.abs(got - share) < 1).all()


def assert_sizes(labels, sizes, n, groups):
    counts = np.bincount(labels, minlength=groups)
    wanted = even_sizes(n, groups) if sizes is None else sizes
    assert counts.tolist() == list(wanted)


def test_the_integer_program_finds_what_greedy_misses(monkeypatch):
    monkeypatch.setattr(feasible_groups, "placed_one_by_one", lambda *_: None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    cannot = [(i, j) for i in range(0, 40, 4) for j in range(i + 1, i + 4)]
    must = [(i, i + 1) for i in range(40, 58, 2)]
    model = AntiClustering(3, random_state=0)
    labels = model.fit_predict(X, categories=np.arange(60) % 2, cannot_link=cannot, must_link=must)
    assert all(labels[i] != labels[j] for i, j in cannot)
    assert all(labels[i] == labels[j] for i, j in must)
    assert np.bincount(labels).tolist() == [20, 20, 20]


def test_linked_rows_of_several_categories_keep_the_shares():
    """20 pairs of different categories: only pairs with the same two may change places."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    category = np.array([0, 0, 0, 1, 1, 1] * 10)
    must = np.full(60, -1)
    must[:40] = np.repeat(np.arange(20), 2)
    model = AntiClustering(5, n_restarts=10, random_state=0)
    for _ in range(5):
        labels = model.set_params(random_state=rng.integers(1000)).fit_predict(
            X, categories=category, must_link=must
        )
        assert all(np.bincount(labels[category == c]).tolist() == [6] * 5 for c in (0, 1))
        assert (labels[0:40:2] == labels[1:40:2]).all()


def test_must_links_as_labels_and_as_pairs_are_the_same():
    X = np.random.default_rng(0).normal(size=(20, 2))
    label = np.full(20, -1)
    label[[3, 7, 9]] = 5
    one = AntiClustering(2, random_state=0).fit_predict(X, must_link=label)
    other = AntiClustering(2, random_state=0).fit_predict(X, must_link=[(3, 7), (7, 9)])
    assert np.array_equal(one, other)
    assert len(set(one[[3, 7, 9]])) == 1


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 1000))
def test_rows_are_dealt_out_evenly(counts, seed):
    counts = np.array(counts)
    labels = dealt(counts, np.random.default_rng(seed))
    assert np.array_equal(np.bincount(labels, minlength=len(counts)), counts)
    total = counts.sum()
    for g, count in enumerate(counts):
        place = np.cumsum(labels == g)
        even = np.arange(1, total + 1) * count / max(total, 1)
        assert (np.abs(place - even) <= len(counts)).all()


CASES = {
    "a component larger than a group": (
        {"must_link": [(0, 1), (1, 2), (2, 3), (3, 4)]},
        "must_link joins 5 rows (0, 1, 2, 3, 4), but the largest group has 4 rows.",
    ),
    "a cannot-link inside a component": (
        {"must_link": [(0, 1), (1, 2)], "cannot_link": [(2, 0)]},
        "cannot_link keeps rows 2 and 0 apart, but must_link joins them",
    ),
    "a clique": (
        {"cannot_link": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]},
        "cannot_link keeps 4 rows apart from each other (0, 1, 2, 3), but there are only 3 groups.",
    ),
    "itself": ({"cannot_link": [(4, 4)]}, "cannot_link keeps row 4 apart from itself"),
    "categories and must_link": (
        {"categories": [0, 0, 0, *[1] * 9], "must_link": [(0, 1)]},
        "the sizes of the groups and categories and must_link cannot hold together.",
    ),
    "sizes and must_link": (
        {"must_link": [(i, i + 1) for i in range(0, 12, 3)] + [(i, i + 2) for i in range(0, 12, 3)],
         "cannot_link": [(0, 3), (0, 6)]},
        "the sizes of the groups and must_link cannot hold together.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("method", ["exchange", "exact"])
@pytest.mark.parametrize("case", CASES)
def test_errors_say_what_clashes(case, method):
    constraints, words = CASES[case]
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(InfeasibleError, match=re.escape(words)):
        AntiClustering(3, method=method).fit(X, **constraints)


X12 = np.random.default_rng(0).normal(size=(12, 2))
BAD = {
    "few rows": ({"n_groups": 13}, {}, "n_samples=12 should be >= n_groups=13."),
    "sizes": ({"group_sizes": (6, 5)}, {}, "group_sizes add up to 11, but X has 12 rows."),
    "sizes of 3": ({"group_sizes": (4, 4, 4)}, {}, "group_sizes should be 2 positive integers"),
    "empty group": ({"group_sizes": (12, 0)}, {}, "group_sizes should be 2 positive integers"),
    "categories": ({}, {"categories": [1, 2]}, "categories has 2 rows, but X has 12."),
    "no category": ({}, {"categories": ["a"] * 11 + [None]}, "categories has no value at row 11"),
    "NaN category": ({}, {"categories": [1.0] * 3 + [np.nan] * 9}, "no value at row 3"),
    "pair": ({}, {"cannot_link": [(0, 12)]}, "has the pair (0, 12), but rows are 0 to 11."),
    "triples": ({}, {"must_link": [(0, 1, 2)]}, "must_link should be pairs of rows"),
    "labels": ({}, {"must_link": np.ones(5, int)}, "must_link should be pairs of rows"),
    "one number": ({}, {"must_link": 5}, "must_link should be pairs of rows"),
    "lengths": ({}, {"categories": [[1, 2], [3]] + [[1]] * 10}, "categories has entries of diff"),
    "sizes of lengths": ({"group_sizes": [[1, 2], [3]]}, {}, "group_sizes has entries of diff"),
    "huge sizes": ({"group_sizes": (2**62, 2**62)}, {}, f"add up to {2**63}, but X has 12 rows."),
    "metric": ({"metric": "manhattan"}, {}, "objective='variance' uses squared Euclidean"),
    "square": (
        {"metric": "precomputed", "objective": "diversity"}, {}, "needs a square matrix",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_of_wrong_input(case):
    options, constraints, words = BAD[case]
    with pytest.raises(ValueError, match=re.escape(words)):
        AntiClustering(**{"n_groups": 2, **options}).fit(X12, **constraints)


def test_links_may_be_an_iterator():
    labels = AntiClustering(3, random_state=0).fit_predict(X12, must_link=iter([(0, 1), (2, 3)]))
    assert labels[0] == labels[1]
    assert labels[2] == labels[3]


def test_names_of_categories_differ():
    table = pd.DataFrame([[1, "x"]] * 6 + [["1", "x"]] * 6, columns=["a", "a"])
    names = AntiClustering(2, random_state=0).fit(X12, categories=table).balance_.categories
    assert names == ("1, x", "'1', x")


def test_other_errors():
    with pytest.raises(ValueError, match="NaN"):
        AntiClustering().fit(np.where(X12 > 1, np.nan, X12))
    with pytest.raises(ValueError, match="squares overflow"):
        AntiClustering().fit(X12 * 1e200)
    D = np.abs(X12 @ X12.T)
    with pytest.raises(ValueError, match="X is not a matrix of distances"):
        AntiClustering(objective="diversity", metric="precomputed").fit(D)
    with pytest.raises(ValueError, match="too many for method='exact'"):
        AntiClustering(2, method="exact").fit(np.random.default_rng(0).normal(size=(300, 2)))


def test_a_category_larger_than_a_group_is_shared_out():
    category = ["a"] * 10 + ["b"] * 2
    labels = AntiClustering(3, random_state=0).fit_predict(X12, categories=category)
    assert sorted(np.bincount(labels[:10])) == [3, 3, 4]
    assert sorted(np.bincount(labels[10:], minlength=3)) == [0, 1, 1]


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = AntiClustering(3, random_state=0).fit(X12)
    before = {k: v for k, v in vars(model).items() if k.endswith("_")}
    with pytest.raises(InfeasibleError):
        model.fit(X12, **CASES["a clique"][0])
    assert {k: v for k, v in vars(model).items() if k.endswith("_")} == before


def test_categories_of_any_type():
    pandas = pytest.importorskip("pandas")
    plain = np.array(list("aabbabababab"))
    columns = pandas.DataFrame({"a": plain, "b": [1, 2] * 6})
    results = [
        AntiClustering(2, random_state=0).fit(X12, categories=c)
        for c in (
            plain,
            plain.tolist(),
            pandas.Series(plain),
            pandas.Categorical(plain),
            plain == "a",
        )
    ]
    assert all(np.bincount(m.labels_[plain == "a"]).tolist() == [3, 3] for m in results)
    both = AntiClustering(2, random_state=0).fit(X12, categories=columns)
    assert set(both.balance_.categories) <= {"a, 1", "a, 2", "b, 1", "b, 2"}
    mixed = AntiClustering(2, random_state=0).fit(X12, categories=[1, "x", 2.5] * 4)
    assert len(mixed.balance_.categories) == 3


def test_many_groups_and_values_at_the_ends_of_their_types():
    X = np.random.default_rng(0).normal(size=(129, 1))
    labels = AntiClustering(129, method="exact").fit_predict(X)
    assert sorted(labels) == list(range(129))
    for scale, dtype, words in ((3e19, "f4", "overflow"), (1e-300, "f8", "vanish")):
        with pytest.raises(ValueError, match=f"squares {words}"):
            AntiClustering(3, objective="diversity").fit((X * scale).astype(dtype))
