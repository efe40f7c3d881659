"""`kvariates fit`: what its report says of the rows of the file."""

import json

import numpy as np
import pytest
from browser.pages import data_of, decoded, plain
from cli.test_fit import rows_of, run
from scipy import sparse

from kvariates import KMedian, PrivateKMeans, PrivateKMedian

LEFT_OUT = 5  # rows before all others


@pytest.fixture
def table(tmp_path):
    """Two groups of skew rows in three columns, with weights; the first rows lack a value."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0, 0.0], [50.0, 0.0, 900.0]], 20, axis=0) + rng.lognormal(size=(40, 3))
    X, w = X.round(4), rng.integers(1, 9, 40)
    lines = ["a,b,c,w", *["1,,1,1"] * LEFT_OUT]
    lines += [",".join(map(str, row)) for row in np.column_stack([X, w]).tolist()]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, X, w


def page(tmp_path, *words):
    """The report of a fit with a seed."""
    out = tmp_path / "out"
    result = run("fit", *words, "--seed", 0, "-o", out, "--force")
    assert result.exit_code == 0, result.output
    return (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("objective", ["means", "median"])
@pytest.mark.parametrize("columns", ["a,b,c", "a,c"])
@pytest.mark.parametrize("scale", ["none", "standard", "minmax", "robust"])
def test_tips_show_the_rows_of_the_file(table, tmp_path, objective, columns, scale):
    path, X, _ = table
    words = ("--columns", columns, "--scale", scale, "--missing", "drop")
    found = page(tmp_path, path, "-k", 2, "--objective", objective, *words)
    data = data_of(found)
    first = LEFT_OUT if "b" in columns else 0
    assert decoded(data["rows"], "<u4").tolist() == list(range(first, LEFT_OUT + 40))
    values = decoded(data["values"], "<f4").reshape(-1, len(data["columns"]))[LEFT_OUT - first :]
    shown = X[:, ["abc".index(name) for name in data["columns"]]]
    np.testing.assert_allclose(values, shown, rtol=1e-6)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["data"]["scaled"] == (scale != "none")
    assert "standardized" not in summary["data"]


def test_medoids_have_the_numbers_of_their_rows_in_the_file(table, tmp_path):
    path, X, _ = table
    words = ("--columns", "a,b,c", "--missing", "drop", "--objective", "median")
    found = plain(page(tmp_path, path, "-k", 2, *words))
    for i in KMedian(2, random_state=0).fit(X).medoid_indices_:
        assert f"row {i + 1 + LEFT_OUT} " in found


@pytest.mark.parametrize("identifier", ["name", None])
def test_medoids_have_their_names_and_their_coordinates(tmp_path, identifier):
    X = np.random.default_rng(0).normal(size=(30, 2)).round(4)
    lines = [
        "name,x,medoid",
        "lost,,1",
        *(f"n{i} é,{a},{b}" for i, (a, b) in enumerate(X.tolist())),
    ]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["--objective", "median", "--columns", "x,medoid", "--missing", "drop"]
    words += [] if identifier is None else ["--id", identifier]
    found = plain(page(tmp_path, tmp_path / "a.csv", "-k", 3, *words))
    header, *centers = rows_of(tmp_path / "out" / "centers.csv")
    medoids = KMedian(3, random_state=0).fit(X).medoid_indices_
    names = [f"n{i} é" if identifier else str(i + 2) for i in medoids]
    assert header[:3] == ["label", "rows", "medoid"]
    assert len(set(header)) == 5
    assert [row[2] for row in centers] == names
    np.testing.assert_array_equal([[float(v) for v in row[3:]] for row in centers], X[medoids])
    for name in names:
        assert (name if identifier else f"row {name}") in found
    assert ("row " + str(medoids[0] + 2) in found) == (identifier is None)


def test_a_haversine_cost_is_in_km_and_has_its_weights(tmp_path):
    rng = np.random.default_rng(0)
    places, people = rng.uniform(-60, 60, (40, 2)).round(3), rng.integers(1, 99, 40)
    lines = ["lat,lon,people", *(f"{a},{b},{w}" for (a, b), w in zip(places, people, strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    words = ("--objective", "median", "--metric", "haversine", "--columns", "lat,lon")
    found = plain(page(tmp_path, tmp_path / "a.csv", "-k", 3, *words, "--weights", "people"))
    model = KMedian(3, metric="haversine", random_state=0)
    model.fit(np.radians(places), sample_weight=people)
    mean = 6371.0088 * model.inertia_ / people.sum()
    assert f"The weighted mean distance is {mean:,.0f} km" in found
    assert (
        f"(column people). Bars and per cents are parts of the total weight, {people.sum():,}."
        in found
    )


def test_the_words_about_a_sparse_matrix_do_not_claim_clipping(tmp_path):
    X = sparse.random(600, 6, 0.05, format="csr", random_state=0)
    sparse.save_npz(tmp_path / "a.npz", X)
    found = plain(page(tmp_path, tmp_path / "a.npz", "-k", 3))
    assert "in standard deviations of the rows." in found
    assert "clipped" not in found


def test_medoids_of_distances_have_the_same_number_in_all_files(tmp_path):
    X = np.sort(np.random.default_rng(0).normal(size=30)) ** 3
    D = np.abs(np.subtract.outer(X, X))
    np.save(tmp_path / "D.npy", D)
    words = ("-k", 2, "--objective", "median", "--metric", "precomputed")
    found = plain(page(tmp_path, tmp_path / "D.npy", *words))
    medoids = KMedian(2, metric="precomputed", random_state=0).fit(D).medoid_indices_ + 1
    header, *centers = rows_of(tmp_path / "out" / "centers.csv")
    assert header[2:] == ["row"]
    assert [row[2] for row in centers] == [str(i) for i in medoids]
    assert all(f"point {i} " in found for i in medoids)
    assert "There is no drawing" in found


@pytest.mark.parametrize("objective", ["means", "median"])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_the_average_has_the_weights_of_the_file(table, tmp_path, objective, scale):
    path, X, w = table
    words = ("--columns", "a,b,c", "--missing", "drop", "--weights", "w", "--scale", scale)
    found = plain(page(tmp_path, path, "-k", 2, "--objective", objective, *words))
    mean = np.average(X[:, 2], weights=w)
    assert f"against {mean:.3g})" in found
    assert f"against {X[:, 2].mean():.3g})" not in found


def test_rows_of_a_demand_count_like_those_of_the_report(table, tmp_path, monkeypatch):
    seen, fit = [], PrivateKMedian.fit
    monkeypatch.setattr(
        PrivateKMedian, "fit", lambda self, X, y=None, *, demand=None: seen.append(demand)
        or fit(self, X, demand=demand),
    )  # fmt: skip
    people = tmp_path / "people.csv"
    people.write_text(f"row\n0\n1\n{LEFT_OUT}\n{LEFT_OUT + 1}\n{LEFT_OUT + 40}\n")
    words = ("--objective", "median", "--epsilon", 1, "--demand", people, "--columns", "a,b,c")
    out = tmp_path / "out"
    result = run("fit", table[0], "-k", 2, *words, "--missing", "drop", "-o", out)
    assert result.exit_code == 0, result.output
    assert seen[0].tolist() == [-1, -1, -1, 0, 39]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["data"]["rows"] == 40  # points are public
    assert not {"inertia", "n_iter", "seconds"} & summary.keys()


def test_noisy_counts_are_the_same_everywhere(table, tmp_path, monkeypatch):
    fit = PrivateKMeans.fit

    def released(self, X, y=None):
        fit(self, X)
        self.cluster_counts_ = np.array([1234.75, -2.25])
        return self

    monkeypatch.setattr(PrivateKMeans, "fit", released)
    words = ("--epsilon", 5, "--columns", "a,c", "--bounds", "0,1000", "-o", tmp_path / "out")
    result = run("fit", table[0], "-k", 2, *words)
    assert result.exit_code == 0, result.output
    assert "1,235" in result.stdout
    assert "-2" in result.stdout
    centers = rows_of(tmp_path / "out" / "centers.csv")
    assert [row[1] for row in centers] == ["noisy_rows", "1234.75", "-2.25"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [cluster["noisy_rows"] for cluster in summary["clusters"]] == [1234.75, -2.25]
