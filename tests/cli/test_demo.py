"""`kvariates demo`, `--version` and `--help`."""

import csv
import html
import re
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from api import (
    FoldTrials,
    app,
    folds_section,
    load_cities,
    load_town,
    name_regions,
    straight_choice,
)
from api import cities_module as private_cities
from api import demo_module as demo_page
from api import screen_module as screen
from browser.conftest import browser  # noqa: F401 (a fixture)
from browser.visits import DESK, PHONE, Visit
from rich.progress import Progress
from scipy.sparse.csgraph import connected_components, dijkstra
from typer.testing import CliRunner

import kvariates
from kvariates import AntiClusterKFold

FILES = ["picture.png", "regions.csv", "report.html"]


class Demo(NamedTuple):
    """A run of the command: what it printed, its folder, and what the page was made from."""

    printed: Any
    out: Path
    results: Any


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The command with two private fits for each budget."""
    out, kept = tmp_path_factory.mktemp("demo") / "out", []
    solve = demo_page.solve_others
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_cities, "RUNS", 2)
        patch.setattr(
            demo_page, "solve_others", lambda *given: kept.append(solve(*given)) or kept[0]
        )
        return Demo(CliRunner().invoke(app, ["demo", "-o", str(out)]), out, kept[0])


def test_the_regions_contain_all_cities(demo):
    result, out = demo.printed, demo.out
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in out.iterdir()) == FILES
    with (out / "regions.csv").open(encoding="utf-8", newline="") as file:
        regions = list(csv.DictReader(file))
    cities = load_cities()
    assert len(regions) == 12
    assert sum(int(r["cities"]) for r in regions) == len(cities.names)
    assert sum(int(r["people"]) for r in regions) == int(cities.people.sum())
    assert sum(float(r["share"]) for r in regions) == pytest.approx(1)
    for region in regions:
        assert region["region"] in result.stdout


def test_the_page_has_all_four_problems_and_needs_no_network(demo):
    page = (demo.out / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', page) == ["cities", "private", "facilities", "folds"]
    assert len(page) < 6e6
    assert re.findall(r'(?:src|href|action)="(?!data:|#)[^"]*"', page) == []
    assert "2 fits for each budget" in page
    assert "OpenStreetMap contributors" in page
    assert "GeoNames, CC BY 4.0" in page
    for name in ("nan", "inf "):
        assert f">{name}" not in page
    assert "report.html" in demo.printed.stdout


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_works_in_a_browser(demo, browser, theme, viewport):  # noqa: F811
    with Visit(browser, demo.out / "report.html", viewport=viewport, color_scheme=theme) as visit:
        visit.settle()
        wide = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        loaded = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
        assert visit.page.evaluate(loaded)
        assert visit.pixels(visit.css("k3")) > 0  # areas are drawn in the colours of facilities
        visit.shot(f"demo-{theme}-{viewport['width']}")
        assert visit.wrong == []


def test_the_map_can_be_repeated(tmp_path, demo):
    with Progress(disable=True) as progress:
        demo_page.draw_regions(tmp_path, partial(screen.phase, progress))
    for name in ("regions.csv", "picture.png"):
        assert (tmp_path / name).read_bytes() == (demo.out / name).read_bytes()


def test_after_ctrl_c_the_map_is_kept(monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_page, "solve_others", interrupted)
    monkeypatch.setattr(demo_page.world, "write_regions", lambda *given: given[-1].joinpath(
        "picture.png").write_bytes(b"map"))  # fmt: skip
    result = CliRunner().invoke(app, ["demo", "-q", "-o", str(tmp_path / "out")])
    assert result.exit_code == 130
    assert "report.html was not written" in result.stderr
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "picture.png"]


def test_a_missing_package_is_said_before_anything_is_written(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "opendp", None)
    result = CliRunner().invoke(app, ["demo", "-q", "-o", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "kvariates: kvariates demo needs opendp, which is not installed"
    )
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_files_that_exist_are_not_replaced(tmp_path):
    (tmp_path / "report.html").write_text("of a fit")
    result = CliRunner().invoke(app, ["demo", "-q", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "report.html: exists; --force replaces it" in result.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of a fit"]


# ---- the problems ----


def test_private_fits_are_priced_against_all_cities(demo):
    cities, found = load_cities(), demo.results.private
    for model, epsilon, ratio in zip(
        found.models, private_cities.EPSILONS, found.price.ratios[:, 0], strict=True
    ):
        assert model.ledger_.claim.epsilon == epsilon
        assert model.ledger_.total().epsilon <= epsilon
        cost = -model.score(cities.places)
        assert cost / found.price.against == pytest.approx(ratio)
    best = np.square(cities.places[:, None] - found.plain_centers).sum(axis=2).min(axis=1).sum()
    assert found.price.against == pytest.approx(best)


def test_the_code_of_the_price_runs(demo):
    found = demo.results.private
    page = (demo.out / "report.html").read_text(encoding="utf-8")
    code = html.unescape(re.search(r"<pre>(best = KMeans.*?)</pre>", page, re.DOTALL)[1])
    names = {"KMeans": kvariates.KMeans, "PrivateKMeans": kvariates.PrivateKMeans,
             "places": load_cities().places, "privacy": kvariates.privacy}  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* may be only noise")  # of the smallest budget
        exec(code.replace("runs=2", "runs=1"), names)
    assert names["best"].inertia_ == found.price.against


def test_the_town_is_one_connected_network():
    town = load_town()
    assert (len(town.places), len(town.streets), len(town.areas)) == (7707, 11842, 1227)
    assert connected_components(town.graph, directed=False)[0] == 1
    assert town.people.sum() == town.table["population"].sum() == 812_935
    assert town.metres.sum() == pytest.approx(1_396_000, rel=1e-3)
    # A street is not shorter than the straight line, but for rounding.
    a, b = np.radians(town.places[town.streets]).transpose(1, 0, 2)
    across = (a - b) * [np.cos(np.radians(-30.05)), 1]
    assert (town.metres > 0.995 * 6_371_000 * np.linalg.norm(across, axis=1) - 1).all()


def test_the_plan_is_proved_and_better_than_simple_choices(demo):
    town, plan = demo.results.town, demo.results.plan
    people, total = town.people, town.people.sum()
    ways = dijkstra(town.graph, indices=plan.nodes).min(axis=0)
    np.testing.assert_allclose(plan.ways, ways)
    assert plan.mean == pytest.approx(ways @ people / total)
    straight = dijkstra(town.graph, indices=straight_choice(town)).min(axis=0)
    assert plan.straight_mean == pytest.approx(straight @ people / total)
    assert plan.bound <= plan.mean < plan.straight_mean < plan.random_means.min()
    assert plan.certificate.gap < 0.02
    assert plan.certificate.cost == pytest.approx(plan.mean * total)


def test_folds_are_measured_as_said(demo):
    town, found = demo.results.town, demo.results.folds
    assert found.difference.shape == found.random_difference.shape == (20, 6)
    assert (found.difference.mean(axis=0) < found.random_difference.mean(axis=0)).all()
    X = standard_table(town)
    folds = list(AntiClusterKFold(5, random_state=3).split(X[:, :-1], X[:, -1]))
    worst = np.max([np.abs(X[test].mean(axis=0)) for _, test in folds], axis=0)
    np.testing.assert_allclose(found.difference[3], worst)
    errors = []
    for train, test in folds:
        A, B = (np.column_stack([X[rows, :-1], np.ones(len(rows))]) for rows in (train, test))
        errors.append(np.mean((B @ (np.linalg.pinv(A) @ X[train, -1]) - X[test, -1]) ** 2))
    assert found.errors[3] == pytest.approx(np.mean(errors))


def standard_table(town):
    columns = [town.areas[:, 0], town.areas[:, 1]]
    columns += [np.log1p(town.table[c]) for c in ("population", "schools", "healthcare", "jobs")]
    X = np.column_stack(columns)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_cities_are_unit_vectors():
    cities = load_cities()
    np.testing.assert_allclose(np.linalg.norm(cities.places, axis=1), 1)
    assert (np.diff(cities.people) <= 0).all()
    quito = cities.places[cities.names.index("Quito")]
    assert abs(quito[2]) < 0.01  # on the equator
    assert cities.places[cities.names.index("London")][1] == pytest.approx(0, abs=0.01)


def test_a_region_is_named_after_a_large_city_near_its_centre():
    cities = load_cities()
    north = (cities.places[:, 2] < 0).astype(int)
    centers = np.array([[0, 0, 1.0], [0, 0, -1.0]])
    regions = name_regions(cities, north, centers)
    assert [r.cities for r in regions] == [int((north == j).sum()) for j in (0, 1)]
    assert regions[0].largest[0] == "Shanghai"
    for j, region in enumerate(regions):
        assert north[region.city] == j
        assert cities.names[region.city] == region.name


def test_version_and_help_are_printed():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"kvariates {kvariates.__version__}\n")
    for words in ([], ["--help"], ["fit", "-h"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0
        assert "Usage" in result.stdout


def test_an_unexpected_error_is_not_caught(monkeypatch, tmp_path):
    def broken():
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("kvariates.demo.cities.load_cities", broken)
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []


def test_the_verdict_on_folds_follows_the_data():
    few, many = np.full((2, 1), 0.1), np.full((2, 1), 0.4)
    steady, loose = np.array([0.50, 0.51]), np.array([0.60, 0.90])
    good = folds_section(FoldTrials(9, ("a",), few, many, steady, loose)).html
    bad = folds_section(FoldTrials(9, ("a",), many, few, loose, steady)).html
    only_good = ("4 times closer", "4 times smaller", "made this one number", "error looks smaller")
    only_bad = ("4 times farther away", "4 times larger", "did not make this one number")
    assert [words in good for words in (*only_good, *only_bad)] == [True] * 4 + [False] * 3
    assert [words in bad for words in (*only_good, *only_bad)] == [False] * 4 + [True] * 3
