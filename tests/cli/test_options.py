"""Options that contradict each other, empty ones, and what a full disk or a second run leaves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from api import PRIVATE_METHODS, app
from api import file_writing_module as file_writing
from api import screen_module as screen
from cli.test_fit import FILES, failure, help_of, rows_of, run
from typer.testing import CliRunner

FULL = Path("/dev/full")


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(40, 2)))
    return tmp_path / "X.npy"


@pytest.mark.parametrize("scale", ["minmax", "robust"])
def test_standardize_and_another_scale(rows, tmp_path, scale):
    words = ("fit", rows, "-k", 2, "--standardize", "--scale")
    assert f"--scale {scale}" in failure(*words, scale, "-o", tmp_path / "out")
    assert run(*words, "standard", "-o", tmp_path / "out").exit_code == 0


def test_no_place_is_not_the_current_folder(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["fit", rows, "-k", 2], ["anticluster", rows, "-g", 2]):
        assert "-o names no place" in failure(*words, "-o", "")
    assert [path.name for path in tmp_path.iterdir()] == ["X.npy"]
    assert "-o names no place" in failure("predict", "model.skops", rows, "-o", "")
    assert run("fit", rows, "-k", 2, "-o", ".").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", *FILES]


def test_no_seeding_cannot_be_compared(rows):
    assert failure("compare", rows, "--init", "") == "--init: give at least one seeding"


def test_an_audit_offers_methods_that_need_no_assertion():
    asserted = [name for name, entry in PRIVATE_METHODS.items() if entry.lost is not None]
    assert asserted
    for name in asserted:
        assert f'"{name}":' not in help_of("audit")
        assert "is not one of" in failure("audit", name)
    assert '"grid":' in help_of("audit")


def test_columns_of_the_data_that_are_called_like_ours(tmp_path):
    X = np.random.default_rng(0).random((20, 3)).round(4).tolist()
    lines = ["label,rows,label of the data", *(",".join(map(str, row)) for row in X)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    assert run("fit", tmp_path / "a.csv", "-k", 2, "-o", out).exit_code == 0
    header = rows_of(out / "centers.csv")[0]
    assert header[:2] == ["label", "rows"]
    assert header[4] == "label of the data"
    assert len(set(header)) == 5


def test_labels_within_limits_are_those_of_the_fit_only(rows, tmp_path):
    for name, limits in (("free", []), ("limited", ["--size-max", 20])):
        out = tmp_path / name
        assert run("fit", rows, "-k", 2, *limits, "-o", out).exit_code == 0
        words = ("predict", out, rows, "-o", out / "l.csv", "--force")
        remark = "hold for the rows of the fit only"
        assert (remark in run(*words).stderr) == bool(limits)
        assert run(*words, "--quiet").stderr == ""


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_result_that_cannot_be_printed_leaves_its_files(rows, tmp_path, monkeypatch):
    def full(*_):
        with FULL.open("w") as file:
            file.write("x")

    monkeypatch.setattr("kvariates.cli.fit_command.show_fit", full)
    line = failure("fit", rows, "-k", 2, "-o", tmp_path / "out")
    assert line == "the result cannot be printed: the disk is full"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_the_second_of_two_runs_replaces_the_first_only_by_force(
    tmp_path, monkeypatch, links, force
):
    if not links:

        def none(*_):
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(file_writing.Path, "hardlink_to", none)
    out = tmp_path / "out"

    def write(run, inner=lambda: None):
        with file_writing.moved_into_place(out, "ab", force=force) as folder:
            for name in "ab":
                (folder / name).write_text(run)
            inner()

    def both():
        write("second", lambda: write("first"))

    if force:
        both()
    else:
        with pytest.raises(ValueError, match="--force replaces it"):
            both()
    found = {path.name: path.read_text() for path in out.iterdir()}
    assert found == dict.fromkeys("ab", "second" if force else "first")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_summary_of_a_quiet_fit_is_complete(rows, tmp_path):
    keys = []
    for more in ([], ["--quiet"]):
        out = tmp_path / f"out{len(more)}"
        assert run("fit", rows, "-k", 2, "-o", out, *more).exit_code == 0
        keys.append(list(json.loads((out / "summary.json").read_text())))
    assert keys[0] == keys[1]


@pytest.mark.parametrize("columns", [80, 40, 20])
def test_numbers_are_never_cut(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * [1e-3, 1e5, 1, 1e8, 1, 1e-9]
    head = ",".join(f"a_long_name_of_a_column_of_numbers_{j}" for j in range(6))
    np.savetxt(tmp_path / "a.csv", X, delimiter=",", header=head, comments="")
    shown = run("fit", tmp_path / "a.csv", "-k", 3, "--seed", 0, "-o", tmp_path / "out").stdout
    assert "…" not in shown
    centers = rows_of(tmp_path / "out" / "centers.csv")[1:]
    assert all(f"{float(row[2]):.4g}" in shown for row in centers)
    hidden = int(re.search(r"not shown: (\d+) columns", shown)[1])
    assert (hidden == 5) if columns < 80 else (1 <= hidden < 5)
    if columns == 80:
        assert max(map(len, shown.splitlines()[:6])) <= columns
    words = ("compare", tmp_path / "a.csv", "-k", "2:4", "--seed", 0)
    assert "…" not in run(*words).stdout


def test_a_long_number_is_not_cut_for_long_names(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    screen.print_table([">" + 42 * name for name in "abc"], [("1" * 40, "2", "3")])
    assert "1" * 40 in capsys.readouterr().out


def test_an_empty_name_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert failure("fit", "", "-k", 2).endswith("the name of the file is empty.")


def test_a_folder_called_minus_is_not_standard_input(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").mkdir()
    assert "-o names a folder" in failure("fit", rows, "-k", 2, "-o", "-")
    result = CliRunner().invoke(app, ["fit", "-", "-k", "1", "-o", "out"], input="x\n1\n3\n")
    assert result.exit_code == 0
    assert rows_of(tmp_path / "out" / "centers.csv")[1] == ["0", "2", "2.0"]


def test_a_fit_does_not_replace_its_input(rows, tmp_path):
    out = tmp_path / "out"
    assert run("fit", rows, "-k", 2, "-o", out).exit_code == 0
    words = ("fit", out / "labels.parquet", "-k", 2, "-o", out, "--force")
    assert "labels.parquet: is read by this command" in failure(*words)
    private = ("--epsilon", 1, "--bounds", "label=0:1")
    assert "labels.parquet: is read by this command" in failure(*words, *private)
    for place in (out, out / "deeper"):
        line = failure("fit", out, "-k", 2, "-o", place, "--force")
        assert "is in the folder that is read" in line
    words = ("anticluster", out / "centers.csv", "-g", 2, "-o", out, "--force")
    assert run(*words).exit_code == 0


def test_a_metric_of_medians_is_pointed_out(rows, tmp_path):
    line = failure("fit", rows, "-k", 2, "--metric", "manhattan", "-o", tmp_path / "out")
    assert "; --objective median has 'manhattan'." in line


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"]])
def test_help_whose_reader_has_gone_is_no_error(words):
    end, start = os.pipe()
    os.close(end)
    command = [sys.executable, "-m", "kvariates", *words]
    done = subprocess.run(command, check=False, stdout=start, stderr=subprocess.PIPE)
    os.close(start)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_of_ascii_gets_escapes(tmp_path):
    (tmp_path / "a.csv").write_text("gr\u00f6\u00dfe,b\n1,2\n3,4\n", encoding="utf-8")
    command = [sys.executable, "-m", "kvariates", "fit", "a.csv", "-k", "1"]
    done = subprocess.run(
        command, check=False, capture_output=True, cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr\\xf6\\xdfe" in done.stdout
