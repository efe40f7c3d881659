"""Plots of records: a choice of k, a ledger, the balance of groups."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from plots.drawn import blobs, fitted, notes

from kvariates import AntiClustering, PrivateKMeans, choose_k, plot
from kvariates.privacy.ledger import Charge, Ledger
from kvariates.report.private_page import release_costs


def test_a_choice_of_k_shows_its_criteria():
    choice = choose_k(blobs(400, 3, 4), (1, 6), random_state=0)
    ax = plot.choice(choice)
    dashed, curve, hollow, filled = ax.get_lines()
    assert set(dashed.get_xdata()) == {choice.k}
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


def test_groups_of_a_balance_differ_in_colour_and_marker():
    model = AntiClustering(12, random_state=0).fit(blobs(60), categories=["$a$", "<b>"] * 30)
    ax = plot.balance(model.balance_)
    lines = ax.get_lines()[:-1]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 12
    np.testing.assert_array_equal(lines[4].get_ydata()[:2], model.balance_.mean_difference[4])
    labels = ax.get_xticklabels()
    assert [label.get_text() for label in labels][2:] == ["$a$", "<b>"]
    assert not any(label.get_parse_math() for label in labels)


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
