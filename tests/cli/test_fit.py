"""`kvariates fit`: the files that it writes, its errors and its exit codes."""

import csv
import json
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api import app, tables, write_fit
from benchmarks import command as shell_times
from typer.testing import CliRunner

from kvariates import KMeans

FILES = ["centers.csv", "labels.parquet", "model.skops", "report.html", "summary.json"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def failure(*words, code=2):
    """Run a command that must fail; return its one line of error."""
    result = run(*words)
    assert result.exit_code == code, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("kvariates: ")
    return line.removeprefix("kvariates: ")


def help_of(command):
    """The help in one line, without the frame."""
    return " ".join(run(command, "--help").stdout.replace("│", " ").split())


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.fixture
def blobs(tmp_path):
    """Three groups of ten rows in two columns of different scale, a weight and a name."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0, 0], [10, 1000], [20, 0]], 10, axis=0) + rng.normal(size=(30, 2))
    lines = [f"row{i},{x:.6f},{y:.6f},{i % 3 + 1}" for i, (x, y) in enumerate(X)]
    path = tmp_path / "blobs.csv"
    path.write_text("\n".join(["name,x,y,w", *lines]) + "\n", encoding="utf-8")
    return path


class TestResults:
    def test_files_that_agree_with_the_estimator(self, blobs, tmp_path):
        out = tmp_path / "deep" / "out"
        result = run("fit", blobs, "-k", 3, "--columns", "x,y", "--seed", 7, "-o", out)
        assert result.exit_code == 0, result.output
        assert sorted(p.name for p in out.iterdir()) == FILES
        assert [p.name for p in out.parent.iterdir()] == ["out"]

        X = np.array([row[1:3] for row in rows_of(blobs)[1:]], dtype=float)
        model = KMeans(n_clusters=3, random_state=7).fit(X)
        labels = pq.read_table(out / "labels.parquet")
        assert labels.column_names == ["label"]
        assert labels["label"].to_pylist() == model.labels_.tolist()
        header, *centers = rows_of(out / "centers.csv")
        assert header == ["label", "rows", "x", "y"]
        assert [row[:2] for row in centers] == [["0", "10"], ["1", "10"], ["2", "10"]]
        np.testing.assert_array_equal(
            [[float(cell) for cell in row[2:]] for row in centers], model.cluster_centers_
        )
        summary = json.loads((out / "summary.json").read_text())
        assert summary["inertia"] == model.inertia_
        assert summary["n_iter"] == model.n_iter_
        assert summary["parameters"]["random_state"] == 7
        assert summary["data"]["columns"] == ["x", "y"]
        assert [c["rows"] for c in summary["clusters"]] == [10, 10, 10]
        assert (out / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        assert "33.3%" in result.stdout
        assert str(out) in result.stdout.replace("\n", "")

    def test_columns_left_out_are_named(self, blobs, tmp_path):
        result = run("fit", blobs, "-k", 2, "-o", tmp_path / "out")
        assert "kvariates: left out, not numeric: name\n" in result.stderr

    def test_quiet_prints_nothing(self, blobs, tmp_path):
        result = run("fit", blobs, "-k", 2, "-o", tmp_path / "out", "--quiet")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")

    def test_quiet_prints_warnings_and_errors_only(self, tmp_path):
        np.save(tmp_path / "X.npy", np.ones((10, 2)))
        result = run("fit", tmp_path / "X.npy", "-k", 3, "-o", tmp_path / "out", "-q")
        assert (result.exit_code, result.stdout) == (0, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith("kvariates: warning: ")
        assert "Print warnings and errors only." in help_of("fit")

    def test_costs_of_swaps_end_at_the_inertia(self, tmp_path, monkeypatch):
        np.save(tmp_path / "X.npy", np.random.default_rng(0).random((300, 2)))
        runs = []
        keep = lambda run, *others: runs.append(run) or write_fit(run, *others)  # noqa: E731
        monkeypatch.setattr("kvariates.cli.fit_command.write_fit", keep)
        words = ["--algorithm", "swap", "--n-init", 2, "--seed", 1, "-o", tmp_path / "out"]
        assert run("fit", tmp_path / "X.npy", "-k", 20, *words).exit_code == 0
        (found,) = runs
        assert found.costs[-1] == found.inertia
        assert len(found.costs) == found.n_iter
        assert (np.diff(found.costs) <= 0).all()

    def test_clusters_that_are_called_clear_are_those_that_are_written(self, tmp_path):
        """Beside a column of noise, a fit may end with other clusters than the search."""
        rng = np.random.default_rng(3)
        groups = np.repeat([0.0, 10.0], 300) + rng.normal(size=600)
        np.save(tmp_path / "X.npy", np.c_[groups, groups.std() * rng.normal(size=600)])
        costs, again = [], 0
        for seed in (10, 11, 12):
            out = tmp_path / str(seed)
            result = run("fit", tmp_path / "X.npy", "-k", "auto", "--seed", seed, "-o", out)
            assert "The answer is clear." in result.stderr
            costs.append(json.loads((out / "summary.json").read_text())["inertia"])
            again += "began again from them" in result.stderr
        assert np.ptp(costs) < 1e-9 * costs[0]
        assert again

    def test_a_drawn_seed_repeats_the_run(self, blobs, tmp_path):
        run("fit", blobs, "-k", 5, "-o", tmp_path / "a")
        seed = json.loads((tmp_path / "a" / "summary.json").read_text())["parameters"]
        run("fit", blobs, "-k", 5, "-o", tmp_path / "b", "--seed", seed["random_state"])
        for name in ("labels.parquet", "centers.csv"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_the_weight_column_is_not_a_feature(self, blobs, tmp_path):
        out = tmp_path / "out"
        assert run("fit", blobs, "-k", 3, "--weights", "w", "-o", out).exit_code == 0
        summary = json.loads((out / "summary.json").read_text())
        assert summary["data"]["columns"] == ["x", "y"]
        assert summary["data"]["weighted"]
        total = sum(int(row[3]) for row in rows_of(blobs)[1:])
        assert sum(c["weight"] for c in summary["clusters"]) == total

    def test_standardized_centres_are_in_the_units_of_the_file(self, blobs, tmp_path):
        out = tmp_path / "out"
        words = ["--columns", "x,y", "--standardize", "--n-init", 5, "-o", out]
        assert run("fit", blobs, "-k", 3, *words).exit_code == 0
        centers = sorted([float(c) for c in row[2:]] for row in rows_of(out / "centers.csv")[1:])
        np.testing.assert_allclose(centers, [[0, 0], [10, 1000], [20, 0]], atol=1.5)

    @pytest.mark.parametrize(
        ("command", "option", "which"),
        [
            *(("fit", option, 0) for option in ("init", "metric", "algorithm")),
            *(("median", option, 1) for option in ("init", "metric")),
            ("anticluster", "objective", 0),
        ],
    )
    def test_every_entry_of_a_table_is_an_option(self, blobs, tmp_path, command, option, which):
        words = ["--columns", "x,y", "--seed", 1, "--force", "-o", tmp_path / "out"]
        first = {"median": ["fit", "--objective", "median"]}.get(command, [command])
        first += ["-g" if command == "anticluster" else "-k", 4]
        table = tables("fit" if command == "median" else command)[option][which]
        places = tmp_path / "places.csv"
        lines = (f"{5 * i},{7 * i}" for i in range(12))
        places.write_text("\n".join(["x,y", *lines]))
        for name in table:
            if name in ("graph", "precomputed"):  # other input
                continue
            data = places if name == "haversine" else blobs
            result = run(*first, data, f"--{option}", name, *words)
            assert result.exit_code == 0, result.output
            summary = json.loads((tmp_path / "out" / "summary.json").read_text())
            assert summary["parameters"][option] == name

    def test_many_clusters_and_columns_fit_a_screen(self, tmp_path, monkeypatch):
        monkeypatch.setenv("COLUMNS", "120")
        X = np.random.default_rng(0).normal(size=(200, 12))
        pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(12)}), tmp_path / "X.parquet")
        result = run("fit", tmp_path / "X.parquet", "-k", 30, "-o", tmp_path / "out")
        assert result.exit_code == 0, result.output
        assert "not shown: 10 smaller clusters, 7 columns (see centers.csv)" in result.stdout

    def test_a_second_run_replaces_its_files_and_no_others(self, blobs, tmp_path):
        out = tmp_path / "out"
        out.mkdir()
        (out / "notes.txt").write_text("mine")
        (out / "labels.parquet").write_text("old")
        assert "labels.parquet: exists; --force" in failure("fit", blobs, "-k", 3, "-o", out)
        assert (out / "labels.parquet").read_text() == "old"
        assert run("fit", blobs, "-k", 3, "-o", out, "--force").exit_code == 0
        assert (out / "notes.txt").read_text() == "mine"
        assert sorted(p.name for p in out.iterdir()) == sorted([*FILES, "notes.txt"])
        assert pq.read_table(out / "labels.parquet").num_rows == 30

    def test_a_warning_is_one_line(self, tmp_path):
        np.save(tmp_path / "X.npy", np.ones((10, 2)))
        result = run("fit", tmp_path / "X.npy", "-k", 3, "-o", tmp_path / "out")
        assert result.exit_code == 0
        (line,) = result.stderr.splitlines()
        assert line.startswith("kvariates: warning: Number of distinct clusters (1)")


class TestBadInput:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "Missing argument"),
            (["blobs.csv"], "Missing option"),
            (["blobs.csv", "-k", "zero"], "-k"),
            (["blobs.csv", "-k", "0"], "-k"),
            (["blobs.csv", "-k", "3", "--metric", "taxi"], 'is not one of "euclidean"'),
            (["blobs.csv", "-k", "3", "--n-init", "0"], "--n-init"),
            (["blobs.csv", "-k", "3", "--seed", "-1"], "--seed"),
            (["blobs.csv", "-k", "3", "--colums", "x"], "--colums"),
            (["blobs.csv", "b.csv", "-k", "3"], "unexpected extra argument"),
            (["no.csv", "-k", "3"], "no.csv: no such file"),
            (["blobs.csv", "-k", "3", "--columns", "x,z"], "no column 'z'"),
            (["blobs.csv", "-k", "3", "--weights", "q"], "no column 'q'"),
            (["blobs.csv", "-k", "3", "--columns", "name"], "column 'name': 'row0' is not"),
            (["blobs.csv", "-k", "3", "--weights", "name"], "column 'name': 'row0' is not"),
            (
                ["blobs.csv", "-k", "3", "--columns", "w", "--weights", "w"],
                "holds the weights; do not cluster it",
            ),
            (["blobs.csv", "-k", "31", "--columns", "x,y"], "31"),
            (["blobs.csv", "-k", "3", "--weights", "x", "--columns", "y"], "weight"),
            (["zero.npy", "-k", "2", "--metric", "cosine"], "zero"),
            (["blobs.csv", "-k", "3", "--columns", "x,y", "-o", "zero.npy"], "not a directory"),
        ],
    )
    def test_an_error_is_one_line_and_nothing_is_written(
        self, blobs, tmp_path, monkeypatch, words, message
    ):
        monkeypatch.chdir(tmp_path)
        np.save("zero.npy", np.eye(3) * [1, 1, 0])
        assert message in failure("fit", *words)
        assert {path.name for path in tmp_path.iterdir()} == {blobs.name, "zero.npy"}

    def test_unknown_commands_and_options(self):
        assert "fut" in failure("fut")
        assert "--nope" in failure("--nope")


class TestCommand:
    """The installed command, in another process."""

    def command(self, *words, **options):
        words = [sys.executable, "-c", "from kvariates.cli import main; main()", *map(str, words)]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def test_a_fit_and_an_error(self, blobs, tmp_path):
        words = ["fit", blobs, "-k", 3, "--columns", "x,y", "-o", "out"]
        process = self.command(*words, cwd=tmp_path)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        assert "to out" in out
        assert sorted(p.name for p in (tmp_path / "out").iterdir()) == FILES

        process = self.command("fit", "no.csv", "-k", 3, cwd=tmp_path)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (2, "", "kvariates: no.csv: no such file\n")

    def test_ctrl_c_writes_nothing(self, tmp_path):
        """An interrupted fit exits with code 130 and writes nothing."""
        X = np.random.default_rng(0).normal(size=(200_000, 8)).astype(np.float32)
        np.save(tmp_path / "X.npy", X)
        words = ["fit", "X.npy", "-k", 400, "--n-init", 100, "-o", "out"]
        # A background job inherits SIG_IGN.
        use_default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with self.command(*words, cwd=tmp_path, preexec_fn=use_default) as process:
            try:
                deadline = time.monotonic() + 60
                while not list(tmp_path.glob(".out-*")):  # it is created when the fit begins
                    assert time.monotonic() < deadline
                    assert process.poll() is None
                    time.sleep(0.05)
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
                sent = time.monotonic()
                out, err = process.communicate(timeout=60)
                assert time.monotonic() - sent < 5
            finally:
                process.kill()
        assert (process.returncode, out) == (130, "")
        assert err == "kvariates: interrupted; nothing was written\n"
        assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]


def test_the_benchmark_of_the_command_runs_what_it_states(tmp_path):
    """Its target, 100,000 rows in three seconds, depends on the machine: it is measured there."""
    assert (shell_times.ROWS, shell_times.COLUMNS) == (100_000, 10)
    assert shell_times.TARGETS[shell_times.FIT] == 3.0
    shell_times.write_rows(tmp_path, rows=200)
    assert shell_times.seconds_of(shell_times.FIT, tmp_path) > 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    assert rows_of(tmp_path / "out" / "centers.csv")[0][-1] == "column9"
