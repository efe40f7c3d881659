"""Sources that cannot be read: every error is one line that says where and what is wrong."""

import gzip
import re
from contextlib import nullcontext
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from api import TextCheck
from pyarrow import feather, parquet
from scipy import sparse

from kvariates.sources import StandardizedBlocks, blocks, read

X = np.arange(60.0).reshape(20, 3)


def failure(source, **options):
    """The one line of the error that a pass over the source raises."""
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        list(blocks(source, **options))
    line = str(caught.value)
    assert "\n" not in line
    return line


def file_failure(path, **options):
    line = failure(path, **options)
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


def write_parquet(path, columns, **options):
    parquet.write_table(pa.table(columns), path, **options)
    return path


def with_value(value, row=12):
    column = np.arange(20.0)
    column[row] = value
    return {"a": np.arange(20.0), "b": column}


class TestValues:
    @pytest.mark.parametrize("block_bytes", [1, 80, 2**26])
    @pytest.mark.parametrize(
        ("value", "what"), [(np.nan, "a missing value"), (-np.inf, "an infinite value")]
    )
    def test_row_group_row_and_column(self, tmp_path, value, what, block_bytes):
        path = write_parquet(tmp_path / "a.parquet", with_value(value), row_group_size=5)
        line = file_failure(path, block_bytes=block_bytes)
        drop = "give blocks(..., missing='drop') to leave such rows out"
        assert line == f"row group 3, row 13, column 'b': {what}; {drop}"

    def test_a_null_and_a_missing_weight(self, tmp_path):
        columns = {"a": [1, 2, None], "b": [1.0, None, 2.0], "c": [3, 4, 5]}
        path = write_parquet(tmp_path / "a.parquet", columns)
        assert file_failure(path).startswith("row group 1, row 2, column 'b': a missing value")
        line = file_failure(path, columns=["c"], weights="a")
        assert line.startswith("row group 1, row 3, column 'a': a missing value")
        (block,) = blocks(path, columns=["b"], weights="a", missing="drop")
        assert (block.X, block.weight) == ([[1]], [1])

    def test_the_file_of_a_folder(self, tmp_path):
        write_parquet(tmp_path / "1.parquet", with_value(0.0))
        path = write_parquet(tmp_path / "2.parquet", with_value(np.nan, 0))
        line = failure(tmp_path)
        assert line.startswith(f"{path}: row group 1, row 1, column 'b': a missing value")

    @pytest.mark.parametrize("extension", ["csv", "csv.gz", "feather", "npy"])
    def test_other_files(self, tmp_path, extension):
        path = tmp_path / f"a.{extension}"
        frame = pd.DataFrame(with_value(np.nan))
        if extension == "npy":
            np.save(path, frame.to_numpy())
        elif extension == "feather":
            feather.write_feather(frame, path)
        else:
            frame.to_csv(path, index=False)
        column = "x1" if extension == "npy" else "b"
        assert file_failure(path).startswith(f"row 13, column {column!r}: a missing value")

    def test_data_in_memory(self):
        bad = X.copy()
        bad[5, 1] = np.nan
        for source, place in [
            (bad, "ndarray: row 6, column 'x1'"),
            (sparse.csr_array(bad), "csr_array: row 6, column 'x1'"),
            ([X, bad[4:]], "array 2: row 2, column 'x1'"),
            (pd.DataFrame(bad, columns=list("abc")), "DataFrame: row 6, column 'b'"),
            (pa.table({"a": bad[:, 1]}), "Table: row 6, column 'a'"),
        ]:
            assert failure(source, block_bytes=100).startswith(f"{place}: a missing value")

    @pytest.mark.parametrize("missing", ["error", "drop"])
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_negative_weights_and_too_large_numbers(self, kind, missing):
        bad = X + 1
        bad[7, 2] = -1
        line = failure(kind(bad), weights="x2", missing=missing)
        assert line.endswith(": row 8, column 'x2': the weight -1.0 is negative")
        line = failure(kind(X), weights=np.where(np.arange(20) == 3, -2, 1), missing=missing)
        assert line.endswith(": row 4, column 'weights': the weight -2.0 is negative")
        bad[7, 2] = 1e300
        line = failure(kind(bad), dtype="float32", missing=missing)
        assert line.endswith(": row 8, column 'x2': 1e+300 is too large for float32; give dtype=")

    def test_all_rows_incomplete(self):
        line = failure(np.full((4, 2), np.nan), missing="drop")
        assert line == "ndarray: no rows: all 4 have a missing value"


class TestText:
    @pytest.mark.parametrize("rows", [30, 10**6])
    def test_text_in_a_numeric_column_of_csv(self, tmp_path, rows):
        lines = ["t,a", *(f"t,{i}" for i in range(rows - 2)), "t,abc", "t,1"]
        path = tmp_path / "a.csv"
        path.write_text("\n".join(lines))
        line = file_failure(path, columns=["a"])
        assert line.startswith(f"row {rows - 1}, column 'a': 'abc' is not a number; --na abc reads")

    def test_text_in_a_named_column(self, tmp_path):
        path = write_parquet(tmp_path / "a.parquet", {"t": ["1", "2", "x"]}, row_group_size=2)
        assert (
            file_failure(path, columns=["t"])
            == "row group 2, row 3, column 't': 'x' is not a number; "
            "empty this cell, or leave the column out"
        )
        assert file_failure(path) == "no numeric column (found t)"

    def test_a_line_with_too_few_cells(self, tmp_path):
        (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
        line = file_failure(tmp_path / "a.csv")
        assert line.startswith("row 2 (line 3) has 1 cell, and there are 2 columns; correct the")

    def test_a_file_without_names(self, tmp_path):
        (tmp_path / "a.csv").write_text("1,2\n3,4\n")
        source = blocks(tmp_path / "a.csv")
        assert source.names == ("x0", "x1")
        assert next(iter(source)).X.tolist() == [[1, 2], [3, 4]]


class TestDamagedFiles:
    @pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "a.arrow", "a.npy"])
    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"\x93NUMPY\x01\x00"])
    def test_content_of_another_kind(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        file_failure(tmp_path / name)

    @pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
    @pytest.mark.parametrize("extension", ["parquet", "feather", "npy", "csv.gz"])
    def test_a_truncated_file(self, tmp_path, extension, share):
        path = tmp_path / f"a.{extension}"
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(5000, 2)), columns=["a", "b"])
        if extension == "parquet":
            frame.to_parquet(path)
        elif extension == "feather":
            feather.write_feather(frame, path)
        elif extension == "npy":
            np.save(path, frame.to_numpy())
        else:
            frame.to_csv(path, index=False)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])
        file_failure(path)

    @pytest.mark.parametrize("checksum", [False, True])
    def test_a_corrupt_row_group_is_named(self, tmp_path, checksum):
        columns = {"a": np.random.default_rng(0).normal(size=3000)}
        path = write_parquet(
            tmp_path / "a.parquet", columns, row_group_size=1000, use_dictionary=False,
            compression="snappy", write_page_checksum=checksum,
        )  # fmt: skip
        meta = parquet.read_metadata(path).row_group(1).column(0)
        content = bytearray(path.read_bytes())
        at = meta.data_page_offset + meta.total_compressed_size - 4000
        content[at : at + 2000] = bytes(255 - byte for byte in content[at : at + 2000])
        if not checksum:  # without one, only a page whose size is wrong is noticed
            start = meta.data_page_offset
            content[start : start + 40] = b"\xff" * 40
        path.write_bytes(bytes(content))
        line = file_failure(path, block_bytes=800)
        assert line.startswith("row group 2: cannot be read: ")

    def test_wrong_arrays(self, tmp_path):
        for array, line in [
            (np.arange(3.0), "the array has 1 dimensions, not 2"),
            (np.array(1.0), "the array has 0 dimensions, not 2"),
            (np.empty((0, 2)), "no rows"),
            (np.empty((2, 0)), "no columns"),
            (np.array([["a"]]), "no numeric column (found x0)"),
            (np.ones((2, 2), complex), "no numeric column (found x0, x1)"),
        ]:
            np.save(tmp_path / "a.npy", array)
            assert file_failure(tmp_path / "a.npy") == line

    def test_pickles_are_not_loaded(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([[object()]]), allow_pickle=True)
        file_failure(tmp_path / "a.npy")


class TestColumns:
    def test_names(self, tmp_path):
        path = write_parquet(tmp_path / "a.parquet", with_value(1.0))
        assert file_failure(path, columns=["c"]) == "no column 'c'; there are a, b"
        assert file_failure(path, weights="c") == "no column 'c'; there are a, b"
        assert file_failure(path, columns=["a", "a"]) == "column 'a' is asked for twice"
        assert file_failure(path, columns=[]) == "no columns"
        line = "column 'a' holds the weights; do not cluster it as well"
        assert file_failure(path, columns=["a"], weights="a") == line
        dates = write_parquet(tmp_path / "d.parquet", {"d": np.array(["2026-01-01"], "M8[us]")})
        line = "column 'd' holds timestamp[us], not numbers"
        assert file_failure(dates, columns=["d"]) == line

    def test_a_folder_of_different_files(self, tmp_path):
        write_parquet(tmp_path / "1.parquet", {"a": [1.0], "b": [1.0]})
        other = write_parquet(tmp_path / "2.parquet", {"a": [1.0], "c": [1.0]})
        line = f"{other}: the numeric columns are a, c, but those before are a, b; "
        assert failure(tmp_path) == line + "name the columns to read"
        assert failure(tmp_path, columns=["b"]) == f"{other}: no column 'b'; there are a, c"
        assert len(list(blocks(tmp_path, columns=["a"]))) == 1
        write_parquet(other, {"a": ["x"], "b": [1.0]})
        assert failure(tmp_path).startswith(f"{other}: the numeric columns are b, but")
        write_parquet(other, {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)})
        assert next(iter(blocks(tmp_path))).X.dtype == read(tmp_path).X.dtype == np.float64
        assert next(iter(blocks(tmp_path, dtype="float32"))).X.dtype == np.float32

    def test_later_arrays_of_another_width_or_kind(self):
        line = "array 2: the numeric columns are x0, x1, but those before are x0, x1, x2; "
        assert failure([X, X[:, :2]]) == line + "name the columns to read"
        line = "array 2: the columns are float32, but those before are float64; "
        assert failure([X, X.astype("f")]) == line + "give dtype= to convert all of them"
        line = "array 2: is sparse, but the rows before are dense"
        assert failure([X, sparse.csr_array(X)]) == line
        line = "array 2: is dense, but the rows before are sparse"
        assert failure([sparse.csr_array(X), X]) == line
        assert failure([X, X[0]]) == "array 2: has 1 dimensions, not 2"
        assert failure([X, [1, 2, 3]]) == "array 2: is a list, not a matrix or a frame"


class TestNothing:
    def test_no_file_no_folder_no_rows(self, tmp_path):
        assert file_failure(tmp_path / "no.csv") == "no such file"
        assert file_failure(tmp_path) == "no .parquet file in this folder"
        (tmp_path / "a.txt").touch()
        assert file_failure(tmp_path / "a.txt") == "no rows: the file is empty"
        (tmp_path / "a.json").touch()
        assert file_failure(tmp_path / "a.json").startswith("unknown extension .json; known are")
        (tmp_path / "a.csv").write_text("a,b\n")
        file_failure(tmp_path / "a.csv")
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n"))
        file_failure(tmp_path / "a.csv.gz")
        empty = write_parquet(tmp_path / "a.parquet", {"a": np.empty(0)})
        assert file_failure(empty) == "no rows"
        assert file_failure(write_parquet(empty, {})) == "no columns"
        assert failure([]) == "list: no rows"
        assert failure([X[:0]]) == "list: no rows"

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"columns": "a"}, TypeError, "columns must be a list of names: columns=['a']"),
            ({"columns": [0]}, TypeError, "columns must be names, such as 'x0' for a matrix"),
            ({"missing": "ignore"}, ValueError, "missing must be 'error' or 'drop', not 'ignore'"),
            ({"block_bytes": 0}, ValueError, "block_bytes must be at least 1, not 0"),
            (
                {"block_bytes": "1GB"},
                TypeError,
                "block_bytes must be an integer, such as 2**26, not",
            ),
            ({"dtype": "int32"}, ValueError, "dtype must be float32 or float64, not int32"),
            ({"weights": [1.0]}, ValueError, "ndarray: has 20 rows, but weights has shape (1,)"),
        ],
    )
    def test_parameters(self, options, error, message):
        with pytest.raises(error, match=re.escape(message)):
            blocks(X, **options)

    def test_other_sources(self):
        with pytest.raises(TypeError, match="source must be a path, a frame, a matrix"):
            blocks(3)
        with pytest.raises(ValueError, match="give the name of the column of weights"):
            blocks([X], weights=np.ones(20))


def test_a_corrupt_csr_matrix_is_refused():
    bad = sparse.random_array((50, 4), density=0.5, format="csr", rng=np.random.default_rng(0))
    bad.indptr[5] = 10**6
    with pytest.raises(ValueError, match=r"X\.indptr"):
        blocks(bad)


def test_a_file_that_changed_after_it_was_opened(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.zeros((100, 2)))
    source = blocks(path)
    np.save(path, np.zeros((7, 2)))
    with pytest.raises(ValueError, match="7 rows were read, but it had 100"):
        list(source)


def test_a_function_that_returns_no_iterable():
    def seven():
        return 7

    with pytest.raises(TypeError, match=r"^seven: returns int, not an iterable"):
        list(blocks(seven))


def test_what_cannot_be_standardized():
    with pytest.raises(TypeError, match=r"takes what blocks\(\.\.\.\) returns, not ndarray$"):
        StandardizedBlocks(np.eye(4))
    with pytest.raises(TypeError, match=r"^csr_array: is sparse, and standardized rows would not"):
        StandardizedBlocks(blocks(sparse.eye_array(4, format="csr")))


def test_an_iterable_may_fill_the_same_array_again():
    def refilled():
        X = np.empty((4, 2))
        for value in range(5):
            X[:] = value
            yield X

    found = [float(block.X[0, 0]) for block in blocks(refilled, block_bytes=64)]
    assert found == [0, 1, 2, 3, 4]


class TestTextOfBlocks:
    """What pyarrow passes over: memory and blocks refuse the same files."""

    ROWS = "n,1,2\n" * 200_000  # more than the sample

    @staticmethod
    def refused(path, text, line, encoding="utf-8"):
        path.write_bytes(text.encode(encoding))
        assert file_failure(path) == line
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}: {re.escape(line)}"):
            read(path)

    @pytest.mark.parametrize("after", [0, 1, 900_000])
    @pytest.mark.parametrize("before", ["", '# 5" a\n', '"a\nb",1,2\n', '5" pipe,1,2\n'])
    def test_a_quotation_mark_without_end(self, tmp_path, before, after):
        text = f'name,a,b\n{self.ROWS}{before}"5 inch,3,4\n' + "n,1,2\n" * after
        line = 1 + text.count("\n", 0, text.rindex('"'))
        self.refused(tmp_path / "a.csv", text, f"line {line}: a quotation mark is not closed")

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
    def test_a_zero_byte(self, tmp_path, encoding):
        text = f"näme,a,b\n{self.ROWS}n,1,2\0\n"
        words = "line 200002: holds a zero byte, so it is not text"
        self.refused(tmp_path / "a.csv", text, words, encoding)

    def test_marks_that_are_closed(self, tmp_path):
        rows = ['"a\nb",1', '5" pipe,2', '"say ""x""",3', '"",4', '"z",5'] * 300_000
        path = tmp_path / "a.csv"
        path.write_text("name,a\n" + "\n".join(rows) + "\n")
        found = np.concatenate([block.X for block in blocks(path)])
        np.testing.assert_array_equal(found, read(path).X)
        assert len(found) == len(rows)

    def test_marks_at_the_ends_of_parts(self):
        """Against a slow reader, wherever the text is cut."""
        for letters in product('"a,\n', repeat=6):
            text = "".join(letters)
            line = open_mark(text)
            for cut in (1, 3, 5):
                check = TextCheck(",", skip=1)
                for part in ('h"\n', text[:cut], text[cut:]):
                    check(part.encode())
                with pytest.raises(ValueError, match=f"line {line}:") if line else nullcontext():
                    check(b"")


def open_mark(text):
    """The line of the quotation mark without end, after one line of names; 0 if there is none."""
    line, opened, state = 2, 0, "begin"
    for letter in text:
        if letter == '"' and state in ("begin", "end"):
            opened, state = line if state == "begin" else opened, "quoted"
        elif letter == '"' and state == "quoted":
            state = "end"
        elif state != "quoted":
            state = "begin" if letter in ",\n" else "text"
        line += letter == "\n"
    return opened if state == "quoted" else 0
