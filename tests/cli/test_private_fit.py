"""`kvariates fit --epsilon`: no output file holds anything that was not paid for."""

import html
import json
import re
import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest
from api import load_model
from cli.test_fit import failure, run

ROWS = 2357  # its digits are searched for
BAD_BOUNDS = object()  # a file with a slip in its first line
BOUNDS = ("--bounds", "alpha=0:10,beta=-5:5")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.uniform(0, 10, ROWS), rng.normal(0, 1, ROWS)]).round(14)
    lines = [f"person{i},{x!r},{y!r}" for i, (x, y) in enumerate(X.tolist())]
    path = tmp_path_factory.mktemp("private") / "people.csv"
    path.write_text("\n".join(["name,alpha,beta", *lines]) + "\n", encoding="utf-8")
    return path, X


def texts(out):
    """The text of every output file, also of those inside of the model."""
    found = {}
    for path in out.iterdir():
        found[path.name] = path.read_bytes()
        if path.suffix == ".parquet":  # compressed
            found[path.name] = str(pq.read_table(path).to_pydict()).encode()
        if path.suffix == ".skops":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    found[f"{path.name}/{name}"] = archive.read(name)
    return found


def leaks(out, X):
    """Where values of rows, exact statistics or the number of rows appear.

    Twelve digits: that a noisy number has them by chance happens in one run of 1e8.
    """
    figures = {f"row {i}": X[i, j] for i in range(0, len(X), 50) for j in (0, 1)}
    for name in ("mean", "std", "min", "max", "median", "sum"):
        values = getattr(np, name)(X, axis=0).tolist()
        figures |= {f"{name} {j}": value for j, value in enumerate(values)}
    found = []
    for file, content in texts(out).items():
        text = content.decode("utf-8", "replace")
        found += [(file, n) for n, v in figures.items() if f"{v:.12g}" in text and abs(v) > 1e-3]
        raw = [(n, np.float64(v).tobytes()) for n, v in figures.items()]
        found += [(file, n) for n, data in raw if data in content]
        if re.search(rf"(?<![\d.])({ROWS}|{ROWS:,})(?![\d.])", text):
            found.append((file, "number of rows"))
        if "person1" in text:
            found.append((file, "name of a row"))
    return found


def numbers_called(node, name):
    """All values of this name in a JSON document, in order."""
    if isinstance(node, list):
        return [number for each in node for number in numbers_called(each, name)]
    if not isinstance(node, dict):
        return []
    inner = [number for key in node for number in numbers_called(node[key], name)]
    return [*inner, *([node[name]] if isinstance(node.get(name), int) else [])]


def fit(data, out, *words):
    path, _ = data
    bounds = () if "--bounds" in words else BOUNDS
    words = ("fit", path, "-k", 3, "--epsilon", 1, *bounds, "-o", out, *words)
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


class TestOutputs:
    def test_they_hold_nothing_without_noise(self, data, tmp_path):
        result = fit(data, tmp_path / "out")
        assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
            "centers.csv", "model.skops", "report.html", "summary.json",
        ]  # fmt: skip
        assert "no labels.parquet: the label of a row reveals information about it" in result.stderr
        # The noisy number of rows may happen to be the true one.
        found = leaks(tmp_path / "out", data[1])
        assert [leak for leak in found if leak[1] != "number of rows"] == []
        for word in ("inertia", "seconds", "labels_"):
            text = texts(tmp_path / "out")
            assert not [
                n for n in ("summary.json", "model.skops/schema.json") if word in str(text[n])
            ]

    def test_the_search_finds_planted_leaks(self, data, tmp_path):
        path, X = data
        assert run("fit", path, "-k", 3, "-o", tmp_path / "open", "--keep").exit_code == 0
        found = {what for _, what in leaks(tmp_path / "open", X)}
        assert {"number of rows", "name of a row"} <= found
        fit(data, tmp_path / "out")
        (tmp_path / "out" / "extra.txt").write_text(f"{X.mean(0)[0]:.12g}")
        assert ("extra.txt", "mean 0") in leaks(tmp_path / "out", X)
        (tmp_path / "out" / "extra.txt").write_bytes(X[100].tobytes())
        assert ("extra.txt", "row 100") in leaks(tmp_path / "out", X)

    def test_labels_only_on_request_with_a_warning(self, data, tmp_path):
        out = tmp_path / "out"
        result = fit(data, out, "--labels", "--id", "name")
        assert "labels.parquet is not private" in result.stderr
        table = pq.read_table(out / "labels.parquet")
        assert table.column_names == ["name", "label"]
        assert table.num_rows == ROWS
        fit(data, out, "--force")
        assert not (out / "labels.parquet").exists()  # of the earlier fit

    def test_bounds_by_scale_and_file(self, data, tmp_path):
        (tmp_path / "bounds.csv").write_text("column,low,high\nalpha,0,10\nbeta,-5,5\n")
        words = ("--bounds", tmp_path / "bounds.csv", "--scale", "minmax", "--epsilon", 50)
        fit(data, tmp_path / "out", *words)
        centers = np.loadtxt(tmp_path / "out" / "centers.csv", delimiter=",", skiprows=1)
        assert (centers[:, 2] > 1).all()  # in the units of the file
        assert np.ptp(centers[:, 2]) > 2

    def test_a_model_has_no_addresses_and_no_times(self, data, tmp_path):
        """Addresses depend on what was allocated before, and so on the number of rows."""
        path = tmp_path / "out" / "model.skops"
        fit(data, tmp_path / "out", "--scale", "minmax")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            schema = json.loads(archive.read("schema.json"))
        numbered = [f"{i}.npy" for i in range(1, len(entries))]
        assert [entry.filename for entry in entries] == [*numbered, "schema.json"]
        assert len(numbered) > 2
        assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
        found = list(dict.fromkeys(numbers_called(schema, "__id__")))
        assert found == list(range(1, len(found) + 1))
        assert not re.search(r"\d{10}", re.sub(r"[\d.]+e?-?\d*\"", "", json.dumps(schema)))
        model = load_model(path)
        assert model[-1].ledger_.total().epsilon <= 1
        result = run("predict", path, data[0], "-o", tmp_path / "p.parquet")
        assert result.exit_code == 0, result.output
        assert "labels and numbers of rows here are not: they are computed" in result.stderr
        result = run("predict", path, data[0], "-o", tmp_path / "p.parquet", "--force", "-q")
        assert result.stderr == ""

    @pytest.mark.parametrize(
        "words", [(), ("--scale", "standard", "--missing", "mean"), ("--objective", "median")]
    )
    def test_models_of_the_same_seed_are_the_same_bytes(self, data, tmp_path, words):
        content, names = [], ("--columns", "alpha,beta", "--seed", 1)
        for j in range(2):
            made = np.zeros(10_000 * j)  # other addresses
            result = run("fit", data[0], "-k", 3, *names, *words, "-o", tmp_path / str(j))
            assert result.exit_code == 0, result.output
            content.append((tmp_path / str(j) / "model.skops").read_bytes())
            del made
        assert content[0] == content[1]
        labels = tmp_path / "p.parquet"
        result = run("predict", tmp_path / "0", data[0], "-o", labels, "--missing", "drop")
        assert result.exit_code == 0, result.output
        assert "not private" not in result.stderr
        expected = pq.read_table(tmp_path / "0" / "labels.parquet")["label"]
        assert pq.read_table(labels)["label"].to_pylist() == expected.to_pylist()

    def test_missing_cells_are_left_out_without_a_word(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("alpha,beta\n" + "1,2\nx,3\n,4\n5,1\n" * 50)
        words = ("--columns", "alpha,beta", "--epsilon", 1, *BOUNDS)
        result = run("fit", path, "-k", 2, *words, "-o", tmp_path / "out")
        assert result.exit_code == 0, result.output
        assert "missing value" not in result.output


def test_a_fit_of_a_misread_file_says_so_everywhere(tmp_path):
    """Decimal commas are read as text, so all rows are left out: thirty centres are noise."""
    path, out = tmp_path / "a.csv", tmp_path / "out"
    path.write_text("age;income\n" + "30,5;20,1\n45,2;70,9\n" * 500)
    words = ("--delimiter", ";", "--epsilon", 1, "--bounds", "age=0:120,income=0:200")
    result = run("fit", path, "-k", 30, *words, "-o", out)
    assert result.exit_code == 0, result.output
    said = re.search("[0-9]+ of 30 centres may be only noise: [^\n]*", result.stderr)[0]
    assert int(said.split()[0]) >= 25  # at most one or two seem clear by chance
    assert "Perhaps the data were not read as you think" in said
    assert "without --epsilon" in said
    summary = json.loads((out / "summary.json").read_text())
    assert summary["notes"] == [said]
    doubtful = [cluster["may_be_only_noise"] for cluster in summary["clusters"]]
    assert sum(doubtful) == int(said.split()[0])
    page = (out / "report.html").read_text()
    assert page.index(said) < page.index("PRIVACY REPORT")
    apart = re.findall('<td class="apart">(.*?)</td>', page)
    compared = [i for i, cell in enumerate(apart) if re.search("above|below|average", cell)]
    assert not set(compared) & set(np.flatnonzero(doubtful))
    model = load_model(out / "model.skops")
    assert model.notes_ == (said,)
    assert said in " ".join(model.ledger_.report().replace("  - ", "").split())
    assert said in html.unescape(model._repr_mimebundle_()["text/html"])
    right = run("fit", path, "-k", 2, *words, "--decimal", ",", "-o", out, "--force")
    assert "only noise" not in right.stderr
    assert json.loads((out / "summary.json").read_text())["notes"] == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--epsilon", 1], "--epsilon needs --bounds"),
        (["--delta", 0.1], "--delta is for private fits"),
        (["--bounds", "0,1"], "--bounds is for private fits"),
        (["--labels"], "--labels is for private rows"),
        (["--epsilon", 1, "--bounds", "5,1"], "the lower bound (5) is not below 1"),
        (["--epsilon", 1, "--bounds", "alpha=0:10"], None),
        (["--epsilon", 1, "--bounds", "gamma=0:10"], "no column 'gamma'; a private fit does not"),
        (["--epsilon", 1, "--bounds", "0,10"], "--epsilon needs --columns a,b, or --bounds that"),
        (["--epsilon", 1, *BOUNDS, "--delimiter", ";"], "no column 'alpha'"),
        (["--epsilon", 1, "--bounds", "alpha=0:10", "--columns", "alpha,beta"], "none for beta"),
        (["--epsilon", 1, "--bounds", "wide"], "is neither a file nor bounds"),
        (["--epsilon", 1, "--bounds", BAD_BOUNDS], "bad.csv, line 1: a bound is not a number"),
        (["--epsilon", 1, *BOUNDS, "--scale", "standard"], "--scale minmax uses the bounds"),
        (["--epsilon", 1, *BOUNDS, "--seed", 1], "noise that can be repeated is not private"),
        (["--epsilon", 1, *BOUNDS, "--missing", "mean"], "taken from the data"),
        (["--epsilon", 1, *BOUNDS, "--init", "d2"], "--init d2 does not work with --epsilon"),
        (["--epsilon", 1, *BOUNDS, "--id", "name"], "--id needs --labels"),
        (["--epsilon", 1, *BOUNDS, "--stream"], "--stream does not work with --epsilon"),
        (["--epsilon", 1, *BOUNDS, "--size-min", 3], "--size-min 3 does not work with --epsilon"),
        (["--epsilon", -1, *BOUNDS], "epsilon"),
    ],
)
def test_what_a_private_fit_refuses(data, tmp_path, words, line):
    (tmp_path / "bad.csv").write_text("alpha,0,1o\nbeta,0,10\n")  # the first line is no header
    words = [tmp_path / "bad.csv" if word is BAD_BOUNDS else word for word in words]
    words = ["fit", data[0], "-k", 2, "-o", tmp_path / "out", *words]
    if line is None:
        assert run(*words).exit_code == 0
        return
    assert line in failure(*words)
    assert not (tmp_path / "out").exists()


def test_auto_would_tell_about_rows(data, tmp_path):
    words = ["fit", data[0], "-k", "auto", "--epsilon", 1, *BOUNDS, "-o", tmp_path / "out"]
    assert "-k auto does not work with --epsilon" in failure(*words)


def test_bounds_of_many_columns_are_words(tmp_path):
    names = [f"a_long_name_{j}" for j in range(40)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * 40) + "\n")
    words = ("--epsilon", 1, "--bounds", ",".join(f"{name}=0:10" for name in names))
    result = run("fit", tmp_path / "a.csv", "-k", 1, *words, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.stderr


def test_bounds_that_are_given_column_by_column_all_count(data, tmp_path):
    """The last ones alone would be a fit of one column, which spends epsilon all the same."""
    by_column = ("--bounds", "alpha=0:10", "--bounds", "beta=-5:5")
    words = ("fit", data[0], "-k", 2, "--epsilon", 1, *by_column, "-o", tmp_path / "out")
    assert run(*words).exit_code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["data"]["columns"] == ["alpha", "beta"]
    assert summary["parameters"]["bounds"] == [[0.0, -5.0], [10.0, 5.0]]
    twice = (*words, "--bounds", "alpha=0:1", "--force")
    assert "'alpha' has bounds twice" in failure(*twice)
