"""Plots of records: a choice of k, a ledger, the balance of groups."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from api import (
    Categories,
    Charge,
    Ledger,
    differences,
    group_balance,
    random_deviation,
    release_costs,
)
from matplotlib.patches import Rectangle
from plots.drawn import blobs, fitted, notes, rng

from kvariates import AntiClustering, PrivateKMeans, choose_k, plot


@pytest.mark.parametrize("clear", [True, False])
def test_a_choice_of_k_shows_its_criteria(clear):
    X = blobs(400, 3, 4, seed=3) if clear else blobs(400, 3, 4)
    choice = choose_k(X, (1, 6), random_state=0)
    assert choice.clear == clear
    ax = plot.choice(choice)
    *upright, curve, hollow, filled = ax.get_lines()
    assert [set(line.get_xdata()) for line in upright] == (
        [{choice.k}] if clear else [{choice.k}, {choice.guess}]
    )
    np.testing.assert_array_equal(curve.get_ydata(), choice.inertia)
    np.testing.assert_array_equal(hollow.get_xdata(), choice.ks[choice.dividing > 0])
    np.testing.assert_array_equal(filled.get_xdata(), choice.ks[choice.dividing == 0])
    assert hollow.get_markerfacecolor() == "white"
    [right] = [other for other in ax.figure.axes if other is not ax]
    np.testing.assert_array_equal(right.get_lines()[0].get_ydata(), choice.silhouette)
    assert choice.reason[:20] in notes(ax)


@pytest.mark.parametrize("X", [np.ones((9, 2)), np.repeat(np.eye(3), 20, 0)])
def test_a_choice_without_cost_is_drawn(X):
    choice = choose_k(X, (1, len(np.unique(X, axis=0))), random_state=0)
    plot.choice(choice).figure.draw_without_rendering()


def charge(label, epsilon=None, rho=None, parallel=None):
    kind = "laplace" if rho is None else "gaussian"
    return Charge(label, kind, "add-remove", 1.0, "l1", 1.0, epsilon, rho, parallel)


LEDGERS = {
    "pure": [charge("counts of level 1", 0.125), charge("counts of level 2", 0.25),
             charge("sums", 0.5)],
    "disjoint": [charge(f"cell {i}", 0.25, parallel="cells") for i in range(9)]
    + [charge("sums", 0.5)],
    "zcdp": [charge("counts", rho=0.01), charge("sums", 0.125)],
    "many": [charge(f"{'abcdefghijklmnopqrstuvwxyz'[i]} sums", 2.0**-8) for i in range(26)],
}  # fmt: skip


@pytest.mark.parametrize("charges", LEDGERS.values(), ids=LEDGERS)
def test_bars_of_a_ledger_add_up_to_its_total(charges):
    ledger = Ledger("add-remove", tuple(charges), (5.0, 1e-6))
    ax = plot.ledger(ledger)
    widths = [bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)]
    total = ledger.rho if ledger.concentrated else ledger.total().epsilon
    assert sum(widths) == pytest.approx(total)
    assert len(widths) == len(ax.get_yticklabels()) <= 20
    assert sum(release_costs(ledger).values()) == pytest.approx(total)
    largest = widths[:19]  # a 20th bar has all others
    assert largest == sorted(largest, reverse=True)


def test_releases_that_differ_in_numbers_share_a_bar():
    ledger = Ledger("add-remove", tuple(LEDGERS["pure"]), (5.0, 0.0))
    assert release_costs(ledger) == {"counts of level …": 0.375, "sums": 0.5}


def test_an_infinite_release_is_refused():
    ledger = Ledger("add-remove", (charge("all rows", np.inf),), (np.inf, 0.0))
    with pytest.raises(ValueError, match="infinitely much"):
        plot.ledger(ledger)


def test_the_ledger_of_a_fit_is_drawn():
    model = PrivateKMeans(3, epsilon=1.0, bounds=(-1, 1)).fit(np.clip(blobs(200) / 30, -1, 1))
    ax = plot.ledger(model.ledger_)
    assert "epsilon" in ax.get_xlabel()
    assert model.ledger_.claim.words() in notes(ax)


def boxes(ax):
    """Where the legend, the axes and the texts of the y axis are, in pixels."""
    ax.figure.draw_without_rendering()
    names = [label.get_window_extent() for label in ax.get_yticklabels()]
    return ax.get_legend().get_window_extent(), ax.get_window_extent(), names


@pytest.mark.parametrize("given", [False, True])
def test_legends_cover_no_curve_and_no_dot(given):
    from matplotlib import pyplot as plt

    model = AntiClustering(3, random_state=0).fit(blobs(30))
    choice = choose_k(blobs(90, 3, 4), (1, 6), random_state=0)
    for draw, record in ((plot.choice, choice), (plot.balance, model.balance_)):
        ax = plt.subplots(1, 2, layout="constrained")[1][0] if given else None
        ax = draw(record, ax)
        legend, axes, _ = boxes(ax)
        assert not legend.overlaps(axes)
        figure = ax.figure.bbox
        assert given or (figure.x0 <= legend.x0 and legend.x1 <= figure.x1 and legend.y0 >= 0)


@pytest.mark.parametrize("k", [1, 3])
def test_the_axis_of_the_silhouette_is_from_0_to_1(k):
    """Differences of noise do not look like a finding."""
    choice = choose_k(blobs(200, 3, k), (1, 6), random_state=0)
    ax = plot.choice(choice)
    [right] = [other for other in ax.figure.axes if other is not ax]
    assert right.get_ylim() == (0.0, 1.0)


def test_a_silhouette_below_0_is_on_the_axis():
    choice = choose_k(blobs(90), (1, 4), random_state=0)
    ax = plot.choice(replace(choice, silhouette=np.array([np.nan, 0.5, -0.25, 0.1])))
    assert ax.figure.axes[1].get_ylim() == (-0.25, 1.0)


def test_groups_of_a_balance_differ_in_colour_and_marker():
    model = AntiClustering(12, random_state=0).fit(blobs(60), categories=["$a$", "<b>"] * 30)
    ax = plot.balance(model.balance_)
    lines = dots(ax)
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 12
    assert {line.get_linestyle() for line in lines} == {"None"}  # columns have no order
    np.testing.assert_array_equal(lines[4].get_xdata()[:2], model.balance_.mean_difference[4])
    labels = ax.get_yticklabels()
    texts = [label.get_text() for label in labels]
    assert texts == ["x0", "x1", "share of $a$", "share of <b>"]
    assert not any(label.get_parse_math() for label in labels)
    heights = {round(float(line.get_ydata()[0]), 6) for line in lines}
    assert len(heights) == 12  # no dot is hidden by another


def dots(ax):
    """One record for each group."""
    return [line for line in ax.get_lines() if line.get_marker() != "None"]


def test_categories_have_the_unit_of_columns():
    """A category is drawn as a column of 0 and 1 would be."""
    X, category = blobs(91), np.array(list("aab") * 30 + ["b"])
    labels = np.arange(91) % 4
    column = (category == "a").astype(float)[:, None]
    names = ("a", "b")
    numbers = Categories(1 - column[:, 0].astype(int), names)
    by_category = group_balance(labels, 4, X, ("x", "y"), numbers)
    as_column = group_balance(labels, 4, column, names[:1], Categories(np.zeros(91, int), ()))
    np.testing.assert_allclose(differences(by_category)[:, 2], differences(as_column)[:, 0])


def test_a_category_of_all_rows_is_at_0():
    model = AntiClustering(3, random_state=0).fit(blobs(30), categories=["a"] * 30)
    assert (differences(model.balance_)[:, 2] == 0).all()


def test_the_grey_band_is_the_deviation_of_random_groups():
    X, sizes = rng().normal(size=(60, 1)), (10, 20, 30)
    of_row = np.repeat(np.arange(3), sizes)
    squares = [
        group_balance(rng(i).permutation(of_row), 3, X, ("x",), Categories(0 * of_row, ()))
        .mean_difference ** 2
        for i in range(4000)
    ]  # fmt: skip
    found = float(np.sqrt(np.mean(squares)))
    assert random_deviation(np.array(sizes)) == pytest.approx(found, rel=0.03)
    ax = plot.balance(AntiClustering(3, group_sizes=sizes, random_state=0).fit(X).balance_)
    [band] = [patch for patch in ax.patches if "random groups" in patch.get_label()]
    assert band.get_x() == pytest.approx(-random_deviation(np.array(sizes)))
    assert band.get_width() == pytest.approx(2 * random_deviation(np.array(sizes)))
    assert random_deviation(np.array([60])) == 0.0


def test_many_groups_are_told_apart_by_the_numbers_at_the_ends():
    model = AntiClustering(50, random_state=0).fit(blobs(200, 3))
    ax = plot.balance(model.balance_)
    assert len(ax.get_legend().get_texts()) == 2
    values = model.balance_.mean_difference
    ends = [g for column in values.T for g in (column.argmin(), column.argmax())]
    assert [int(text.get_text()) for text in ax.texts if text.get_text().isdigit()] == ends
    [all_groups] = dots(ax)
    np.testing.assert_array_equal(all_groups.get_xdata(), values.T.ravel())


def test_long_names_are_not_cut():
    pd = pytest.importorskip("pandas")
    long = "a name of a column that has many words and is not yet at its end " + 9 * "x"
    X = pd.DataFrame(blobs(30, 3), columns=[long, "b" * 70, "c"])
    ax = plot.balance(AntiClustering(2, random_state=0).fit(X).balance_)
    _, axes, names = boxes(ax)
    texts = [label.get_text() for label in ax.get_yticklabels()]
    assert texts[0].replace("\n", " ") == long
    assert texts[1].replace("\n", "") == "b" * 70
    assert all(name.x0 >= 0 and name.x1 <= axes.x0 for name in names)
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(names))


def test_of_many_columns_those_with_the_largest_differences_are_drawn():
    model = AntiClustering(4, random_state=0).fit(blobs(80, 90))
    ax = plot.balance(model.balance_)
    far = np.abs(model.balance_.mean_difference).max(axis=0)
    texts = [label.get_text() for label in ax.get_yticklabels()]
    assert texts == [f"x{j}" for j in np.sort(np.argsort(-far)[:40])]
    assert "40 of 90 columns" in notes(ax)
    assert f"largest difference: {far.max():.2g}" in notes(ax)


def test_groups_of_distances_alone_have_nothing_to_compare():
    X = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    model = AntiClustering(2, objective="diversity", metric="precomputed", random_state=0).fit(X)
    ax = plot.balance(model.balance_)
    assert notes(ax) == "no columns and no categories to compare"
    ax.figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (plot.ledger, "plot.ledger draws a Ledger, ledger_ of a private model; got KMeans"),
        (plot.balance, "plot.balance draws a GroupBalance, balance_ of a fitted AntiClustering"),
        (plot.tree, "plot.tree draws a HstTree, the result of hst_tree; got KMeans"),
        (plot.choice, "plot.choice draws a Choice, the result of choose_k; got KMeans"),
    ],
)
def test_another_object_is_refused_in_one_line(draw, message):
    with pytest.raises(TypeError, match=message) as error:
        draw(fitted(blobs(9)))
    assert "\n" not in str(error.value)
