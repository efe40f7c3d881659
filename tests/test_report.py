"""Reports: one offline file, safe for any names, with what was found and what is known of it."""

import base64
import hashlib
import json
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from browser.reports import CASES, NASTY, blobs, case, kmeans_case, rng

from kvariates.peers.transcript import Dropped, Transcript
from kvariates.report.cluster_words import contrast, in_words
from kvariates.report.colors import PALETTE, lighter, looks
from kvariates.report.curves import Line, lines
from kvariates.report.figures import Bar, bars, share_bar
from kvariates.report.fit import write_fit
from kvariates.report.fit_page import fit_html
from kvariates.report.map_places import city_near
from kvariates.report.page import Section, number, page_html, text, visible
from kvariates.report.plane import coordinates, plane, robust_limits, shown_rows


class Elements(HTMLParser):
    """Every element with its attributes, the texts, and the contents of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.found, self.words, self.code = [], [], {"script": [], "style": []}
        self.inside = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag in self.code:
            self.inside = tag
            self.code[tag].append("")

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        if self.inside:
            self.code[self.inside][-1] += data
        else:
            self.words.append(data)

    def tags(self, name):
        return [attributes for tag, attributes in self.found if tag == name]


def page_of(name):
    return fit_html(*case(name))


def data_of(page):
    """The numbers of the scatter plot."""
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])


def decoded(words, kind):
    return np.frombuffer(base64.b64decode(words), kind)


def plain(page):
    return " ".join(" ".join(Elements(page).words).split())


# ---- one file, alone ----


@pytest.mark.parametrize("name", CASES)
def test_a_page_needs_nothing_from_outside(name):
    page = page_of(name)
    elements = Elements(page)
    for tag, attributes in elements.found:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert not any(a == "style" or a.startswith("on") for a in attributes)
        for key in ("src", "href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import|https?://", "".join(elements.code["style"]))
    assert "fetch(" not in page
    assert len(page.encode()) < 6e6


def test_the_policy_allows_only_this_style_and_this_script():
    page = page_of("two_columns")
    elements = Elements(page)
    [policy] = [m["content"] for m in elements.tags("meta") if "http-equiv" in m]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    style, script = (
        elements.code["style"],
        [
            code
            for code, attributes in zip(
                elements.code["script"], elements.tags("script"), strict=True
            )
            if "type" not in attributes
        ],
    )
    for rule, [code] in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_names_of_any_kind_are_texts():
    page = page_of("nasty")
    run, shown = case("nasty")
    calm = fit_html(replace(run, table=replace(run.table, names=tuple("abcdefgh"))), shown)
    shape = [(tag, sorted(a)) for tag, a in Elements(page).found]
    assert shape == [(tag, sorted(a)) for tag, a in Elements(calm).found]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", page)
    assert set(data_of(page)["columns"]) == {visible(name) for name in NASTY}
    words = plain(page)
    for name in NASTY:
        assert " ".join(visible(name).split()) in words


def test_invisible_characters_are_replaced():
    assert visible("a\x1b\x00\x7f\u202e\ud800b") == "a\u241b\u2400\u2421\ufffd\ufffdb"
    assert visible("日本語 ë 🎈 \u0915\u094d\u200d") == "日本語 ë 🎈 \u0915\u094d\u200d"
    assert text('<&">') == "&lt;&amp;&quot;&gt;"


def test_files_with_names_of_any_kind_are_written(tmp_path):
    run, shown = case("nasty")
    odd = replace(run, table=replace(run.table, path=run.table.path.with_name("x\udcff.csv")))
    write_fit(odd, shown, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"centers.csv", "summary.json", "report.html"}
    assert json.loads((tmp_path / "summary.json").read_bytes())["data"]["path"] == "x\udcff.csv"
    (tmp_path / "report.html").read_text(encoding="utf-8")


# ---- which rows, and where ----


def test_shown_rows_come_from_every_cluster_in_proportion():
    labels = rng().permutation(np.repeat(np.arange(4), [60_000, 30_000, 9_990, 10]))
    rows = shown_rows(labels, 4, 1000)
    assert len(rows) <= 1000
    assert (np.diff(rows) > 0).all()
    sizes = np.bincount(labels[rows])
    assert sizes[3] == 10
    np.testing.assert_allclose(sizes[:3] / sizes[:3].sum(), [0.6, 0.3, 0.1], atol=0.02)
    assert shown_rows(labels[:50], 4, 1000).tolist() == list(range(50))


def test_one_far_row_does_not_move_the_frame():
    X, centers = rng().normal(size=(500, 2)), np.zeros((1, 2))
    before = np.array(robust_limits(X, centers))
    X[3] = 1e9, -1e9
    flat = plane(X, centers, ("a", "b"))
    after = np.array(flat.limits)
    width = before[:, 1] - before[:, 0]
    assert (after[:, 1] - after[:, 0] < 3 * width).all()
    assert flat.n_outside == 1
    inside = ((after[:, 0] < X) & (after[:, 1] > X)).all(axis=1)
    assert inside.sum() == 499


def test_one_far_row_does_not_turn_the_principal_directions():
    X = rng().normal(size=(1000, 6)) * [9, 6, 1, 1, 1, 1]
    X[5, 4] = 1e7
    flat = plane(X, X[:3], tuple("abcdef"))
    found = np.abs(np.corrcoef(np.delete(flat.points, 5, 0).T, np.delete(X, 5, 0)[:, :2].T))
    assert found[0, 2] > 0.95
    assert found[1, 3] > 0.95


@pytest.mark.parametrize("n", [1, 5, 300])
def test_equal_rows_have_a_frame(n):
    for d in (1, 2, 5):
        flat = plane(np.full((n, d), 3.0), np.full((1, d), 3.0), tuple("abcde"[:d]))
        assert flat.n_outside == 0
        assert all(low < high for low, high in flat.limits)


def test_points_of_the_page_are_the_points_of_the_data():
    run, shown = case("two_columns")
    data = data_of(fit_html(run, shown))
    points = decoded(data["points"], "<u2").reshape(-1, 2).astype(float)
    low, high = np.array(data["limits"]).T
    outside = ((points == 0) | (points == 65535)).any(axis=1)
    assert outside.sum() >= 1
    assert outside[7]
    found = low + (points - 1) / 65533 * (high - low)
    np.testing.assert_allclose(found[~outside], shown.X[~outside], atol=(high - low).max() / 65533)
    np.testing.assert_array_equal(decoded(data["labels"], "<u2"), shown.labels)
    np.testing.assert_allclose(
        decoded(data["values"], "<f4").reshape(-1, 2), shown.X.astype("f4"), rtol=1e-6
    )
    assert "an arrow at its border" in page_of("two_columns")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("lat", "lon"), (0, 1)),
        (("Longitude", "city", "LATITUDE"), (2, 0)),
        (("stop_lat", "stop_lon"), (0, 1)),
        (("latency", "longest"), None),
        (("lat", "lat2", "lon"), (0, 2)),
        (("plate", "lon"), None),
    ],
)
def test_columns_that_look_like_degrees(names, found):
    X = rng().uniform(-80, 80, size=(20, len(names)))
    assert coordinates(X, X, names) == found
    assert coordinates(X * 10, X * 10, names) is None  # too large for degrees


def test_a_map_has_degrees_land_and_regions():
    data = data_of(page_of("cities"))
    assert data["degrees"]
    assert data["regions"]
    assert len(decoded(data["land"], "<u2")) > 5000
    assert not data_of(page_of("fifty"))["regions"]


def test_a_place_is_named_after_a_large_city_near_it():
    places = [(2.2, 48.7), (139.5, 35.5), (-30.0, 30.0), (-140.0, -50.0)]
    assert city_near(np.array(places))[:2] == ("Paris", "Tokyo")
    assert city_near(np.array(places))[3] == ""
    assert "Grey dots" in plain(page_of("cities"))


@pytest.mark.parametrize("most", [170, 350])
def test_a_map_ends_where_the_world_does(most):
    X = np.column_stack([rng().uniform(-60, 80, 300), rng(1).uniform(0, most, 300)])
    flat = plane(X, X[:4], ("lat", "lon"))
    assert flat.degrees
    assert flat.n_outside == 0
    assert (flat.limits[0][1] <= 190) == (most < 180)
    alone = plane(None, X[:4], ("lat", "lon"))
    assert len(alone.points) == 0
    assert alone.degrees


def test_a_network_has_its_edges():
    run, shown = case("network")
    data = data_of(fit_html(run, shown))
    assert len(decoded(data["edges"], "<u2")) == 4 * len(shown.edges)
    words = plain(page_of("network"))
    assert "6 clusters of 600 points" in words
    assert f"point {run.model.medoid_indices_[0] + 1:,}" in words
    named = replace(run, medoids=tuple(f"crossing <{i}>" for i in range(6)))
    assert "crossing <5>" in plain(fit_html(named, None))


# ---- what is said ----


def test_fifty_clusters_have_fifty_looks():
    for seed in range(20):
        assert len(set(looks(rng(seed).normal(size=(50, 2))))) == 50
    assert len(set(looks(np.zeros((60, 2))))) == 60
    assert len(PALETTE) == len({lighter(c) for c in PALETTE}) == 12


def test_what_sets_a_cluster_apart():
    X = np.vstack([rng().normal(size=(900, 3)), rng(1).normal((9, 0, -3), size=(100, 3))])
    run, shown = kmeans_case(X * [1000, 1, 0.1], 2, ("income", "age", "debt"))
    found = contrast(run, shown)
    small = int(run.sizes.argmin())
    words = in_words(found, run.centers[small], small, run.table.names)
    assert words.startswith("income far above (")
    assert "age" not in words
    clipped = np.clip(X[:, 0], *np.quantile(X[:, 0], [0.005, 0.995]))
    mean = number(float(clipped.mean() * 1000), 3)
    assert f"against {mean}" in words
    # the same words from rows in other units
    scaled = replace(shown, X=shown.X / 7 - 3, centers=shown.centers / 7 - 3)
    again = contrast(run, scaled)
    np.testing.assert_allclose(again.difference, found.difference, rtol=1e-9)
    np.testing.assert_allclose(again.average, (X * [1000, 1, 0.1]).mean(axis=0), rtol=1e-9)


def test_the_page_says_what_was_run_and_what_is_known():
    run, _ = case("certified")
    words = plain(page_of("certified"))
    assert run.command in words
    assert "random_state" not in words
    assert str(run.model.certificate_) in words
    assert "at least 20 and at most 180 rows" in words
    assert run.model.guarantee_lost_ in words
    assert "no other labels within the limits cost less" in words
    assert f"{run.table.rows:,} rows" in words
    two = plain(page_of("two_columns"))
    assert "after the first iteration" in two
    assert "after the first iteration" not in words  # no costs were kept


def test_a_guarantee_is_explained():
    run, shown = kmeans_case(blobs(200, 2, 3), 3, ("a", "b"), parameters={"init": "d2"})
    words = plain(fit_html(run, shown))
    for line in run.model.guarantee_.explain().splitlines():
        assert " ".join(line.split()) in words


def test_a_stream_has_its_rows_synopses_and_spread():
    run, _ = case("stream")
    words = plain(page_of("stream"))
    assert f"rows seen 5,000 synopses {len(run.model.synopses_):,}" in words
    assert "memory of the synopses" in words
    assert number(run.model.spread_.value) in words


def test_a_transcript_is_shown():
    run, shown = case("two_columns")
    dropped = [Dropped("<clinic>", 4, "no answer")]
    transcript = Transcript(12, 48, 10_000, 2_500_000, 6, dropped, ["late"])
    model = SimpleNamespace(transcript_=transcript, n_clusters=6)
    words = plain(fit_html(replace(run, model=model), shown))
    for part in ("rounds 12", "messages 48", "10 kB", "2.5 MB", "rows revealed 6", "<clinic>"):
        assert part in words


def test_numbers_are_short_and_complete():
    given = [0, 12, 1234567, 1234.5678, 0.000123456, 1e-9, -3.14159, 2.50, 1e20, np.inf, np.nan]
    shown = ["0", "12", "1,234,567", "1,235", "0.0001235", "1.000e\u221209", "\u22123.142", "2.5",
             "1.000e+20", "∞", "unknown"]  # fmt: skip
    assert [number(v) for v in given] == shown


def test_bars_shares_and_curves_have_the_right_lengths():
    html = bars([Bar("a", 10.0, "10"), Bar("b", 5.0, "5"), Bar("c", -1.0, "-1")], [20.0])
    assert [r["width"] for r in Elements(html).tags("rect")] == ["50.000%", "25.000%", "0.000%"]
    html = share_bar([Bar("a", 3.0, "3"), Bar("b", 1.0, "1")])
    assert [r.get("x") for r in Elements(html).tags("rect")][:2] == ["0.000%", "75.000%"]
    html = lines([Line("cost", [1, 2, 3], [9.0, 4.0, 1.0])], "step", "cost")
    heights = [float(c["cy"][:-1]) for c in Elements(html).tags("circle")]
    np.testing.assert_allclose(np.diff(heights)[0] / np.diff(heights)[1], 5 / 3, rtol=1e-3)
    assert heights == sorted(heights)


def test_empty_sections_are_left_out():
    page = page_html("t", "l", [Section("a", "First", "<p>x</p>"), Section("b", "Second", "")])
    assert "Second" not in page


def test_a_large_report_is_small_and_quick(tmp_path):
    X = blobs(100_000, 10, 50)
    labels = rng().integers(0, 50, len(X))
    run, shown = kmeans_case(blobs(500, 10, 50), 50, [f"c{j}" for j in range(10)])
    sizes = np.bincount(labels)
    run = replace(run, sizes=sizes, masses=sizes * 1.0, table=replace(run.table, rows=len(X)))
    begin = time.perf_counter()
    write_fit(run, replace(shown, X=X, labels=labels), tmp_path)
    assert time.perf_counter() - begin < 2  # 0.1 s on an idle core
    assert (tmp_path / "report.html").stat().st_size < 3e6
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    shown = len(decoded(data_of(page)["labels"], "<u2"))
    assert 19_900 <= shown <= 20_000
    assert f"{shown:,} of 100,000 points are shown" in page


def test_many_clusters_are_listed_in_part(tmp_path):
    g, k = rng(), 2000
    run, shown = kmeans_case(blobs(100, 3, 4), 4, ("a", "b", "c"))
    centers, labels = g.normal(size=(k, 3)), g.integers(0, k, 30_000)
    sizes = np.bincount(labels, minlength=k)
    run = replace(run, centers=centers, sizes=sizes, masses=sizes * 1.0)
    write_fit(run, replace(shown, X=centers[labels], labels=labels, centers=centers), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<tr>") == 301
    assert "The 300 largest clusters" in page
    assert len(page) < 3e6
    data = data_of(page)
    assert len(data["clusters"]) == k
    assert 10_000 < len(decoded(data["labels"], "<u2")) <= 20_000


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**530, 2.0**990])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_very_large_and_very_small_numbers_are_shown(scale, d):
    run, shown = kmeans_case(blobs(300, d, 3), 3, "abcde"[:d])
    large = replace(shown, X=shown.X * scale, centers=shown.centers * scale)
    data = data_of(fit_html(replace(run, centers=run.centers * scale), large))
    assert data["points"] == data_of(fit_html(run, shown))["points"]
    assert np.isfinite(data["limits"]).all()
