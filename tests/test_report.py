"""Reports: one offline file, safe for any names."""

import base64
import hashlib
import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from api import Section, fit_html, page_html, text, visible, write_fit
from browser.pages import Elements, data_of, decoded, page_of, plain
from browser.reports import CASES, NASTY, blobs, case, kmeans_case, rng


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
