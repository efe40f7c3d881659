"""Hostile input and interrupted runs: one line, the right exit code, and nothing left behind."""

import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api import file_writing_module as file_writing
from api import input_file_module as input_file
from api import screen_module as screen
from cli.test_fit import FILES, failure, help_of, run
from rich.console import Console

from kvariates.sources import read

HALF_WRITTEN = """
import time
from kvariates.cli import main
from kvariates.report import fit_page

def stop_halfway(run, shown, folder):
    (folder / "report.html").write_text("<!DOCTYPE")
    print("half", flush=True)
    time.sleep(600)

fit_page.write_fit = stop_halfway
main()
"""
MARKUP = ["[/a]", "[bold]", "a\x1b[31mb", "$$x$$", "</script>", "line\nbreak", "\u202eabc"]


@pytest.fixture
def rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    np.save(tmp_path / "X.npy", X)
    return tmp_path / "X.npy"


class TestNames:
    def test_markup_and_control_characters_are_shown_and_change_nothing(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(30, len(MARKUP)))
        table = {name: X[:, j] for j, name in enumerate(MARKUP)}
        pq.write_table(pa.table(table), tmp_path / "[red]x.parquet")
        for words in (["fit", "-k", 2], ["anticluster", "-g", 2]):
            out = tmp_path / str(words[0])
            result = run(*words, tmp_path / "[red]x.parquet", "-o", out)
            assert result.exit_code == 0, result.output
            assert "\x1b[31m" not in result.output
            assert "\u202e" not in result.output
        shown = run("fit", tmp_path / "[red]x.parquet", "-k", 2, "-o", tmp_path / "b").stdout
        for name in ("[/a]", "[bold]", "$$x$$", "\\x1b"):
            assert name in shown
        assert "\x1b" not in failure("fit", tmp_path / "\x1b[31m.csv", "-k", 2)

    @pytest.mark.slow
    def test_sixteen_thousand_columns_are_read_in_linear_time(self, tmp_path):
        def seconds(d):
            path = tmp_path / f"{d}.csv"
            lines = [",".join(f"c{j}" for j in range(d)), *([",".join(["1.5"] * d)] * 3)]
            path.write_text("\n".join(lines))
            begin = time.process_time()
            assert read(path).X.shape == (3, d)
            return time.process_time() - begin

        seconds(100)
        small, large = (min(seconds(d) for _ in range(3)) for d in (2_000, 16_000))
        assert large < 17 * small  # linear: 8 to 10 times as long; with a quadratic check: 27


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_closes_the_pipe_is_no_error(rows, tmp_path, more):
    end, start = os.pipe()
    os.close(end)
    words = [sys.executable, "-m", "kvariates", "fit", rows, "-k", "2", "-o", tmp_path / "out"]
    done = subprocess.run([*words, *more], check=False, stdout=start, stderr=subprocess.PIPE)
    os.close(start)
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


def test_a_summary_is_valid_json(rows, tmp_path):
    assert run("fit", rows, "-k", 2, "--size-max", "inf", "-o", tmp_path / "out").exit_code == 0
    text = (tmp_path / "out" / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["parameters"]["size_max"] is None


class TestLyingFiles:
    def test_headers_of_arrays(self, tmp_path):
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10)}
        content = io.BytesIO()
        np.lib.format.write_array_header_1_0(content, header)
        (tmp_path / "a.npy").write_bytes(content.getvalue() + bytes(80))
        words = "the header says 1,000,000,000,000 x 10 values of float64, but only 80 bytes follow"
        assert words in failure("fit", tmp_path / "a.npy", "-k", 2)
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("X.npy", content.getvalue() + bytes(80))
        assert words in failure("fit", tmp_path / "a.npz", "-k", 2)

    def test_bombs(self, tmp_path, monkeypatch):
        monkeypatch.setattr(input_file, "memory", lambda: 2e6)
        content = io.BytesIO()
        np.save(content, np.zeros((200_000, 2)))
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", content.getvalue())
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * 10**6))
        for name in ("a.npz", "a.csv.gz"):
            assert (tmp_path / name).stat().st_size < 20_000
            line = failure("fit", tmp_path / name, "-k", 2, "--no-stream")
            assert "its contents need more than 0.001 GB of memory" in line

    def test_damaged_and_foreign_models(self, rows, tmp_path):
        out = tmp_path / "out"
        assert run("fit", rows, "-k", 2, "-o", out).exit_code == 0
        whole = (out / "model.skops").read_bytes()
        (tmp_path / "cut.skops").write_bytes(whole[: len(whole) // 2])
        assert "is damaged, or no saved model" in failure("predict", tmp_path / "cut.skops", rows)
        from sklearn.linear_model import LinearRegression
        from skops import io as skops_io

        skops_io.dump(LinearRegression(), tmp_path / "other.skops")
        failure("predict", tmp_path / "other.skops", rows)
        skops_io.dump({"f": os.system}, tmp_path / "evil.skops")
        line = failure("predict", tmp_path / "evil.skops", rows)
        assert "is no part of a model of kvariates" in line
        assert not (tmp_path / "labels.parquet").exists()

    def test_models_with_parts_that_do_not_fit_are_refused(self, rows, tmp_path):
        out, evil = tmp_path / "out", tmp_path / "evil.skops"
        assert run("fit", rows, "-k", 2, "-o", out).exit_code == 0
        with zipfile.ZipFile(out / "model.skops") as whole:
            parts = {part: whole.read(part) for part in whole.namelist()}
        schema = json.loads(parts["schema.json"])
        centers = schema["content"]["content"]["cluster_centers_"]["file"]
        odd = [
            np.full((2, 2), np.nan),
            np.ones(2),
            np.ones(()),
            np.ones((2, 5)),
            np.ones((2, 2, 2)),
        ]
        for array in odd:
            content = io.BytesIO()
            np.save(content, array)
            with zipfile.ZipFile(evil, "w") as archive:
                for part, old in (parts | {centers: content.getvalue()}).items():
                    archive.writestr(part, old)
            line = failure("predict", evil, rows, "-o", tmp_path / "l.csv")
            assert "evil.skops: is damaged: " in line
        assert not (tmp_path / "l.csv").exists()

    def test_a_model_that_unpacks_to_gigabytes_is_refused_before_it_is_read(self, rows, tmp_path):
        out = tmp_path / "out"
        assert run("fit", rows, "-k", 2, "-o", out).exit_code == 0
        with zipfile.ZipFile(out / "model.skops", "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("more.npy", bytes(3 * 10**8))
        line = failure("predict", out, rows, "-o", tmp_path / "l.csv")
        assert "its parts have 0.3 GB, more than 100 times the file" in line

    @pytest.mark.parametrize("how", ["--stream", "--no-stream"])
    def test_a_negative_weight_is_named(self, tmp_path, how):
        (tmp_path / "a.csv").write_text("x,y,w\n1,2,1\n2,3,-1\n5,6,1\n")
        line = failure("fit", tmp_path / "a.csv", "-k", 2, "--weights", "w", how)
        assert line.endswith("a.csv: row 2, column 'w': the weight -1.0 is negative")

    @pytest.mark.parametrize("name", ["os", "OneLineErrors", "run_command"])
    def test_a_model_cannot_reach_what_our_modules_import_or_call(self, rows, tmp_path, name):
        """A method of something in a module of kvariates, in place of a part of the model."""
        out = tmp_path / "out"
        assert run("fit", rows, "-k", 2, "-o", out).exit_code == 0
        call = {"__module__": "kvariates.cli.app", "__class__": name, "__id__": 10**9}
        owner = {**call, "__loader__": "FunctionNode", "content": None}
        method = {"obj": owner, "func": "system" if name == "os" else "__call__"}
        with zipfile.ZipFile(out / "model.skops") as whole:
            parts = {part: whole.read(part) for part in whole.namelist()}
        schema = json.loads(parts["schema.json"])
        attributes = schema["content"]["content"]
        attributes["cluster_centers_"] = {**call, "__loader__": "MethodNode", "content": method}
        with zipfile.ZipFile(tmp_path / "evil.skops", "w") as evil:
            for part, content in parts.items():
                evil.writestr(part, json.dumps(schema) if part == "schema.json" else content)
        line = failure("predict", tmp_path / "evil.skops", rows)
        assert f"kvariates.cli.app.{name}" in line
        assert "is no part of a model of kvariates" in line

    def test_gzip_cut_short(self, tmp_path):
        content = gzip.compress(os.urandom(1000).hex().encode() * 100)
        (tmp_path / "a.csv.gz").write_bytes(content[: len(content) // 2])
        assert "is damaged" in failure("fit", tmp_path / "a.csv.gz", "-k", 2)

    def test_sparse_matrices_with_indices_outside(self, tmp_path):
        np.savez(
            tmp_path / "a.npz", format=b"csr", shape=[3, 3], data=np.ones(2),
            indices=np.array([0, 99]), indptr=np.array([0, 1, 2, 2]),
        )  # fmt: skip
        failure("fit", tmp_path / "a.npz", "-k", 1)


class TestOutput:
    def test_formulas_are_pointed_out_and_stay_as_they_are(self, tmp_path):
        (tmp_path / "a.csv").write_text("=x,name\n1,=cmd|calc\n2,-5\n4,@h\n")
        result = run("fit", tmp_path / "a.csv", "-k", 2, "--keep", "-o", tmp_path / "out")
        assert "the name of a column: a spreadsheet may run '=x' as a formula" in result.stderr
        assert "column 'name': a spreadsheet may run '=cmd|calc' as a formula" in result.stderr
        assert "=x" in (tmp_path / "out" / "centers.csv").read_text().splitlines()[0]

    def test_names_of_files_cannot_change_the_terminal(self, rows, tmp_path):
        assert run("fit", rows, "-k", 2, "-o", tmp_path / "out").exit_code == 0
        result = run("predict", tmp_path / "out", rows, "-o", tmp_path / "a\x1b[31mb.csv")
        assert "a\\x1b[31mb.csv" in result.stdout
        assert "\x1b[31m" not in result.stdout

    def test_a_folder_in_place_of_a_file_leaves_nothing_behind(self, rows, tmp_path):
        out = tmp_path / "out"
        (out / "labels.parquet").mkdir(parents=True)
        line = failure("fit", rows, "-k", 2, "-o", out, "--force")
        assert "labels.parquet: is a folder" in line
        assert [path.name for path in out.iterdir()] == ["labels.parquet"]
        assert sorted(p.name for p in tmp_path.iterdir()) == ["X.npy", "out"]

    def test_a_failed_move_is_undone(self, tmp_path, monkeypatch):
        out = tmp_path / "out"
        out.mkdir()
        for name in "abc":
            (out / name).write_text("old")
        rename = file_writing.Path.rename

        def fail(path, target):
            if path.name == "c" and "out-" in str(path):
                raise OSError(5, "Input/output error")
            return rename(path, target)

        monkeypatch.setattr(file_writing.Path, "rename", fail)

        def write_new():
            with file_writing.moved_into_place(out) as folder:
                for name in "abc":
                    (folder / name).write_text("new")

        with pytest.raises(OSError, match="error"):
            write_new()
        found = {path.name: path.read_text() for path in out.iterdir()}
        assert found == dict.fromkeys("abc", "old")
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_folder_that_cannot_be_made(self, rows, tmp_path):
        (tmp_path / "file").touch()
        line = failure("fit", rows, "-k", 2, "-o", tmp_path / "file" / "out")
        assert "file: is not a directory" in line
        assert "[Errno" not in failure("fit", rows, "-k", 2, "-o", "/proc/nothing/out")


class TestProcesses:
    """The command in another process."""

    def command(self, *words, code="from kvariates.cli import main; main()", **options):
        words = [sys.executable, "-c", code, *map(str, words)]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def started(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(100_000, 8)).astype(np.float32)
        np.save(tmp_path / "X.npy", X)
        words = ["fit", "X.npy", "-k", 400, "--n-init", 100, "-o", "out"]
        process = self.command(*words, cwd=tmp_path)
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out-*")):  # it is created when the fit begins
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        time.sleep(1)
        return process

    def test_sigterm_ends_it_and_nothing_is_written(self, tmp_path):
        """Ctrl-C: tests/cli/test_fit.py."""
        process = self.started(tmp_path)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (143, "")
        assert err == "kvariates: terminated; nothing was written\n"
        assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]

    @pytest.mark.parametrize("before", [False, True])
    def test_a_process_killed_while_it_writes_changes_no_output(self, rows, tmp_path, before):
        """With --force too: the files of an earlier run stay as they were."""
        out, words = tmp_path / "out", ["fit", rows, "-k", 2, "-o", tmp_path / "out", "--force"]
        if before:
            assert run(*words).exit_code == 0
        old = {path.name: path.read_bytes() for path in out.iterdir()} if before else {}
        process = self.command(*words, code=HALF_WRITTEN)
        assert process.stdout.readline() == "half\n", process.communicate()
        process.kill()
        process.communicate(timeout=60)
        (half,) = tmp_path.rglob(".out-*/report.html")
        assert half.read_text() == "<!DOCTYPE"
        assert out.exists() == before
        left = out.iterdir() if before else ()
        found = {path.name: path.read_bytes() for path in left if path.is_file()}
        assert found == old
        other = self.command(*words, code=HALF_WRITTEN)  # still runs
        assert other.stdout.readline() == "half\n", other.communicate()
        (alive,) = tmp_path.rglob(".out-*")
        assert run(*words).exit_code == 0
        assert list(tmp_path.rglob(".out-*")) == [alive]
        other.kill()
        other.communicate(timeout=60)

    def test_a_full_disk(self, rows, tmp_path):
        """No file may grow beyond 2,000 bytes, so a write fails as on a full disk."""

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

        process = self.command("fit", rows, "-k", 2, "-o", tmp_path / "out", preexec_fn=limit)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 2, err
        assert err == "kvariates: file too large; nothing was written\n"
        assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]

    @pytest.mark.parametrize(
        ("words", "slow"),
        [
            (["--help"], ["scipy"]),
            (
                ["fit", "--help"],
                ["scipy.sparse", "scipy.optimize", "scipy.special", "scipy.linalg"],
            ),
        ],
    )
    def test_help_imports_little(self, words, slow):
        """So that it is quick: `python -m benchmarks.command` measures it."""
        slow = ["sklearn", "pyarrow", "matplotlib", "pandas", *slow]
        code = (
            "import sys; from typer.testing import CliRunner; from kvariates.cli import app; "
            f"assert CliRunner().invoke(app, {words}).exit_code == 0; "
            f"print([m for m in {slow} if m in sys.modules])"
        )
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(("long", "terminal"), [(False, True), (True, False), (True, True)])
def test_bars_appear_only_on_a_terminal_and_for_long_work(monkeypatch, long, terminal):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=80)
    monkeypatch.setattr(screen, "Console", lambda **_: console)
    monkeypatch.setattr(screen, "DELAY", 0 if long else 3600)
    deadline = time.monotonic() + (30 if long and terminal else 0.2)
    with screen.progress_display(quiet=False) as progress, screen.phase(progress, "work"):
        while "work" not in shown.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ("work" in shown.getvalue()) == (long and terminal)


def test_an_interruption_after_the_files_are_in_place_does_not_deny_them(
    rows, tmp_path, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    words = ["fit", rows, "-k", 2, "-o", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr("kvariates.cli.fit_means.write_labels", interrupt)
        assert failure(*words, code=130) == "interrupted; nothing was written"
        assert not (tmp_path / "out").exists()
    monkeypatch.setattr("kvariates.cli.fit_command.show_fit", interrupt)
    assert failure(*words, code=130) == "interrupted"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


@pytest.mark.parametrize("command", ["fit", "predict", "compare", "anticluster", "audit"])
def test_help_explains_every_argument_each_time_alike(command):
    first, second = (run(command, "--help").stdout for _ in range(2))
    assert first == second
    expected = "A method of" if command == "audit" else "A text table"
    assert expected in help_of(command)


def test_no_space_left_is_said_plainly(rows, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", str(tmp_path / "x"))

    monkeypatch.setattr("kvariates.cli.fit_means.write_labels", full)
    line = failure("fit", rows, "-k", 2, "-o", tmp_path / "out")
    assert line == "the disk is full; nothing was written"
    assert [p.name for p in tmp_path.iterdir()] == ["X.npy"]


def test_too_little_memory_is_one_line(rows, tmp_path, monkeypatch):
    def lacking(*_, **__):
        raise MemoryError

    monkeypatch.setattr("kvariates.cli.fit_means.read_table", lacking)
    assert "there is not enough memory" in failure("fit", rows, "-k", 2, "-o", tmp_path / "out")


def test_json_is_all_that_is_printed(rows, tmp_path):
    result = run("fit", rows, "-k", 2, "-o", tmp_path / "out", "--json")
    found = json.loads(result.stdout)
    assert found["files"] == FILES
    assert found == json.loads((tmp_path / "out" / "summary.json").read_text()) | {
        "out": str(tmp_path / "out"),
        "files": FILES,
    }
