"""Reports: one offline file, safe for any names, with what was found and what is known of it."""

import base64
import hashlib
import json
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from browser.pages import Elements, data_of, decoded, page_of, plain
from browser.reports import CASES, NASTY, blobs, case, kmeans_case, rng, run_of
from scipy import sparse

from kvariates import KMedian
from kvariates.peers.transcript import Dropped, Transcript
from kvariates.report.cluster_words import contrast, in_words
from kvariates.report.colors import PALETTE, lighter, looks
from kvariates.report.curves import Line, lines
from kvariates.report.figures import Bar, bars, share_bar
from kvariates.report.fit import ShownRows, write_fit
from kvariates.report.fit_page import fit_html
from kvariates.report.option_words import as_options
from kvariates.report.page import Section, number, page_html, text, visible

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


# ---- what is said ----


def test_very_long_names_are_cut_and_are_whole_in_titles():
    names = ("a" * 5000, "b" * 300)
    run, shown = kmeans_case(blobs(200, 2, 3), 3, names)
    page = fit_html(replace(run, notes=("note " * 1000,)), shown)
    for name in names:
        whole = page.count(name)
        assert whole == page.count(f'title="{name}"') > 1  # of the centres, in the list of columns
        assert f"{name[:59]}…" in plain(page)
    assert max(map(len, plain(page).split())) < 100
    assert "note " * 200 not in plain(page)


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
    assert f"against {number(float(X[:, 0].mean() * 1000), 3)}" in words
    # the same words from rows in other units
    scaled = replace(shown, X=shown.X / 7 - 3, centers=shown.centers / 7 - 3)
    again = contrast(run, scaled)
    np.testing.assert_allclose(again.difference, found.difference, rtol=1e-9)
    np.testing.assert_allclose(again.average, (X * [1000, 1, 0.1]).mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("units", ["table", "others", "others, with values"])
def test_the_average_is_that_of_all_rows_with_their_weights(units):
    X = rng().lognormal(0, 2, size=(1000, 3))
    weights = rng(1).uniform(0, 1, 1000) * (X[:, 0] > 1)
    model = KMedian(2, random_state=0).fit(X)  # medoids are not means
    run = run_of(model, X, ("a", "b", "c"), weighted=True)
    shown = ShownRows(X, model.labels_, model.cluster_centers_, weights)
    if units != "table":
        given = X if "values" in units else None
        shown = ShownRows(X / 7, model.labels_, model.cluster_centers_ / 7, weights, given)
    exact = np.average(X, axis=0, weights=weights)
    centers = np.average(run.centers, axis=0, weights=run.shares)
    found = contrast(run, shown)
    np.testing.assert_allclose(found.average, centers if units == "others" else exact)
    low, high = np.quantile(X, [0.005, 0.995], axis=0)
    clipped = np.clip(X, low, high)
    mean = np.average(clipped, axis=0, weights=weights)
    spread = np.sqrt(np.average((clipped - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(found.difference, (run.centers - exact) / spread)


def test_sparse_rows_have_the_moments_of_dense_ones():
    X = sparse.random(500, 6, 0.3, format="csr", random_state=0)
    run, shown = kmeans_case(X, 3, tuple("abcdef"))
    weights = rng().uniform(0, 1, 500)
    found = contrast(run, replace(shown, weights=weights)).difference
    mean = np.average(X.toarray(), axis=0, weights=weights)
    spread = np.sqrt(np.average((X.toarray() - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(found, (run.centers - mean) / spread)


def test_rows_that_were_left_out_count_in_numbers_of_rows():
    X = blobs(40, 2, 2)
    model = KMedian(2, random_state=0).fit(X)
    kept = np.repeat([False, True], [7, 40])
    run = run_of(model, X, ("a", "b"), kept=kept)
    page = fit_html(run, ShownRows(X, model.labels_, model.cluster_centers_))
    assert decoded(data_of(page)["rows"], "<u4").tolist() == list(range(7, 47))
    for i in model.medoid_indices_:
        assert f"row {i + 8}" in plain(page)
    assert "rows left out 7" in plain(page)
    assert "rows left out" not in page_of("two_columns")


def test_a_graph_without_coordinates_says_why_it_is_not_drawn():
    run, shown = case("network")
    why = "no drawing, because the file gives distances between points and no coordinates"
    assert why in plain(fit_html(run, None))
    assert why not in plain(fit_html(run, shown))


def test_what_is_unknown_is_left_out(tmp_path):
    run, shown = case("two_columns")
    table = replace(run.table, rows=None)
    write_fit(replace(run, table=table, inertia=None, n_iter=None, seconds=None), shown, tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_bytes())
    assert "rows" not in summary["data"]
    assert not {"inertia", "n_iter", "seconds", "certificate", "privacy"} & summary.keys()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    names = set(re.findall(r"<dt>([^<]*)</dt>", page))
    assert {"columns", "clusters"} <= names
    assert not {"rows", "cost (inertia)", "iterations", "seconds"} & names


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
    lines = run.model.guarantee_.explain().splitlines()
    words = plain(fit_html(replace(run, command=""), shown))
    assert all(" ".join(line.split()) in words for line in lines)
    words = plain(fit_html(run, shown))
    assert all(" ".join(as_options(line).split()) in words for line in lines)


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
    begin = time.process_time()
    write_fit(run, replace(shown, X=X, labels=labels), tmp_path)
    assert time.process_time() - begin < 5  # 0.1 s on an idle core
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
