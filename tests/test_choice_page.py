"""Reports of fits whose number of clusters was chosen: the section, and summary.json."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from api import choice_section, fit_html, write_fit
from browser.pages import plain
from browser.reports import blobs, case
from cli.test_fit import run

from kvariates import choose_k, plot

CHOICE = choose_k(blobs(300, 2, 3), (1, 6), random_state=0)


def run_with(choice, **more):
    found, shown = case("two_columns")
    return replace(found, choice=choice, **more), shown


def test_the_section_has_every_k_and_marks_the_choice():
    found, shown = run_with(CHOICE)
    page = fit_html(found, shown)
    assert '<a href="#choice">Number of clusters</a>' in page
    section = page.split('<section id="choice">')[1].split("</section>")[0]
    rows = re.findall(r"<tr>(?:<td[^>]*>[^<]*</td>)+</tr>", section)
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert [int(row[0]) for row in cells] == CHOICE.ks.tolist()
    costs = [float(row[1].replace(",", "")) for row in cells]
    np.testing.assert_allclose(costs, CHOICE.inertia, rtol=1e-5)
    assert [int(row[2]) for row in cells] == CHOICE.dividing.tolist()
    assert cells[0][3] == "-"
    assert [int(row[0]) for row in cells if row[-1] == "chosen"] == [CHOICE.k]
    assert f"chosen: {CHOICE.k}: " in section  # the marked point of both curves
    assert section.count("<svg role=") == 2
    assert CHOICE.reason in plain(section)


def test_an_answer_that_is_not_clear_names_the_guess_everywhere(tmp_path):
    X = blobs(400, 2, 1)
    pd.DataFrame(X, columns=["x", "y"]).to_csv(tmp_path / "a.csv", index=False)
    words = ["fit", tmp_path / "a.csv", "-k", "auto", "--seed", 0, "-o", tmp_path / "out"]
    said = run(*words)
    choice = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["choice"]
    guess = choice["guess"]
    assert (choice["k"], choice["clear"]) == (1, False)
    sure = f"all rows stay one cluster, and k = {guess} is only a guess."
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    section = page.split('<section id="choice">')[1].split("</section>")[0]
    assert sure in " ".join(said.stderr.split())
    assert sure in plain(section)
    assert "chosen: 1: " in section
    assert f"guess: {guess}: " in section
    ax = plot.choice(choose_k(X, (1, 20), random_state=0))
    assert {line.get_xdata()[0] for line in ax.get_lines()[:2]} == {1, guess}
    compared = run("compare", tmp_path / "a.csv", "-k", "2:4", "--seed", 0).stdout
    assert "The answer is not clear: k = " in compared


def test_small_silhouettes_look_small():
    """The axis has 0 and 0.25: differences of noise are not drawn over its whole height."""
    silhouette = np.array([np.nan, 0.02, 0.021, 0.019, 0.02, 0.022])
    found, _ = run_with(replace(CHOICE, silhouette=silhouette))
    figure = choice_section(found).split("<figure>")[2]
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+%" cy="([\d.]+)%"', figure)[:5]]
    assert np.ptp(heights) < 2  # per cent


@pytest.mark.parametrize(
    "X", [np.ones((9, 2)), np.repeat(np.eye(3), 20, axis=0), np.arange(8.0).reshape(4, 2)]
)
def test_choices_without_a_cost_or_a_silhouette_have_a_section(X):
    most = len(np.unique(X, axis=0))
    for low in (1, most):
        choice = choose_k(X, (low, most), random_state=0)
        html = choice_section(run_with(choice)[0])
        assert html.count("<tr>") == 1 + len(choice.ks)
        assert "nan" not in html


def test_texts_name_options_if_the_command_made_the_page():
    choice = replace(CHOICE, reason="no clear answer: try a larger k_range.")
    python = choice_section(run_with(choice, command="KMeans(3).fit(X)")[0])
    shell = choice_section(run_with(choice, command="kvariates fit a.csv -k auto")[0])
    assert "k_range" in python
    assert "k_range" not in shell


def test_a_given_number_has_no_section(tmp_path):
    found, shown = run_with(None)
    assert choice_section(found) == ""
    write_fit(found, shown, tmp_path)
    assert "choice" not in json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert 'id="choice"' not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_private_run_does_not_carry_the_choice(tmp_path):
    found, shown = case("private")
    assert found.private
    write_fit(replace(found, choice=CHOICE), shown, tmp_path)
    assert "choice" not in json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert "Number of clusters" not in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("stream", [False, True])
def test_the_command_writes_how_it_chose(tmp_path, stream):
    X = blobs(400, 2, 3)
    pd.DataFrame(X, columns=["x", "y"]).to_csv(tmp_path / "a.csv", index=False)
    words = ["-k", "auto", "--seed", 3, "-o", tmp_path / "out", *["--stream"] * stream]
    assert run("fit", tmp_path / "a.csv", *words).exit_code == 0
    found = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    choice = found["choice"]
    assert choice["k"] == len(found["clusters"])
    assert choice["tried"] == list(range(1, 21))
    assert len(choice["costs"]) == len(choice["silhouettes"]) == 20
    assert choice["silhouettes"][0] is None
    assert choice["reason"] in plain(page)
    assert ("weighted synopses of the rows" in plain(page)) == stream
    if not stream:
        expected = choose_k(X, (1, 20), random_state=3)
        assert (choice["k"], choice["clear"]) == (expected.k, expected.clear)
        np.testing.assert_allclose(choice["costs"], expected.inertia)


def test_the_command_in_the_page_has_no_folders_and_k_comes_before_the_cost(tmp_path):
    pd.DataFrame(blobs(400, 2, 3), columns=["x", "y"]).to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "out"
    assert run("fit", tmp_path / "a.csv", "-k", "auto", "--seed", 3, "-o", out).exit_code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert str(tmp_path) not in page
    assert "kvariates fit a.csv -k auto --seed 3 -o out --force" in plain(page)
    ids = re.findall(r'<section id="(\w+)"', page)
    assert ids.index("choice") + 1 == ids.index("cost")
