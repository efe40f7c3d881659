"""Plots for papers and notebooks. Each function returns matplotlib's Axes.

    from kvariates import plot

    ax = plot.clusters(model, X)
    ax.figure.savefig("clusters.svg")  # or .pdf, .png

Without `ax` a new figure of pyplot is made. Colours can be told apart by colour-blind eyes, and
clusters and groups have markers or numbers too. Needs matplotlib: pip install 'kvariates[plot]'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvariates.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kvariates.balancing.group_balance import GroupBalance
    from kvariates.data.hst_tree import HstTree
    from kvariates.k_selection import Choice
    from kvariates.privacy.ledger import Ledger

__all__ = ["balance", "choice", "clusters", "ledger", "tree"]


def clusters(model: Any, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw rows in the colours of their clusters, and the centres with their numbers.

    Two columns are drawn as they are, more on their first two principal directions. A few far rows
    do not change the limits of the axes; how many are not shown is written above the axes. At most
    20,000 rows are drawn, chosen at random.

    Parameters
    ----------
    model : estimator
        Fitted, with `cluster_centers_` or `medoid_indices_`. A model of private rows can be drawn
        without X: its centres, and areas that show its noisy counts.
    X : array-like or CSR matrix of shape (n_samples, n_features), default=None
        The rows, which are labelled by ``predict``; by `labels_` if the model has size limits and
        X has as many rows as the fit. For `VerticalKMeans`: a list of the columns of each party.
        For ``metric="graph"`` and "precomputed": coordinates of the points of the fit. None: only
        centres are drawn.
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None. Only a new figure has a legend with the sizes.

    Returns
    -------
    ax : matplotlib Axes
    """
    needed("matplotlib", "plot")
    from kvariates.report.plots import draw_clusters

    return draw_clusters(model, X, ax)


def choice(choice: Choice, ax: Axes | None = None) -> Axes:
    """Draw a choice of k, the result of ``choose_k``: cost and silhouette for each k.

    The cost has filled dots where no cluster divides, and hollow ones elsewhere. A dashed line is
    at the suggested k. The silhouette has an axis of its own on the right, from 0 to 1.
    """
    needed("matplotlib", "plot")
    from kvariates.k_selection import Choice
    from kvariates.report.plots import draw_choice

    _check("choice", choice, Choice, "the result of choose_k")
    return draw_choice(choice, ax)


def balance(balance: GroupBalance, ax: Axes | None = None) -> Axes:
    """Draw the balance of groups, ``AntiClustering().fit(X).balance_``.

    Each column has a row, and each group a dot in it: the mean of the group minus the mean of all
    rows, in standard deviations of all rows. A category counts as a column of 0 and 1. Groups that
    were drawn at random would have differences of about the width of the grey band.

    Up to 12 groups have colours and markers. Of more groups, the numbers of the two at the ends of
    each row are written. At most 40 columns are drawn, those with the largest differences.
    """
    needed("matplotlib", "plot")
    from kvariates.balancing.group_balance import GroupBalance, draw_balance

    _check("balance", balance, GroupBalance, "balance_ of a fitted AntiClustering")
    drawn: Axes = draw_balance(balance, ax)
    return drawn


def ledger(ledger: Ledger, ax: Axes | None = None) -> Axes:
    """Draw where the budget of a private fit went: a bar for each kind of release.

    The bars add up to the total of the ledger: charges about disjoint rows cost their maximum.
    """
    needed("matplotlib", "plot")
    from kvariates.privacy.ledger import Ledger
    from kvariates.report.plots import draw_ledger

    _check("ledger", ledger, Ledger, "ledger_ of a private model")
    return draw_ledger(ledger, ax)


def tree(tree: HstTree, ax: Axes | None = None, *, X: Any = None, levels: int = 4) -> Axes:
    """Draw the upper levels of a tree, the result of ``hst_tree``.

    Parameters
    ----------
    tree : HstTree
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.
    X : array-like of shape (n_points, 2), default=None
        The points of the tree in the plane. If given, the points and the outlines of the nodes are
        drawn instead of branches.
    levels : int, default=4
        How many levels below the root are drawn.
    """
    needed("matplotlib", "plot")
    from kvariates.data.hst_tree import HstTree
    from kvariates.report.tree_plot import draw_outlines, draw_tree

    _check("tree", tree, HstTree, "the result of hst_tree")
    return draw_tree(tree, ax, levels) if X is None else draw_outlines(tree, X, ax, levels)


def _check(function: str, given: Any, kind: type, where: str) -> None:
    if not isinstance(given, kind):
        raise TypeError(
            f"plot.{function} draws a {kind.__name__}, {where}; got {type(given).__name__}"
        )
