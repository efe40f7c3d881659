"""Reading files: the numbers are those that were written, and every error is one clear line."""

import datetime as dt
import gzip
import os
import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api import HINT, SAMPLE_BYTES
from api import input_file_module as input_file
from pyarrow import feather, fs
from scipy import sparse

from kvariates.sources import blocks, open_table, read, standardize

EMPTY_IT = "; empty this cell, or leave the column out"
CSV = "name,lat,lon,people\nA,1.5,2,10\nB,-3,4.25,20\nC,0,1e3,30\n"
X = np.array([[1.5, 2, 10], [-3, 4.25, 20], [0, 1e3, 30]])


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def cities(tmp_path):
    return written(tmp_path / "cities.csv", CSV)


def failure(path, columns=None):
    """Return the error of one line that reading `path` raises."""
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read(path, columns)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


class TestReading:
    def test_csv(self, cities, tmp_path):
        table = read(cities)
        assert table.names == ("lat", "lon", "people")
        assert table.left_out == ("name",)
        assert table.path == cities
        assert table.X.flags.c_contiguous
        np.testing.assert_array_equal(table.X, X)
        path = tmp_path / "cities.CSV.gz"
        path.write_bytes(gzip.compress(CSV.encode()))
        np.testing.assert_array_equal(read(path).X, X)

    def test_named_columns_in_the_order_asked_for(self, cities):
        table = read(str(cities), ["people", "lat"])
        assert table.names == ("people", "lat")
        assert table.left_out == ()
        np.testing.assert_array_equal(table.X, X[:, [2, 0]])

    def test_parquet_keeps_float32_only_if_all_columns_are(self, tmp_path):
        single = pa.array([1.5, 2.5], pa.float32())
        columns = {"a": single, "b": single, "n": pa.array([1, 2]), "t": ["x", "y"]}
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        assert read(tmp_path / "t.parquet", ["a", "b"]).X.dtype == np.float32
        mixed = read(tmp_path / "t.parquet")
        assert mixed.X.dtype == np.float64
        assert mixed.names == ("a", "b", "n")
        assert mixed.left_out == ("t",)

    def test_decimals_are_numbers_and_dates_are_not(self, tmp_path):
        day = dt.date(2026, 1, 1)
        table = pa.table({"d": pa.array([1, 2]).cast(pa.decimal128(25, 2)), "when": [day, day]})
        pq.write_table(table, tmp_path / "t.parquet")
        read_back = read(tmp_path / "t.parquet")
        assert read_back.names == ("d",)
        np.testing.assert_array_equal(read_back.X, [[1], [2]])

    def test_text_that_holds_numbers_is_converted_when_named(self, tmp_path):
        table = pa.table({"t": ["1", "2.5"], "yes": [True, False], "x": [1, 2]})
        pq.write_table(table, tmp_path / "t.parquet")
        assert read(tmp_path / "t.parquet").names == ("yes", "x")
        named = read(tmp_path / "t.parquet", ["t", "yes"])
        np.testing.assert_array_equal(named.X, [[1, 1], [2.5, 0]])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_numpy(self, tmp_path, dtype):
        np.save(tmp_path / "a.npy", X.astype(dtype))
        np.savez(tmp_path / "only.npz", data=X.astype(dtype), y=np.arange(3))
        np.savez(tmp_path / "named.npz", X=X.astype(dtype), other=X[:2])
        for name in ("a.npy", "only.npz", "named.npz"):
            table = read(tmp_path / name)
            assert table.X.dtype == dtype
            assert table.names == ("x0", "x1", "x2")
            np.testing.assert_array_equal(table.X, X.astype(dtype))
        assert read(tmp_path / "a.npy", ["x2"]).X.shape == (3, 1)
        np.save(tmp_path / "integers.npy", np.arange(6).reshape(3, 2))
        assert read(tmp_path / "integers.npy").X.dtype == np.float64

    def test_a_column_can_be_removed(self, cities):
        table = read(cities).without("people")
        assert table.names == ("lat", "lon")
        np.testing.assert_array_equal(table.X, X[:, :2])
        with pytest.raises(ValueError, match="no column is left to cluster without 'lat'"):
            read(cities, ["lat"]).without("lat")


SAVE_X = "; save the table under the name X: np.savez(file, X=...)"


class TestErrors:
    """Every error is one line with the file, what is wrong, and where."""

    @pytest.mark.parametrize(
        ("name", "text", "columns", "line"),
        [
            ("a.xlsx", "", None, "is a spreadsheet; save it as CSV first"),
            ("a.txt", "", None, "no rows: the file is empty"),
            ("a.csv", "a;b,c\nx;y,z\n", None, f"no numeric column (found a;b, c); {HINT}"),
            ("a.csv", CSV, ["poeple"], "no column 'poeple'; did you mean people?"),
            ("a.csv", CSV, ["zzz"], "no column 'zzz'; there are name, lat, lon, people"),
            ("a.csv", CSV, ["lat", "lat"], "column 'lat' is asked for twice"),
            ("a.csv", "a,a\n1,2\n", None, "2 columns are named 'a'"),
            ("a.csv", CSV, ["name"], f"row 1, column 'name': 'A' is not a number{EMPTY_IT}"),
            ("a.csv", "a,b\n1,2\n3,\n5,NA", None,
             "column 'b' has 2 missing values, first in row 2"),
            ("a.csv", "a\n1\nnan\n", None, "column 'a' has 1 missing value, first in row 2"),
            ("a.csv", "a\n1\ninf\n", None,
             "column 'a' has 1 missing or infinite value, first in row 2"),
        ],
    )  # fmt: skip
    def test_text_files(self, tmp_path, name, text, columns, line):
        assert failure(written(tmp_path / name, text), columns) == line

    @pytest.mark.parametrize(
        ("arrays", "columns", "line"),
        [
            (np.empty((0, 2)), None, "no rows"),
            (np.empty((2, 0)), None, "no columns"),
            (np.arange(3.0), None, "the array has 1 dimensions, not 2"),
            ({"a": np.arange(3.0)}, None, f"has no 2-D array{SAVE_X}"),
            ({"a": X, "b": X}, None, f"has 2 2-D arrays (a, b){SAVE_X}"),
            (np.ones((2, 10)), ["lat"],
             "no column 'lat'; there are x0, x1, x2, x3, x4, x5, x6, x7 and 2 more"),
        ],
    )  # fmt: skip
    def test_numpy_files(self, tmp_path, arrays, columns, line):
        path = tmp_path / ("a.npz" if isinstance(arrays, dict) else "a.npy")
        np.savez(path, **arrays) if isinstance(arrays, dict) else np.save(path, arrays)
        assert failure(path, columns) == line

    @pytest.mark.parametrize(
        ("table", "columns", "line"),
        [
            ({"alpha": [1.0], "beta": [2.0]}, ["beta", "alhpa"],
             "no column 'alhpa'; did you mean alpha?"),
            ({"t": [dt.datetime(2026, 1, 1)]}, ["t"],
             "column 't' holds timestamp[us], not numbers"),
            ({"t": ["1", "2", None]}, ["t"], "column 't' has 1 missing value, first in row 3"),
        ],
    )  # fmt: skip
    def test_parquet_files(self, tmp_path, table, columns, line):
        pq.write_table(pa.table(table), tmp_path / "t.parquet")
        assert failure(tmp_path / "t.parquet", columns) == line

    def test_no_file_and_a_directory(self, tmp_path):
        assert failure(tmp_path / "no.csv") == "no such file"
        (tmp_path / "dir.csv").mkdir()
        assert failure(tmp_path / "dir.csv") == "no .parquet file in this folder"

    def test_a_csv_line_with_too_few_cells(self, tmp_path):
        line = failure(written(tmp_path / "a.csv", "a,b\n1,2\n3\n"))
        assert line.startswith("row 2 (line 3) has 1 cell, and there are 2 columns")

    @pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.npy"])
    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"\x93NUMPY\x01\x00"])
    def test_damaged_files(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        failure(tmp_path / name)

    @pytest.mark.parametrize(
        ("name", "content", "line"),
        [
            ("a.csv.gz", b"a\n1\n", "is called .gz, but is not compressed by gzip"),
            ("a.mtx", b"hello\n", "is no Matrix Market file"),
            ("a.mtx", b"two words\n", "is no Matrix Market file"),
            ("a.npy", b"hello\n", "is neither a .npy nor a .npz file"),
            ("a.npy", b"\x93NUMPY", "is damaged: the header of the array cannot be read"),
            ("a.csv", b"a\n" + b"1\n" * SAMPLE_BYTES + b"1\0\n",
             f"line {SAMPLE_BYTES + 2}: holds a zero byte, so it is not text"),
        ],
    )  # fmt: skip
    def test_files_that_are_something_else(self, tmp_path, name, content, line):
        (tmp_path / name).write_bytes(content)
        assert failure(tmp_path / name) == line

    def test_pickles_are_not_loaded(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([[object()]]), allow_pickle=True)
        assert "allow_pickle=False" in failure(tmp_path / "a.npy")

    @pytest.mark.parametrize(
        ("source", "what"),
        [
            (7, "int"),
            (pd.DataFrame({"a": [1.0]}), "DataFrame"),
            (sparse.eye_array(2, format="csr"), "csr_array"),
            (np.eye(2), "ndarray"),
            ([np.eye(2)], "a list with ndarray"),
            (["a.csv", 3], "a list with int"),
            ([], "list"),
            (iter([1.0]), "a list with float"),
        ],
    )
    def test_what_is_no_path(self, source, what):
        words = re.escape(f"path must be a path or a list of paths, not {what}")
        with pytest.raises(TypeError, match=f"^{words}$"):
            read(source)


class TestStandardize:
    def test_columns_have_mean_0_and_deviation_1(self):
        rng = np.random.default_rng(0)
        raw = rng.normal(size=(50, 3)) * [1, 100, 1e-3] + [0, 1e4, 5]
        X, scale = standardize(raw)
        np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(X.std(axis=0), 1)
        np.testing.assert_allclose(scale.undo(X), raw)

    def test_a_weight_equals_repeated_rows(self):
        rng = np.random.default_rng(1)
        raw, weights = rng.normal(size=(20, 2)), rng.integers(0, 4, 20)
        _, weighted = standardize(raw, weights.astype(float))
        _, repeated = standardize(np.repeat(raw, weights, axis=0))
        np.testing.assert_allclose(weighted.mean, repeated.mean)
        np.testing.assert_allclose(weighted.spread, repeated.spread)

    def test_a_constant_column_is_centred_only(self):
        X, scale = standardize(np.column_stack([np.full(7, 0.1), np.arange(7.0)]))
        np.testing.assert_allclose(X[:, 0], 0, atol=1e-15)
        assert scale.spread[0] == 1

    def test_float32_stays_float32(self):
        assert standardize(np.ones((3, 2), np.float32))[0].dtype == np.float32


class TestFolders:
    """A folder of Parquet files is one table."""

    @staticmethod
    def written(folder, *tables):
        folder.mkdir()
        for i, table in enumerate(tables):
            pq.write_table(pa.table(table), folder / f"{i}.parquet")
        return folder

    def test_the_order_is_that_of_blocks(self, tmp_path):
        parts = [{"a": [1.5, 2], "t": ["p", "q"]}, {"t": ["r"], "a": [3.0]}]
        folder = self.written(tmp_path / "rows", *parts)
        (folder / "0").mkdir()
        pq.write_table(pa.table({"t": ["s"], "a": [4.0]}), folder / "0" / "year=2020.parquet")
        table = read(folder)
        assert (table.names, table.left_out) == (("a",), ("t",))
        np.testing.assert_array_equal(table.X, next(iter(blocks(folder))).X)
        assert open_table(folder).originals(["t"])["t"].to_pylist() == ["s", "p", "q", "r"]

    def test_numbers_of_several_types(self, tmp_path):
        parts = [{"a": pa.array([2**62 + 1, None])}, {"a": pa.array([0.5], pa.float32())}]
        table = read(self.written(tmp_path / "rows", *parts), missing="drop")
        np.testing.assert_array_equal(table.X, [[2.0**62], [0.5]])

    @pytest.mark.parametrize(
        ("other", "columns", "line", "private"),
        [
            ({"b": [1]}, None, "the numeric columns are b, but those before are a", False),
            ({"a": [1], "b": [1]}, None, "the numeric columns are a, b, but", False),
            ({"a": ["1"]}, None, "no numeric column (found a)", False),
            ({"a": ["1"]}, ["a"], "column 'a' holds string, not numbers", True),
            *[({"b": [1]}, ["a"], "no column 'a'; there are b", how) for how in (False, True)],
            *[({"b": [1]}, ["c"], "no column 'c'; there are a", how) for how in (False, True)],
        ],
    )
    def test_files_that_do_not_agree(self, tmp_path, other, columns, line, private):
        folder = self.written(tmp_path / "rows", {"a": [1, 2]}, other)
        with pytest.raises(ValueError, match=re.escape(line)):
            open_table(folder, private=private).table(columns, None, "keep" if private else "error")

    def test_a_folder_larger_than_the_memory(self, tmp_path, monkeypatch):
        folder = self.written(tmp_path / "rows", {"a": [1.0] * 1000})
        monkeypatch.setattr(input_file, "memory", lambda: 15_000.0)
        assert "need more than" in failure(folder)


def test_a_pipe_is_read_once(tmp_path, cities):
    """As the shell gives it: without an extension, and with one."""
    for name in ("pipe", "pipe.csv"):
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(cities.read_bytes(),))
        writer.start()
        np.testing.assert_array_equal(read(tmp_path / name).X, X)
        writer.join()
        with pytest.raises(ValueError, match=f"{name}: is a pipe, which can be read only once"):
            blocks(tmp_path / name)


@pytest.mark.parametrize("values", [[3, 1, 3], [1.5, 2.5, 1.5]])
def test_a_dictionary_of_numbers(tmp_path, values):
    """Parquet does not keep it, Feather does: both are numbers, in memory and in blocks."""
    table = pa.table({"a": pa.array(values).dictionary_encode(), "b": [1, 2, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        for found in (read(tmp_path / name).X, next(iter(blocks(tmp_path / name))).X):
            np.testing.assert_array_equal(found, np.column_stack([values, [1, 2, 3]]))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-32-be"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path, encoding):
    mark = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    path = tmp_path / "a.csv"
    path.write_bytes((mark + "größe,b\n1,2\n3,4\n").encode(encoding))
    assert read(path).names == ("größe", "b")
    for found in (read(path).X, next(iter(blocks(path))).X):
        np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


class TestSeveralFiles:
    """Patterns, lists of paths and other file systems: in memory as in blocks."""

    @pytest.fixture
    def folder(self, tmp_path):
        for i in range(3):
            pq.write_table(
                pa.table({"a": [i, i + 0.5], "t": ["p", "q"]}), tmp_path / f"{i}.parquet"
            )
        (tmp_path / "a.csv").write_text("a,t\n7,p\n# pause\n8,q\n")
        (tmp_path / "b.csv").write_text("t;a\np;9,5\n")
        return tmp_path

    @staticmethod
    def rows(source, **options):
        """The column of numbers, which memory and blocks read alike."""
        X = np.concatenate([block.X for block in blocks(source, block_bytes=8, **options)])
        np.testing.assert_array_equal(read(source, **options).X, X)
        return X[:, 0].tolist()

    def test_patterns_and_lists(self, folder):
        every = [0, 0.5, 1, 1.5, 2, 2.5]
        assert self.rows(f"{folder}/*.parquet") == self.rows(folder / "[0-2].parquet") == every
        assert self.rows([folder / "2.parquet", f"{folder}/0.parquet"]) == [2, 2.5, 0, 0.5]
        assert self.rows([folder / "b.csv", folder / "?.parquet"]) == [9.5, *every]
        assert self.rows([f"{folder}/*.csv"]) == [7, 8, 9.5]
        with pytest.raises(FileNotFoundError, match=r"no\*: no file matches"):
            blocks(f"{folder}/no*")
        with pytest.raises(FileNotFoundError, match=r"3.parquet: no such file"):
            read([folder / "2.parquet", folder / "3.parquet"])

    def test_the_first_column_without_numbers_is_named_before_the_weights(self, tmp_path):
        path = written(tmp_path / "a.csv", "x,w\n1,a\nb,2\n")
        with pytest.raises(ValueError, match=r"row 2, column 'x': 'b' is not a number"):
            open_table(path).table(["x"], "w")

    def test_columns_of_several_matrices_are_joined(self, tmp_path):
        paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
        for number, path in enumerate(paths):
            np.save(path, np.full((2, 1), float(number)))
        assert open_table(paths).originals(["x0"])["x0"].tolist() == [0, 0, 1, 1]

    def test_what_is_said_of_several_text_files(self, folder):
        source = blocks(f"{folder}/*.csv")
        assert len(list(source)) == 1
        assert source.remarks == ["b.csv: cells are separated by semicolons; decimal commas"]
        assert source.remarks_after == ["a.csv: 1 comment left out"]
        assert source.names == ("a",)
        assert source.left_out == ("t",)
        found = open_table(f"{folder}/*.csv").originals(["t", "a"])
        assert found["t"].to_pylist() == ["p", "q", "p"]
        assert found["a"].to_pylist() == [7, 8, 9.5]

    @pytest.mark.parametrize("name", ["1.parquet", "a.csv", "*.parquet", "."])
    def test_file_systems(self, folder, name):
        here = self.rows(folder / name)
        (folder / "z.csv.gz").write_bytes(gzip.compress(b"a\n1\n2\n"))
        tree = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        memory = pytest.importorskip("fsspec").filesystem("memory")
        memory.makedirs("/rows", exist_ok=True)
        memory.rm("/rows", recursive=True)
        for path in folder.iterdir():
            memory.pipe_file(f"/rows/{path.name}", path.read_bytes())
        for source, files in (
            (f"file://{folder}/{name}", None), (name, tree), (f"memory://rows/{name}", None),
            (f"/rows/{name}", memory), (folder / name, fs.LocalFileSystem()),
        ):  # fmt: skip
            source = str(source).removesuffix("/.")
            assert self.rows(source, filesystem=files) == here
        assert self.rows("z.csv.gz", filesystem=tree) == [1, 2]

    def test_arrays_elsewhere(self, folder):
        elsewhere = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        rows = np.arange(24.0).reshape(8, 3)
        for dtype in (np.float64, np.float32, np.int16):
            np.save(folder / "X.npy", rows.astype(dtype))
            assert self.rows("X.npy", filesystem=elsewhere) == rows[:, 0].tolist()
        np.save(folder / "X.npy", np.asfortranarray(rows))
        assert self.rows(folder / "X.npy") == rows[:, 0].tolist()
        assert read("X.npy", filesystem=elsewhere).X.shape == (8, 3)
        with pytest.raises(ValueError, match=r"^X.npy: is stored column by column.*it first$"):
            blocks("X.npy", filesystem=elsewhere)

    def test_what_cannot_be_opened(self, folder):
        for url in ("https://example.org/a.csv", "ftp://example.org/a.csv"):
            for reader in (read, blocks):
                with pytest.raises(
                    ValueError, match=r"^\S+: files are not read .*; download it first"
                ):
                    reader(url)
        with pytest.raises(ValueError, match="neither pyarrow nor fsspec can open it") as refused:
            blocks("nowhere://a.csv")
        assert "\n" not in str(refused.value)
        with pytest.raises(TypeError, match="filesystem must be one of pyarrow or fsspec, not str"):
            blocks("a.csv", filesystem="s3")
        with pytest.raises(TypeError, match="filesystem is for paths, not for ndarray"):
            blocks(X, filesystem=fs.LocalFileSystem())
        with pytest.raises(FileNotFoundError, match=r"no\.csv: no such file"):
            blocks(f"file://{folder}/no.csv")
