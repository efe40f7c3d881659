"""`kvariates.plot`: what is drawn are the rows, centres and numbers of the records it is given."""

import io
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.markers import MarkerStyle
from matplotlib.patches import Rectangle
from scipy import sparse

from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    PrivateKMeans,
    StreamingKMeans,
    choose_k,
    hst_tree,
    plot,
)
from kvariates.data.hst_tree import grow
from kvariates.data.metric_spaces import DistanceMatrix
from kvariates.palette import FAINT, MARKERS, PALETTE
from kvariates.privacy.ledger import Charge, Ledger
from kvariates.report.plots import cluster_styles
from kvariates.report.private_page import release_costs
from kvariates.report.tree_plot import _top

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """Close all figures after a test."""
    from matplotlib import pyplot as plt

    yield
    plt.close("all")


def rng(seed=0):
    return np.random.default_rng(seed)


def blobs(n, d=2, k=3, seed=0):
    g = rng(seed)
    return 10 * g.normal(size=(k, d))[g.integers(0, k, n)] + g.normal(size=(n, d))


def fitted(X, k=3):
    return KMeans(k, random_state=0).fit(X)


def notes(ax):
    return "\n".join(text.get_text() for text in ax.texts if text.get_transform() == ax.transAxes)


def drawn_rows(ax):
    """Places, colours and markers of all rows; centres are white and left out."""
    found = []
    for collection in ax.collections:
        colors, places = collection.get_facecolors(), np.asarray(collection.get_offsets())
        if to_hex(colors[0]) == "#ffffff":
            continue
        path = collection.get_paths()[0]
        [marker] = [m for m in (*MARKERS, ".") if same_path(path, m)]
        colors = np.broadcast_to(colors, (len(places), 4))
        found += [
            (*place, to_hex(color), marker) for place, color in zip(places, colors, strict=True)
        ]
    return found


def same_path(path, marker):
    style = MarkerStyle(marker)
    own = style.get_path().transformed(style.get_transform())
    return own.vertices.shape == path.vertices.shape and np.allclose(own.vertices, path.vertices)


def centers_of(ax):
    [white] = [c for c in ax.collections if to_hex(c.get_facecolors()[0]) == "#ffffff"]
    return np.asarray(white.get_offsets()), white


def numbers(ax):
    return [text.get_text() for text in ax.texts if text.get_text().isdigit()]


# ---- clusters ----


@pytest.mark.parametrize("k", [1, 3, 50, 96])
def test_each_cluster_has_a_style_and_a_number_of_its_own(k):
    X = blobs(2000, k=60)
    model = fitted(X, k)
    ax = plot.clusters(model, X)
    styles = {}
    for x, y, color, marker in drawn_rows(ax):
        label = int(model.predict([[x, y]])[0])
        assert styles.setdefault(label, (color, marker)) == (color, marker)
    assert len(set(styles.values())) == len(styles) == k
    assert numbers(ax) == [str(i) for i in range(k)]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    if k <= 75:
        sizes = np.bincount(model.labels_, minlength=k)
        assert texts == [f"{i}   {size:,}" for i, size in enumerate(sizes)]
    else:
        assert texts[-1] == "21 more"


def test_all_rows_and_centres_of_two_columns_are_at_their_places():
    X = blobs(300)
    model = fitted(X)
    ax = plot.clusters(model, X)
    places = sorted((x, y) for x, y, *_ in drawn_rows(ax))
    np.testing.assert_allclose(places, sorted(map(tuple, X)))
    np.testing.assert_allclose(centers_of(ax)[0], model.cluster_centers_)


@pytest.mark.parametrize("n", [12, 30, 100, 3000])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_far_row_does_not_change_the_limits_much(n, d):
    X = blobs(n, d)
    far = np.vstack([X, np.full((1, d), 1e7)])
    widths = []
    for rows in (X, far):
        ax = plot.clusters(fitted(rows), rows)
        widths.append(np.ptp(ax.get_xlim()))
    assert widths[1] < 6 * widths[0]
    one = "1 far row is outside of the axes · 1 far centre at the edge"
    assert one in notes(ax) if n > 12 else "outside of the axes" in notes(ax)  # of 12, more are far
    places = centers_of(ax)[0]
    assert (places[:, 0] > ax.get_xlim()[0]).all()
    assert (places[:, 0] < ax.get_xlim()[1]).all()


def test_rows_within_the_limits_are_not_called_far():
    ax = plot.clusters(fitted(blobs(300)), blobs(300))
    assert notes(ax) == ""


def test_many_rows_are_sampled_and_the_axes_say_so():
    X = blobs(30_000)
    ax = plot.clusters(fitted(X), X)
    assert 19_000 < len(drawn_rows(ax)) <= 20_000
    assert "of 30,000 rows drawn" in notes(ax)
    assert sum(int(t.get_text().split()[1].replace(",", ""))
               for t in ax.get_legend().get_texts()) == 30_000  # fmt: skip


def test_principal_directions_of_a_rotated_plane_are_the_plane():
    flat, turn = blobs(400), np.linalg.qr(rng(1).normal(size=(6, 6)))[0][:, :2]
    X = flat @ turn.T
    ax = plot.clusters(fitted(X), X)
    places = np.array([(x, y) for x, y, *_ in drawn_rows(ax)])
    # Distances of all pairs are those of the plane.
    gaps = [np.sort(np.linalg.norm(p[:, None] - p[None], axis=2), axis=None)
            for p in (flat, places)]  # fmt: skip
    np.testing.assert_allclose(gaps[1], gaps[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("d", [2, 40])
def test_sparse_rows_are_drawn(d):
    X = sparse.random_array((300, d), density=0.2, rng=rng(), format="csr")
    model = fitted(X)
    ax = plot.clusters(model, X)
    rows = drawn_rows(ax)
    assert len(rows) == 300
    if d == 2:
        np.testing.assert_allclose(sorted(r[:2] for r in rows), sorted(map(tuple, X.toarray())))


def test_medoids_of_a_graph_are_at_the_coordinates_given():
    places = blobs(40)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    graph = sparse.csr_array(np.where(gaps < np.quantile(gaps, 0.5), gaps, 0))
    model = KMedian(3, metric="graph", random_state=0).fit(graph)
    ax = plot.clusters(model, places)
    np.testing.assert_array_equal(centers_of(ax)[0], places[model.medoid_indices_])
    with pytest.raises(ValueError, match="coordinates of all points"):
        plot.clusters(model, places[:7])
    with pytest.raises(ValueError, match="give X, the coordinates"):
        plot.clusters(model)


def test_nodes_that_no_medoid_reaches_are_grey():
    graph = sparse.csr_array(np.kron(np.eye(2), np.ones((5, 5)) - np.eye(5)))
    with pytest.warns(UserWarning, match="not connected"):
        model = KMedian(2, metric="graph", random_state=0).fit(graph, demand=np.arange(5))
    ax = plot.clusters(model, blobs(10))
    rows = drawn_rows(ax)
    assert sum(color == FAINT for *_, color, _ in rows) == 5
    assert len(rows) == 10


def test_medoids_that_are_rows_are_drawn_as_they_are():
    X = blobs(60)
    model = KMedian(3, random_state=0).fit(X)
    np.testing.assert_array_equal(centers_of(plot.clusters(model, X))[0], model.cluster_centers_)


def test_labels_within_size_limits_are_those_of_the_fit():
    X = rng().normal(size=(60, 2))
    model = KMeans(3, size_max=20, random_state=0).fit(X)
    assert (model.labels_ != model.predict(X)).any()  # or the test shows nothing
    texts = [text.get_text() for text in plot.clusters(model, X).get_legend().get_texts()]
    assert texts == [f"{i}   20" for i in range(3)]


def test_cosine_draws_directions():
    X = blobs(100) * rng().uniform(0.1, 10, (100, 1))
    model = KMeans(3, metric="cosine", random_state=0).fit(X)
    places = np.array([(x, y) for x, y, *_ in drawn_rows(plot.clusters(model, X))])
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1)


def test_a_stream_is_drawn():
    X = blobs(300)
    model = StreamingKMeans(3, random_state=0).partial_fit(X)
    assert len(drawn_rows(plot.clusters(model, X))) == 300


def test_a_private_model_is_drawn_without_rows():
    X = np.clip(blobs(2000) / 30, -1, 1)
    model = PrivateKMeans(4, epsilon=5.0, bounds=(-1, 1)).fit(X)
    ax = plot.clusters(model)
    places, white = centers_of(ax)
    np.testing.assert_allclose(places, model.cluster_centers_)
    assert drawn_rows(ax) == []
    order = np.argsort(model.cluster_counts_)
    assert (np.diff(np.broadcast_to(white.get_sizes(), 4)[order]) >= 0).all()
    assert "private fit; areas show noisy counts" in notes(ax)
    assert "not private: do not publish" in notes(plot.clusters(model, X))


def test_axes_that_are_given_are_used():
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2)
    X = blobs(50)
    assert plot.clusters(fitted(X), X, axes[1]) is axes[1]
    assert axes[1].get_legend() is None
    assert plt.get_fignums() == [figure.number]


NAMES = [r"price in $ (50$ a_1^2 \frac)", "<script>alert(1)</script> --> &amp; ]]>"]


def test_names_are_written_as_they_are_and_files_are_of_their_kind():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(blobs(80), columns=NAMES)
    ax = plot.clusters(fitted(X), X)
    assert [ax.get_xlabel(), ax.get_ylabel()] == NAMES
    assert ax.xaxis.label.get_parse_math() is False
    found = {}
    for kind in ("svg", "pdf", "png"):
        file = io.BytesIO()
        ax.figure.savefig(file, format=kind)
        found[kind] = file.getvalue()
    assert ET.fromstring(found["svg"]).tag == "{http://www.w3.org/2000/svg}svg"
    assert b"<script" not in found["svg"]
    assert found["pdf"].startswith(b"%PDF")
    assert found["png"].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (lambda: KMeans(3), blobs(9), "no centres to draw"),
        (lambda: AntiClustering(3).fit(blobs(9)), blobs(9), "no centres to draw"),
        (lambda: fitted(blobs(9)), blobs(9, 3), "features"),
        (lambda: fitted(blobs(9)), np.full((9, 2), np.nan), "missing or infinite"),
        (lambda: fitted(blobs(9)), ["a", "b"], "table of numbers"),
        (lambda: fitted(blobs(9)), np.ones(9), "rows and columns"),
    ],
)
def test_errors_say_what_was_wrong(model, X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plot.clusters(model(), X)


# ---- colours ----

# Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
}  # fmt: skip


def oklab(rgb):
    lms = np.cbrt(np.clip(rgb, 0, 1) @ np.array([
        [0.4122214708, 0.2119034982, 0.0883024619], [0.5363325363, 0.6806995451, 0.2817188376],
        [0.0514459929, 0.1073969566, 0.6299787005]]))  # fmt: skip
    return lms @ np.array([
        [0.2104542553, 1.9779984951, 0.0259040371], [0.7936177850, -2.4285922050, 0.7827717662],
        [-0.0040720468, 0.4505937099, -0.8086757660]])  # fmt: skip


@pytest.mark.parametrize("eye", EYES)
def test_colours_can_be_told_apart(eye):
    srgb = np.array([to_rgb(color) for color in PALETTE])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    lab = oklab(linear @ np.asarray(EYES[eye]).T)
    gaps = np.linalg.norm(lab[:, None] - lab[None], axis=2)
    assert gaps[~np.eye(len(PALETTE), dtype=bool)].min() > 0.08


@pytest.mark.parametrize("seed", range(3))
def test_styles_of_96_clusters_differ(seed):
    styles = cluster_styles(rng(seed).normal(size=(96, 2)) ** 3)
    assert len(set(zip(styles.color, styles.marker, strict=True))) == 96


# ---- records ----


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


# ---- trees ----

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


# ---- without matplotlib ----


def test_a_missing_matplotlib_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = r"^kvariates.plot needs matplotlib, .*: pip install 'kvariates\[plot\]'$"
    for call in (lambda: plot.clusters(None), lambda: plot.tree(None), lambda: plot.ledger(None)):
        with pytest.raises(ImportError, match=line):
            call()


def test_importing_plot_does_not_import_matplotlib():
    code = "import sys, kvariates.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
