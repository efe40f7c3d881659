"""`kvariates.report.write_report`: the page of a model that was fitted in Python."""

import os
import re
import stat

import numpy as np
import pytest
from api import MINUS, Charge, Ledger, Transcript, known_cities, number
from browser.pages import data_of, decoded, plain
from browser.reports import blobs, rng
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    OnlineKMeans,
    PrivateKMeans,
    PrivateKMedian,
    StreamingKMeans,
    VerticalKMeans,
)
from kvariates.report import write_report

X = blobs(300, 3, 4)
BOX = {"epsilon": 3.0, "bounds": (-40.0, 40.0)}
KINDS = {
    "KMeans": (lambda: KMeans(4, random_state=0).fit(X), X),
    "KMeans of sparse rows": (
        lambda: KMeans(4, random_state=0).fit(sparse.csr_array(X)), sparse.csr_array(X),
    ),
    "KMeans, cosine": (lambda: KMeans(4, metric="cosine", random_state=0).fit(X), X),
    "KMeans, certified": (lambda: KMeans(4, certify=True, random_state=0).fit(X), X),
    "KMeans, size limits": (lambda: KMeans(4, size_max=80, random_state=0).fit(X), X),
    "KMedian": (lambda: KMedian(4, random_state=0).fit(X), X),
    "StreamingKMeans": (lambda: StreamingKMeans(4, random_state=0).fit(X), X),
    "OnlineKMeans": (lambda: OnlineKMeans(4, random_state=0).fit(X), X),
    "OnlineKMeans of batches": (
        lambda: OnlineKMeans(4, random_state=0).partial_fit(X[:200]).partial_fit(X[200:]), X,
    ),
    "VerticalKMeans": (
        lambda: VerticalKMeans(4, random_state=0).fit([X[:, :1], X[:, 1:]]), [X[:, :1], X[:, 1:]],
    ),
    "PrivateKMeans": (lambda: PrivateKMeans(4, **BOX).fit(X), None),
    "PrivateKMedian": (
        lambda: PrivateKMedian(4, epsilon=3.0).fit(X, demand=np.arange(300)), X,
    ),
}  # fmt: skip


def page_of(model, path, X=None):
    write_report(model, path / "report.html", X)
    return (path / "report.html").read_text(encoding="utf-8")


def section(page, name):
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


def shown_centers(page):
    """The numbers of the table of centres, cluster by cluster: the last cells of each row."""
    rows = re.findall(r"<tr><td.*?</tr>", section(page, "centres"))
    return [re.findall(r"<td class=\"n[^>]*>([^<]*)</td>", row)[-3:] for row in rows]


def shown_sizes(page):
    """The sizes of the clusters, by cluster."""
    words = plain(section(page, "sizes"))
    found = {int(i): n for i, n in re.findall(rf"(\d+) ([\d,.{MINUS}]+) [a-z ]+ · ", words)}
    plain_numbers = [found[i].replace(",", "").replace(MINUS, "-") for i in sorted(found)]
    return list(map(float, plain_numbers))


CASES = [(kind, False) for kind in KINDS]
CASES += [(kind, True) for kind, (_, rows) in KINDS.items() if rows is not None]


@pytest.mark.parametrize(("kind", "with_rows"), CASES)
def test_centres_and_sizes_are_those_of_the_model(kind, with_rows, tmp_path):
    make, rows = KINDS[kind]
    model = make()
    page = page_of(model, tmp_path, rows if with_rows else None)
    centers = model.cluster_centers_
    centers = np.hstack(centers) if isinstance(centers, list) else centers
    assert shown_centers(page) == [[number(v) for v in row] for row in centers]
    labels = getattr(model, "labels_", None)
    if with_rows and kind != "KMeans, size limits":
        labels = model.predict(rows)
    sizes = getattr(model, "cluster_counts_", None)
    if sizes is None and labels is not None:
        sizes = np.bincount(labels, minlength=len(centers))
    if sizes is not None:
        np.testing.assert_allclose(shown_sizes(page), sizes, rtol=0, atol=0.5)
    else:
        assert 'id="sizes"' not in page
    assert f"{len(centers)} clusters" in plain(page)
    if hasattr(model, "inertia_"):
        assert number(model.inertia_, 6) in plain(section(page, "overview"))


def test_medoids_of_a_graph_are_points(tmp_path):
    gaps = np.linalg.norm(X[:60, None] - X[None, :60], axis=2)
    graph = sparse.csr_array(np.where(gaps < np.quantile(gaps, 0.6), gaps, 0))
    model = KMedian(3, metric="graph", random_state=0).fit(graph)
    for places in (None, X[:60]):
        words = plain(section(page_of(model, tmp_path, places), "centres"))
        for i in model.medoid_indices_:
            assert re.search(rf"point {i + 1}\b", words)


def test_a_graph_is_a_map_with_its_edges_and_sizes_are_sums_of_demand(tmp_path):
    places, demand = rng(1).uniform(size=(80, 2)), rng(2).integers(1, 50, 80).astype(float)
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    graph = sparse.csr_array(np.where(gaps < 0.25, gaps, 0))
    model = KMedian(3, metric="graph", random_state=0).fit(graph, demand=demand)
    served = np.bincount(model.labels_, demand)
    np.testing.assert_allclose(model.cluster_demand_, served)
    for given in (graph, places):
        page = page_of(model, tmp_path, given)
        sizes = plain(section(page, "sizes"))
        assert all(f" {number(v)} · " in sizes for v in served), sizes
        line = re.search(r'data-copy="([^"]*)"', page)[1].replace("&#x27;", "'")
        again = eval(line, {"KMedian": KMedian, "graph": graph, "demand": demand})
        np.testing.assert_array_equal(again.labels_, model.labels_)
        assert "principal" not in plain(page)
        assert ("no coordinates" in plain(section(page, "clusters"))) == (given is graph)
    edges = decoded(data_of(page)["edges"], "<u2").reshape(-1, 4)
    assert len(edges) == graph.nnz // 2


@pytest.mark.parametrize(
    ("names", "drawn"), [(["lon", "lat"], True), (["lat", "height", "lon"], True), (["u"], False)]
)
def test_the_edges_of_a_graph_join_its_nodes_whatever_their_columns_are(tmp_path, names, drawn):
    pd = pytest.importorskip("pandas")
    places = rng(1).uniform(size=(80, len(names)))
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    graph = sparse.csr_array(np.where(gaps < 0.4, gaps, 0))
    model = KMedian(3, metric="graph", random_state=0).fit(graph)
    data = data_of(page_of(model, tmp_path, pd.DataFrame(places, columns=names)))
    if not drawn:
        assert not data.get("edges")
        return
    ends = decoded(data["edges"], "<u2").reshape(-1, 2, 2)
    points = decoded(data["points"], "<u2").reshape(-1, 2)
    assert set(map(tuple, ends.reshape(-1, 2))) <= set(map(tuple, points))


def test_the_report_says_if_its_rows_are_not_those_of_the_fit(tmp_path):
    words = "These are not the rows of the fit, which had 300"
    model = KMeans(4, random_state=0).fit(X)
    scaled = make_pipeline(StandardScaler(), KMeans(4, random_state=0)).fit(X)
    for each in (model, scaled):
        assert words in plain(page_of(each, tmp_path, X[:10]))
        assert "These are not" not in plain(page_of(each, tmp_path, X))
        assert "These are not" not in plain(page_of(each, tmp_path))


def test_medoids_without_coordinates_say_how_points_are_counted(tmp_path):
    graph = sparse.csr_array(np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0))))
    page = page_of(KMedian(2, metric="graph", random_state=0).fit(graph), tmp_path)
    assert "Points are counted from 1." in plain(section(page, "centres"))
    words = KMedian(2, metric=lambda a, b: abs(len(a) - len(b))).fit(["a", "bb", "cccc"])
    assert "counted from" not in plain(page_of(words, tmp_path))


def test_a_folder_is_no_report(tmp_path):
    with pytest.raises(IsADirectoryError) as error:
        write_report(KMeans(4, random_state=0).fit(X), tmp_path, X)
    assert error.value.filename == str(tmp_path)
    assert error.value.filename2 is None


def test_a_medoid_on_a_map_has_the_name_of_its_own_city(tmp_path):
    pd = pytest.importorskip("pandas")
    places = known_cities()
    rows = np.flatnonzero((np.abs(places.degrees - [8.0, 50.0]) < 3).all(axis=1))[-60:]
    frame = pd.DataFrame(places.degrees[rows, ::-1], columns=["lat", "lon"])
    model = KMedian(3, random_state=0).fit(frame)
    words = plain(section(page_of(model, tmp_path, frame), "centres"))
    assert all(places.names[rows[i]] in words for i in model.medoid_indices_)


def test_medoids_that_are_words_are_named(tmp_path):
    words = ["alpha", "beta", "<b>", "alpine", "bets"] * 3
    model = KMedian(2, metric=lambda a, b: float(a[0] != b[0]) + abs(len(a) - len(b)) / 9)
    model.set_params(random_state=0).fit(words)
    for given in (None, words):
        page = page_of(model, tmp_path, given)
        table = plain(section(page, "centres"))
        assert all(word in table for word in model.cluster_centers_)
        assert shown_sizes(page) == np.bincount(model.labels_).tolist()


def test_centres_of_a_pipeline_are_in_the_units_before_its_steps(tmp_path):
    rows = X * [1.0, 100.0, 0.01] + 7
    pipeline = make_pipeline(StandardScaler(), KMeans(4, random_state=0)).fit(rows)
    page = page_of(pipeline, tmp_path, rows)
    centers = pipeline[0].inverse_transform(pipeline[-1].cluster_centers_)
    assert shown_centers(page) == [[number(v) for v in row] for row in centers]
    line = re.search(r'data-copy="([^"]*)"', page)[1]
    assert line == "make_pipeline(StandardScaler(), KMeans(n_clusters=4, random_state=0)).fit(X)"
    one_way = make_pipeline(FunctionTransformer(np.abs), KMeans(4, random_state=0)).fit(rows)
    page = page_of(one_way, tmp_path, rows)
    centers = one_way[-1].cluster_centers_
    assert shown_centers(page) == [[number(v) for v in row] for row in centers]
    assert "Centres are in the units after FunctionTransformer." in plain(page)


def test_a_private_model_in_a_pipeline_is_refused(tmp_path):
    pipeline = make_pipeline(StandardScaler(), PrivateKMeans(2, **BOX)).fit(X)
    with pytest.raises(ValueError, match="the ledger of PrivateKMeans has no line for the steps"):
        page_of(pipeline, tmp_path)


def test_names_are_those_of_the_data_frame(tmp_path):
    pd = pytest.importorskip("pandas")
    long = "a column whose name has more letters than one would like to see in the head of a table"
    frame = pd.DataFrame(X, columns=["<b>", "size in $", long])
    for model, rows in (
        (KMeans(4, random_state=0).fit(frame), frame),
        (KMeans(4, random_state=0).fit(frame), None),
        (VerticalKMeans(2, random_state=0).fit([X[:, :1], X[:, 1:]]),
         [frame[["<b>"]], frame[["size in $", long]]]),
    ):  # fmt: skip
        page = page_of(model, tmp_path, rows)
        assert "&lt;b&gt;" in section(page, "centres")
        assert "<b>0</b>" in page  # our own element
        assert "size in $" in page
        assert f'title="{long}"' in page


def test_the_line_that_repeats_the_fit_is_python(tmp_path):
    init = X[:4].copy()
    model = KMeans(np.int64(4), init=init, tol=0.0, random_state=7).fit(X)
    page = page_of(model, tmp_path, X)
    line = re.search(r'data-copy="([^"]*)"', page)[1]
    assert line == "KMeans(init=init, n_clusters=4, random_state=7, tol=0.0).fit(X)"
    again = eval(line, {"KMeans": KMeans, "X": X, "init": init})
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)


# ---- private models ----


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_private_page_has_no_row(adjacency, tmp_path):
    rows = rng(3).uniform(7e6, 8e6, (500, 3))
    model = PrivateKMeans(4, epsilon=3.0, bounds=(6e6, 9e6), adjacency=adjacency).fit(rows)
    # What was released is replaced: noise could be equal to a row by chance.
    model.cluster_centers_ = np.arange(12.0).reshape(4, 3)
    page = page_of(model, tmp_path)
    assert "found privately" in page
    assert "May not be published" in page
    of_row = re.compile(r"(?<![\d.])7,?\d{3},?\d{3}(?!\d)")
    assert not of_row.search(page)
    assert of_row.search(page_of(KMeans(4, random_state=0).fit(rows), tmp_path, rows))
    with pytest.raises(ValueError, match="rows of a private model are not drawn") as error:
        write_report(model, tmp_path / "rows.html", rows)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "rows.html").exists()


def test_a_private_page_depends_on_released_values_only(tmp_path):
    """Attributes that were not released change no byte."""
    model = PrivateKMeans(4, **BOX).fit(X)
    first = page_of(model, tmp_path)
    model.labels_ = np.arange(300) % 4
    model.inertia_, model.n_iter_, model.n_rows_seen_ = 123.456, 77, 300
    without_time = re.compile(r"\d\d:\d\d UTC")
    second = page_of(model, tmp_path)
    assert without_time.sub("", second) == without_time.sub("", first)


def test_public_points_are_drawn_and_their_demand_is_not(tmp_path):
    demand = rng().integers(0, 300, 5000)
    model = PrivateKMedian(4, epsilon=3.0).fit(X, demand=demand)
    page = page_of(model, tmp_path, X)
    assert "The points are public" in page
    assert "5,000" not in plain(page)
    np.testing.assert_allclose(shown_sizes(page), model.cluster_counts_, rtol=0, atol=0.5)
    assert "demand=demand" in page


# ---- peers ----


def federated(ledgers):
    pytest.importorskip("flwr")
    from kvariates.federated import FederatedResult

    transcript = Transcript(12, 48, 1000, 2000, 4)
    inertia = None if ledgers else 321.5
    return FederatedResult(X[:4], inertia, 5, True, None, "it was lost", transcript, ledgers)


def ledger(label):
    charge = Charge(label, "laplace", "add-remove", 1.0, "l1", 2.0, 0.5)
    return Ledger("add-remove", (charge,), (0.5, 0.0))


def test_a_federated_result_has_centres_transcript_and_ledgers(tmp_path):
    page = page_of(federated({"Bern": ledger("noisy sums"), "Köln": ledger("counts")}), tmp_path)
    assert shown_centers(page) == [[number(v) for v in row] for row in X[:4]]
    words = plain(section(page, "transcript"))
    assert re.search("rounds 12 .*messages 48", words)
    words = plain(section(page, "ledger"))
    assert re.search("Bern .*noisy sums.* Köln .*counts", words)
    assert "federated k-means" in page
    assert "it was lost" in page


def test_rows_of_private_peers_are_refused(tmp_path):
    found = federated({"Bern": ledger("noisy sums")})
    with pytest.raises(ValueError, match="leave X out"):
        write_report(found, tmp_path / "a.html", X)


def test_rows_of_public_peers_are_counted(tmp_path):
    page = page_of(federated({}), tmp_path, X)
    gaps = np.linalg.norm(X[:, None] - X[None, :4], axis=2)
    sizes = np.bincount(gaps.argmin(axis=1), minlength=4)
    assert shown_sizes(page) == sizes.tolist()
    assert 'id="ledger"' not in page


def test_a_fit_of_a_grid_has_a_report(tmp_path, monkeypatch):
    identity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1)
    from api import FlowerTransport, fit, server_options
    from federated.fake_grid import BOX as BOUNDS
    from federated.fake_grid import blobs as shards_of
    from federated.fake_grid import grid_of, ledgers

    from kvariates.federated import Private

    rows = shards_of(300)
    private = Private(epsilon=2.0, n_clusters=3, steps=2, ledger=ledgers(tmp_path))
    options = server_options(3, bounds=BOUNDS, init="pdk-means++", max_iter=2, random_state=1)
    grid = grid_of(np.array_split(rows, 3), bounds=BOUNDS, private=private)
    found = fit(FlowerTransport(grid, 5.0), options)
    page = page_of(found, tmp_path)
    for name, own in found.ledgers.items():
        assert f"<h3>{name}</h3>" in section(page, "ledger")
        assert own.charges[0].label in plain(section(page, "ledger"))
    assert "The ledgers" in page


def test_parties_have_a_table_of_questions(tmp_path):
    model = KINDS["VerticalKMeans"][0]()
    words = plain(section(page_of(model, tmp_path), "transcript"))
    assert "question rounds bytes to parties bytes from parties" in words
    for question, traffic in model.transcript_.by_question.items():
        numbers = " ".join(f"{value:,}" for value in traffic)
        assert f"{question} {numbers}" in words


def test_a_fit_of_a_cluster_has_a_report(tmp_path):
    pytest.importorskip("distributed")
    from dask import array as da
    from distributed import Client, LocalCluster

    from kvariates.dask import KMeans as DaskKMeans

    cluster = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with LocalCluster(**cluster, dashboard_address=":0") as made, Client(made) as client:
        rows = da.from_array(X, chunks=(100, -1))
        model = DaskKMeans(4, client=client, random_state=0).fit(rows)
        pages = [page_of(model, tmp_path, given) for given in (None, rows, X)]
    for page in pages:
        assert shown_centers(page) == [[number(v) for v in row] for row in model.cluster_centers_]
        assert "<Client" not in page.replace("&lt;", "<")
        assert "client=client" in page
    assert 'id="sizes"' not in pages[0]  # labels are not computed for it
    labels = np.asarray(KMeans(4, init=model.cluster_centers_, max_iter=1).fit(X).predict(X))
    sizes = np.bincount(labels, minlength=4)
    assert shown_sizes(pages[1]) == shown_sizes(pages[2]) == sizes.tolist()


# ---- files and errors ----


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (lambda: KMeans(3), None, "no centres"),
        (lambda: AntiClustering(3).fit(X), None, "has groups and no centres"),
        (lambda: KMeans(3, random_state=0).fit(X), X[:, :2], "features"),
        (lambda: KMeans(3, random_state=0).fit(X), np.full((9, 3), np.nan), "missing or infinite"),
        (lambda: KMeans(3, random_state=0).fit(X), ["a"], "table of numbers"),
        (KINDS["VerticalKMeans"][0], [X[:, :2], X[:, 2:]], r"The parties have \[2, 1\] columns"),
        (KINDS["VerticalKMeans"][0], [X[:, :1], X[:9, 1:]], "as many rows"),
        (KINDS["VerticalKMeans"][0], X, "a list of the columns of each party"),
        (lambda: "model", None, "no centres"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(model, rows, message, tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises((TypeError, ValueError), match=message) as error:
        write_report(model(), path, rows)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_replaced_at_once(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    model = KMeans(3, random_state=0).fit(X)
    write_report(model, path)
    first = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(KMeans(2, random_state=0).fit(X), str(path))
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_path_that_cannot_be_written_is_one_error(tmp_path):
    (tmp_path / "file").write_text("a file, not a folder")
    model = KMeans(3, random_state=0).fit(X)
    for path in (tmp_path / "file" / "report.html", tmp_path):
        with pytest.raises(OSError, match=re.escape(str(path))) as error:
            write_report(model, path)
        assert "\n" not in str(error.value)
        assert error.value.__suppress_context__ or error.value.__context__ is None
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
