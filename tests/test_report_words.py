"""What a report says of a fit, and that it is right."""

import json
import re
from dataclasses import replace

import numpy as np
from api import (
    Dropped,
    FitRecord,
    ShownRows,
    Transcript,
    as_options,
    contrast,
    fit_html,
    in_words,
    number,
    table,
    write_fit,
)
from browser.pages import Elements, data_of, decoded, page_of, plain
from browser.reports import blobs, case, kmeans_case, rng, run_of
from scipy import sparse

from kvariates import KMedian


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
    why = "no drawing, because the points have no coordinates"
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
    assert str(run.record.certificate) in words
    assert "at least 20 and at most 180 rows" in words
    assert run.record.lost in words
    assert "no other labels within the limits cost less" in words
    assert f"{run.table.rows:,} rows" in words
    two = plain(page_of("two_columns"))
    assert "after the first iteration" in two
    assert "after the first iteration" not in words  # no costs were kept


def test_a_guarantee_is_explained():
    run, shown = kmeans_case(blobs(200, 2, 3), 3, ("a", "b"), parameters={"init": "d2"})
    lines = run.record.guarantee.explain().splitlines()
    words = plain(fit_html(replace(run, command=""), shown))
    assert all(" ".join(line.split()) in words for line in lines)
    words = plain(fit_html(run, shown))
    assert all(" ".join(as_options(line).split()) in words for line in lines)


def test_a_stream_has_its_rows_synopses_and_spread():
    run, _ = case("stream")
    words = plain(page_of("stream"))
    assert f"rows seen 5,000 synopses {len(run.record.synopses):,}" in words
    assert "memory of the synopses" in words
    assert number(run.record.spread.value) in words
    assert "read once for the centres" in words
    assert "read again for the labels" in words
    assert "read again" not in plain(fit_html(replace(run, command=""), None))
    for error in (0.0, 1.5):
        spread = replace(run.record.spread, standard_error=error)
        words = plain(fit_html(replace(run, record=replace(run.record, spread=spread)), None))
        assert ("±" in words) == (error > 0)


def test_a_transcript_is_shown():
    run, shown = case("two_columns")
    dropped = [Dropped("<clinic>", 4, "no answer")]
    transcript = Transcript(12, 48, 10_000, 2_500_000, 6, dropped, ["late"])
    record = FitRecord(transcript=transcript)
    words = plain(fit_html(replace(run, record=record), shown))
    for part in ("rounds 12", "messages 48", "10 kB", "2.5 MB", "rows revealed 6", "<clinic>"):
        assert part in words
