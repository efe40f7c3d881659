"""`kvariates fit`: what it remarks stays in its files, and it speaks of its own options."""

import json

import numpy as np
import pytest
from api import as_options
from browser.pages import plain
from cli.test_fit import failure, run

from kvariates import KMeans, PrivateKMeans


@pytest.fixture
def table(tmp_path):
    """Two groups, an identifier, a text column and a missing value; very different scales."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [9.0, 9000.0]], 30, axis=0) + rng.normal(size=(60, 2))
    lines = [f"{i + 1},{x:.6f},{y:.6f},t{i}" for i, (x, y) in enumerate(X)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["id,x,y,name", "61,,1,t", *lines]) + "\n")
    return path


def files_of(out):
    """The notes of the summary, and the text of the report."""
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return summary["notes"], plain((out / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            ["-k", "auto", "--missing", "drop", "--columns", "x,y"],
            ["1 row with a missing", "The answer is clear."],
        ),
        (["-k", "2", "--missing", "mean"], ["1 missing value was filled", "looks like an id"]),
        (["-k", "2", "--missing", "drop", "--stream"], ["1 row with a missing", "left out, not"]),
        (["-k", "2", "--missing", "drop"], ["left out, not numeric: name", "different scales"]),
        (["-k", "2", "--missing", "drop", "--objective", "median"], ["different scales"]),
    ],
)
def test_files_keep_what_was_remarked(table, tmp_path, more, expected):
    words = ["fit", table, *more, "--seed", 0]
    said = run(*words, "-o", tmp_path / "a")
    assert said.exit_code == 0, said.output
    notes, page = files_of(tmp_path / "a")
    assert [f"kvariates: {note}" for note in notes] == said.stderr.splitlines()
    for start in expected:
        assert any(note.startswith(start) or start in note for note in notes)
    assert all(" ".join(note.split()) in page for note in notes)

    quiet = run(*words, "-o", tmp_path / "b", "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert files_of(tmp_path / "b")[0] == notes


def test_warnings_are_said_and_kept_even_if_quiet(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((20, 2)))
    result = run("fit", tmp_path / "X.npy", "-k", 2, "-o", tmp_path / "out", "--quiet")
    (line,) = result.stderr.splitlines()
    assert line.startswith("kvariates: warning: ")
    assert files_of(tmp_path / "out")[0] == [line.removeprefix("kvariates: ")]


def test_private_files_have_only_notes_on_released_counts(tmp_path, monkeypatch):
    """Any other warning may depend on the rows."""
    import warnings

    fit = PrivateKMeans.fit

    def warned(self, X, y=None):
        warnings.warn("the third row is odd", stacklevel=1)
        return fit(self, X)

    monkeypatch.setattr(PrivateKMeans, "fit", warned)
    np.savetxt(tmp_path / "a.csv", np.ones((50, 2)), delimiter=",", header="x,y", comments="")
    words = ("--epsilon", 1, "--columns", "x,y", "--bounds", "0,2", "-o", tmp_path / "out")
    result = run("fit", tmp_path / "a.csv", "-k", 2, *words)
    assert "the third row is odd" in result.stderr
    for path in (tmp_path / "out").iterdir():
        assert b"third row" not in path.read_bytes()
    assert all("may be only noise" in note for note in files_of(tmp_path / "out")[0])


def test_the_report_of_the_command_speaks_of_options(table, tmp_path):
    words = ("--columns", "x,y", "--missing", "drop", "-o", tmp_path / "out")
    assert run("fit", table, "-k", 2, *words).exit_code == 0
    page = files_of(tmp_path / "out")[1]
    proved = page[page.index("What is proved To see how good this fit is") :]
    assert proved.index("--certify") < proved.index("No theorem bounds")
    assert "--init d2" not in proved  # a worse start for the sake of a theorem
    for word in ("certify=True", "init='", "inertia_"):
        assert word not in page
    assert "d2" not in KMeans(2, random_state=0).fit(np.eye(2)).guarantee_lost_


def test_a_report_without_theorem_and_without_certificate_promises_none(table, tmp_path):
    words = ("--columns", "x,y", "--missing", "drop", "--metric", "cosine", "-o", tmp_path / "out")
    assert run("fit", table, "-k", 2, *words).exit_code == 0
    assert "--certify" not in files_of(tmp_path / "out")[1]


def test_errors_speak_of_options(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((9, 2)) + 1)
    words = ("fit", tmp_path / "X.npy", "-o", tmp_path / "out", "-k")
    assert failure(*words, 10).startswith("-k 10 is above the 9 rows of ")
    line = failure(*words, 2, "--metric", "cosine", "--certify")
    assert line.startswith("--certify needs --metric euclidean")


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("use init='d2'.", "use --init d2."),
        ("init='k-means||'", "--init 'k-means||'"),
        ("certify=True does; n_init=10", "--certify does; --n-init 10"),
        ("compare its inertia_ with", "compare its inertia with"),
        ("Try a larger k_range.", "Try a larger -k."),
        ("method='auto' and X_init='a'", "method='auto' and X_init='a'"),
    ],
)
def test_parameters_become_options(python, command):
    assert as_options(python) == command


def test_names_of_columns_are_not_taken_for_parameters(tmp_path):
    (tmp_path / "a.csv").write_text("x,random_state,n_clusters\n1,a,b\n2,c,d\n3,e,f\n")
    out = ("-k", 2, "-o", tmp_path / "out")
    line = failure("fit", tmp_path / "a.csv", *out, "--columns", "random_stat")
    assert "did you mean random_state?" in line
    result = run("fit", tmp_path / "a.csv", *out)
    assert "left out, not numeric: random_state, n_clusters" in result.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "left out, not numeric: random_state, n_clusters" in summary["notes"]


def test_a_parameter_that_is_out_of_range_is_named_as_an_option(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((9, 2)))
    words = ("fit", tmp_path / "X.npy", "-k", 2, "-o", tmp_path / "out")
    line = failure(*words, "--epsilon", -1, "--bounds", "x0=0:1,x1=0:1")
    assert line.startswith("--epsilon must be")
