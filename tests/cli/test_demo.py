"""`kvariates demo`, `--version` and `--help`."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import kvariates
from kvariates.cli import app
from kvariates.demo import load_cities, name_regions


def test_the_regions_contain_all_cities(tmp_path):
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["picture.png", "regions.csv"]
    with (tmp_path / "out" / "regions.csv").open(encoding="utf-8", newline="") as file:
        regions = list(csv.DictReader(file))
    cities = load_cities()
    assert len(regions) == 12
    assert sum(int(r["cities"]) for r in regions) == len(cities.names)
    assert sum(int(r["people"]) for r in regions) == int(cities.people.sum())
    assert sum(float(r["share"]) for r in regions) == pytest.approx(1)
    for region in regions:
        assert region["region"] in result.stdout


def test_the_demo_can_be_repeated(tmp_path):
    for name in ("a", "b"):
        CliRunner().invoke(app, ["demo", "-q", "-o", str(tmp_path / name)])
    for name in ("regions.csv", "picture.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


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

    monkeypatch.setattr("kvariates.cli.load_cities", broken)
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []
