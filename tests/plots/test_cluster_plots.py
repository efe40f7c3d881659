"""`plot.clusters`: what is drawn are the rows and centres of the model it is given."""

import io
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from api import FAINT
from plots.drawn import blobs, centers_of, drawn_rows, fitted, notes, numbers, rng
from scipy import sparse

from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    PrivateKMeans,
    StreamingKMeans,
    VerticalKMeans,
    plot,
)


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


def test_columns_of_several_parties_are_drawn_as_one_table():
    pd = pytest.importorskip("pandas")
    X = blobs(300)
    parts = [X[:, :1], X[:, 1:]]
    model = VerticalKMeans(3, random_state=0).fit(parts)
    centers = np.hstack(model.cluster_centers_)
    for ax in (plot.clusters(model, parts), plot.clusters(model)):
        np.testing.assert_allclose(centers_of(ax)[0], centers)
    ax = plot.clusters(model, [pd.DataFrame({"width": X[:, 0]}), pd.DataFrame({"height": X[:, 1]})])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    places = sorted((x, y) for x, y, *_ in drawn_rows(ax))
    np.testing.assert_allclose(places, sorted(map(tuple, X)))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [f"{i}   {size:,}" for i, size in enumerate(np.bincount(model.labels_))]
    colors = {}
    for x, y, color, marker in drawn_rows(ax):
        label = int(model.predict([[[x]], [[y]]])[0])
        assert colors.setdefault(label, (color, marker)) == (color, marker)
    assert len(set(colors.values())) == 3
    with pytest.raises(ValueError, match="a list of the columns of each party"):
        plot.clusters(model, X)


def test_a_private_model_is_drawn_without_rows():
    X = np.clip(blobs(2000) / 30, -1, 1)
    model = PrivateKMeans(4, epsilon=5.0, bounds=(-1, 1)).fit(X)
    # What was released is replaced: noise could put centres anywhere.
    model.cluster_centers_ = np.array([[-0.5, -0.5], [0.5, -0.4], [-0.4, 0.5], [30.0, 0.5]])
    model.cluster_counts_ = np.array([900.0, 500.0, 400.0, 200.0])
    ax = plot.clusters(model)
    places, white = centers_of(ax)
    np.testing.assert_allclose(places, model.cluster_centers_)
    assert drawn_rows(ax) == []
    order = np.argsort(model.cluster_counts_)
    assert (np.diff(np.broadcast_to(white.get_sizes(), 4)[order]) >= 0).all()
    assert notes(ax) == "centres of a private fit; areas show noisy counts"
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
        (lambda: AntiClustering(3).fit(blobs(9)), blobs(9), r"plot.balance\(model.balance_\)"),
        (lambda: fitted(blobs(9)), blobs(9, 3), "features"),
        (lambda: fitted(blobs(9)), np.full((9, 2), np.nan), "missing or infinite"),
        (lambda: fitted(blobs(9)), ["a", "b"], "table of numbers"),
        (lambda: fitted(blobs(9)), np.ones(9), "rows and columns"),
    ],
)
def test_errors_say_what_was_wrong(model, X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plot.clusters(model(), X)


def test_a_missing_matplotlib_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = r"^kvariates.plot needs matplotlib, .*: pip install 'kvariates\[plot\]' \(.*\)$"
    for call in (lambda: plot.clusters(None), lambda: plot.tree(None), lambda: plot.ledger(None)):
        with pytest.raises(ImportError, match=line):
            call()


def test_importing_plot_does_not_import_matplotlib():
    code = "import sys, kvariates.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
