"""Plots of trees: branches, or outlines around points."""

import numpy as np
import pytest
from api import PALETTE, DistanceMatrix, _top, grow
from plots.drawn import rng

from kvariates import hst_tree, plot

POINTS = {
    "groups": rng().normal(size=(200, 2)) + 20 * rng(1).integers(0, 3, size=(200, 2)),
    "one point": np.zeros((1, 2)),
    "one place": np.zeros((9, 2)),
    "a line": np.column_stack([np.arange(30.0), np.arange(30.0)]),
    "many": rng().random((25_000, 2)),
}


@pytest.mark.parametrize("X", POINTS.values(), ids=POINTS)
def test_trees_of_any_points_are_drawn(X):
    tree = hst_tree(X, random_state=0)
    top = _top(tree, 3)
    ax = plot.tree(tree, levels=3)
    [dots] = ax.collections
    assert len(dots.get_offsets()) == len(top.nodes)
    assert len(ax.get_lines()) == len(top.nodes) - 1  # a branch to each node but the root
    ax.figure.draw_without_rendering()
    outlines = plot.tree(tree, X=X, levels=3)
    assert len(outlines.get_lines()) == sum(len(points) > 1 for _, points in top.inside())
    outlines.figure.draw_without_rendering()


def test_each_level_of_a_tree_has_its_colour():
    tree = hst_tree(POINTS["groups"], random_state=0)
    for levels in (1, 2, 3):
        lines = plot.tree(tree, levels=levels).get_lines()
        assert {line.get_color() for line in lines} == set(PALETTE[1 : levels + 1])


def test_nodes_contain_their_points():
    tree = hst_tree(POINTS["groups"], random_state=0)
    top = _top(tree, 3)
    for node, points in top.inside():
        assert len(points) == tree.counts()[top.nodes[node]] == top.count[node]


def test_components_are_drawn():
    D = np.where(np.add.outer(np.arange(20) < 7, np.arange(20) < 7) == 1, np.inf, 1.0)
    np.fill_diagonal(D, 0)
    plot.tree(grow(DistanceMatrix(D), rng())).figure.draw_without_rendering()


def test_points_of_another_tree_are_refused():
    with pytest.raises(ValueError, match="a row for each of the 200 points"):
        plot.tree(hst_tree(POINTS["groups"], random_state=0), X=np.zeros((7, 2)))
