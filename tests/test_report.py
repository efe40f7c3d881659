"""Reports: one offline file, safe for any names, with what was found and what is known of it."""

import base64
import hashlib
import itertools
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
from kvariates.report.cost_words import cost_change
from kvariates.report.curves import AxisScale, Line, lines, tick_words
from kvariates.report.figures import Bar, bars, share_bar
from kvariates.report.fit import ShownRows, write_fit
from kvariates.report.fit_page import fit_html
from kvariates.report.option_words import as_options
from kvariates.report.page import Section, number, number_within, page_html, table, text, visible

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


def flag_case(share, n=1000):
    """Two columns that tell clusters apart, and a flag that few rows have."""
    centers = np.array([[0.0, 0.0], [5.0, -3.0], [10.0, -6.0]])
    X = centers[np.arange(n) % 3] + rng().normal(size=(n, 2))
    flag = np.zeros(n)
    flag[rng(1).choice(n, max(1, round(share * n)), replace=False)] = 1
    return kmeans_case(np.column_stack([X, flag]), 3, ("spend", "age", "vip"))


@pytest.mark.parametrize("share", [0.001, 0.003, 0.005, 0.0055, 0.02])
def test_a_rare_flag_does_not_set_clusters_apart_by_chance(share):
    run, shown = flag_case(share)
    found = contrast(run, shown)
    exact = (run.centers[:, 2] - shown.X[:, 2].mean()) / shown.X[:, 2].std()
    np.testing.assert_allclose(found.difference[:, 2], exact, rtol=0.2)
    for i in range(3):
        words = in_words(found, run.centers[i], i, run.table.names)
        assert "vip" not in words
    assert np.abs(found.difference[:, 0]).max() > 1


def test_a_far_row_does_not_hide_what_sets_clusters_apart():
    X = blobs(2000, 2, 3)
    X[5] = 1e9, 1e9
    run, shown = kmeans_case(X, 4, ("a", "b"))
    found = contrast(run, shown)
    assert found.measured_by == "the rows (the outermost 1 % clipped)"
    assert (np.abs(found.difference).max(axis=1) > 0.5).all()


def test_clipping_is_said_only_where_it_was_done():
    run, shown = flag_case(0.003)
    words = "the rows (the outermost 1 % clipped, but for columns with rare values)"
    assert contrast(run, shown).measured_by == words
    few = replace(shown, X=shown.X[:150], labels=shown.labels[:150])
    assert contrast(run, few).measured_by == "the rows"
    X = sparse.csr_matrix(shown.X)
    whole = contrast(run, replace(shown, X=X))
    dense = contrast(run, replace(shown, sparse=True))  # as the command draws a sparse matrix
    assert whole.measured_by == dense.measured_by == "the rows"
    np.testing.assert_allclose(whole.difference, dense.difference, rtol=1e-6)
    assert "standard deviations of the synopses" in plain(page_of("stream"))


def test_numbers_in_words_differ_if_values_do():
    X = np.repeat([[998.12, 0.0], [998.34, 1.0]], 20, axis=0) + 1e-5 * rng().normal(size=(40, 2))
    run, shown = kmeans_case(X, 2, ("a", "b"))
    words = in_words(contrast(run, shown), run.centers[0], 0, ("a", "b"))
    assert not re.search(r"\((\S+) against \1\)", words)


def test_sizes_of_weighted_rows_are_weights():
    X = blobs(90, 2, 3)
    model = KMedian(3, random_state=0).fit(X)
    run = run_of(model, X, ("a", "b"), weighted=True, weights="people <x>")
    order = np.argsort(run.sizes, kind="stable")
    masses = np.empty(3)
    masses[order] = 700.0, 200.0, 100.0  # the smallest cluster is the heaviest
    page = fit_html(replace(run, masses=masses), ShownRows(X, model.labels_, run.centers))
    sizes = page[page.index('id="sizes"') : page.index('id="centres"')]
    words = re.findall(r'class="value">([^<]*)<', sizes)
    widths = [float(w) for w in re.findall(r'<rect[^>]*width="([\d.]+)%"', sizes)]
    assert [w.split(" · ")[0] for w in words] == ["weight 700", "weight 200", "weight 100"]
    assert [w.split(" · ")[1] for w in words] == ["70.0%", "20.0%", "10.0%"]
    assert [w.split(" · ")[2] for w in words] == [f"{n} rows" for n in np.sort(run.sizes)]
    np.testing.assert_allclose(widths, [100, 200 / 7, 100 / 7], atol=0.01)
    assert "(column people <x>)" in plain(page)
    assert "total weight, 1,000." in plain(page)
    assert [c["pairs"][-1] for c in data_of(page)["clusters"]] == [
        ["weight", number(m)] for m in masses
    ]


def test_one_of_a_thing_is_in_the_singular():
    X = np.vstack([np.zeros((5, 2)), [[9.0, 9.0]]])
    page = fit_html(*kmeans_case(X, 2, ("a", "b")))
    assert "1 row ·" in plain(page)
    assert "1 rows" not in plain(page)
    assert 'in 1 cluster"' in fit_html(*kmeans_case(X, 1, ("a", "b")))


def test_tables_have_scopes_and_names():
    for page in (page_of("two_columns"), page_of("stream"), table(["a <b>", "c"], [["1", "2"]])):
        elements = Elements(page)
        assert all(th.get("scope") == "col" for th in elements.tags("th"))
        scrolled = [d for d in elements.tags("div") if "scroll" in d.get("class", "")]
        assert all(d["tabindex"] == "0" and d["role"] == "region" for d in scrolled)
        assert all(d["aria-label"] for d in scrolled)
    assert scrolled[0]["aria-label"] == "Table: a <b>, c"


def test_the_cost_has_its_unit():
    X = blobs(60, 2, 2)
    run, shown = kmeans_case(X, 2, ("a", "b"), weighted=True, scaled=True)
    words = plain(fit_html(run, shown))
    assert "the squared distances of the rows to their centres, each times its weight, in" in words
    assert "in scaled units" in words
    assert "in scaled units" not in plain(page_of("two_columns"))
    model = KMedian(3, metric="haversine", random_state=0).fit(np.radians(X))
    run = run_of(model, X, ("lat", "lon"))
    words = plain(fit_html(run, ShownRows(X, model.labels_, X[model.medoid_indices_])))
    mean = 6371.0088 * model.inertia_ / 60
    assert f"The mean distance is {number(mean)} km." in words


def test_numbers_of_the_library_are_written_as_those_of_the_page():
    X = blobs(300, 2, 3) * 1e4
    model = KMedian(3, random_state=0).fit(X)
    run = run_of(model, X, ("a", "b"))
    words = plain(fit_html(run, ShownRows(X, model.labels_, model.cluster_centers_)))
    assert f"{model.inertia_:.6g}" in model.guarantee_.explain()
    assert "e+" in f"{model.inertia_:.6g}"
    assert "e+" not in words
    assert words.count(number(model.inertia_, 6)) >= 2


def test_degrees_are_not_distances():
    note = "Degrees are not distances"
    words = plain(page_of("cities"))
    assert note in words
    assert "--objective median --metric haversine measures" in words
    run, shown = case("cities")
    assert 'kvariates.KMedian(metric="haversine")' in plain(
        fit_html(replace(run, command=""), shown)
    )
    assert note not in plain(page_of("two_columns"))
    model = KMedian(3, metric="haversine", random_state=0).fit(np.radians(shown.X))
    run = run_of(model, shown.X, run.table.names)
    shown = ShownRows(shown.X, model.labels_, shown.X[model.medoid_indices_])
    assert note not in plain(fit_html(run, shown))


# ---- colours ----

EYES = {  # linear RGB as such eyes see it (Machado, Oliveira, Fernandes 2009)
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def oklab(color, eyes):
    parts = np.array(list(bytes.fromhex(color[1:]))) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(EYES[eyes] @ linear, 0, 1)
    to_lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    to_lab = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    return to_lab @ np.cbrt(to_lms @ seen)


@pytest.mark.parametrize(
    ("dark", "least"),
    [(False, (0.109, 0.107, 0.107, 0.041)), (True, (0.091, 0.081, 0.071, 0.029))],
)
def test_colours_are_as_far_apart_as_the_palette_says(dark, least):
    colors = [lighter(c) for c in PALETTE] if dark else PALETTE
    for eyes, said in zip(EYES, least, strict=True):
        places = [oklab(color, eyes) for color in colors]
        gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(places, 2)]
        assert min(gaps) == pytest.approx(said, abs=0.0006)


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
    assert "read once for the centres" in words
    assert "read again for the labels" in words
    assert "read again" not in plain(fit_html(replace(run, command=""), None))
    for error in (0.0, 1.5):
        spread = replace(run.model.spread_, standard_error=error)
        kept = {
            n: getattr(run.model, n) for n in ("synopses_", "synopsis_weights_", "n_rows_seen_")
        }
        model = SimpleNamespace(**kept, spread_=spread)
        words = plain(fit_html(replace(run, model=model), None))
        assert ("±" in words) == (error > 0)


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
    shown = ["0", "12", "1,234,567", "1,235", "0.0001235", "1e\u221209", "\u22123.142", "2.5",
             "1e+20", "∞", "unknown"]  # fmt: skip
    assert [number(v) for v in given] == shown


@pytest.mark.parametrize(
    ("low", "high"),
    [(998.04, 998.97), (37.7611, 37.7612), (143_230_000, 143_310_000), (3.87e26, 3.881e26),
     (-0.5, 0.02), (0, 12), (1.2e-9, 1.3e-9), (1e9, 1e9 + 3)],
)  # fmt: skip
def test_labels_of_curves_differ_and_are_right(low, high):
    ticks = AxisScale(low, high, 0, 1).ticks(5)
    words = tick_words(ticks)
    assert len(set(words)) == len(words) >= 3
    step = ticks[1] - ticks[0]
    for word, tick in zip(words, ticks, strict=True):
        assert abs(float(word.replace(",", "").replace("\u2212", "-")) - tick) < 1e-3 * step
    html = lines([Line("cost", [1, 2], [low, high])], "step", "cost")
    longest = max(map(len, re.findall(r'class="end"[^>]*>([^<]*)<', html)))
    assert f'class="chart l{longest}"' in html  # the room at the left


def test_curves_that_hardly_change_have_a_scale():
    for values in ([5.0, 5.0], [1e300, 1e300], [0.0, 0.0], [7.0, 7.0 + 1e-15]):
        assert "nan" not in lines([Line("cost", [1, 2], values)], "step", "cost")


def test_a_number_within_a_range_has_digits_enough():
    assert number_within(12345.678, 0.5) == "12,345.678"
    assert number_within(12345.678, 1e5) == "12,346"
    assert number_within(0.0, 1.0) == "0"


def test_how_the_cost_changed():
    assert cost_change(200.0, 100.0).endswith("100 after the last: 50.0% less.")
    assert "did not change" in cost_change(37.5, 37.5)
    little = cost_change(37.761234, 37.761233)
    assert little.endswith("less than 0.1% less.")
    assert "37.761234 after the first" in little
    assert cost_change(1.0, 2.0).endswith("100.0% more.")
    run, shown = case("two_columns")
    assert "0.0%" not in plain(fit_html(replace(run, costs=(5.0, 5.0)), shown))


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
