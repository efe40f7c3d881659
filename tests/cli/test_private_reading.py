"""How a private fit reads a file: what is read from a row depends on this row alone."""

import csv
import re
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api import parse_bounds
from api import private_text_module as private_text
from cli.test_fit import failure, run

from kvariates import PrivateKMeans
from kvariates.sources import TextOptions, open_table

NAN = np.nan
# Lines of a table of two columns, and what is read from each.
LINES = {
    b"1,2": [1, 2],
    b"1.5,-2": [1.5, -2],
    b"1e3,2\r": [1000, 2],
    b' "1,200" ,"2"': [1200, 2],
    b"20%,.5": [0.2, 0.5],
    b"\xe2\x88\x922,+3": [-2, 3],
    b"1e400,1e-400": [np.inf, 0],
    b"9" * 400 + b",1": [np.inf, 1],
    b"0x1F,1": [NAN, 1],
    b"2020-01-01,1": [NAN, 1],
    b"12:30,1": [NAN, 1],
    b"true,false": [NAN, NAN],
    b"abc,7": [NAN, 7],
    b"inf,nan": [NAN, NAN],
    b"NA,": [NAN, NAN],
    b",": [NAN, NAN],
    b"1.2.3,1_000": [NAN, NAN],
    b'"a ""b""",1': [NAN, 1],
    b"1,2,3": [NAN, NAN],
    b"1": [NAN, NAN],
    b"# pause": [NAN, NAN],
    b"#1,2": [NAN, 2],
    b'"1,2': [NAN, NAN],
    b'1,2"': [NAN, NAN],
    b'"': [NAN, NAN],
    b'""""",1': [NAN, NAN],
    b"1\r2,3": [NAN, 3],
    b"\xe9,1": [NAN, 1],
    b"\xff\xfe,1": [NAN, 1],
    b"\xe2\x88,1": [NAN, 1],
    b"1,\xed\xa0\x80": [1, NAN],
    b"1\0,2": [NAN, 2],
    b"a" * 200_000 + b",1": [NAN, 1],
    b'"' + b"a" * 200_000 + b'",1"': [NAN, NAN],
    b"\xef\xbb\xbf1,2": [NAN, 2],
    b"sep=;": [NAN, NAN],
    b"1;2": [NAN, NAN],
    b"a,b": [NAN, NAN],
    b" ": None,
    b"": None,
}


@pytest.fixture
def numbers(tmp_path):
    def read(lines, first=b"a,b", options=None, columns=("a", "b")):
        path = tmp_path / "t.csv"
        path.write_bytes(b"".join(line + b"\n" for line in ([first] if first else []) + lines))
        return open_table(path, options, private=True).table(list(columns), None, "keep").X

    return read


def rows(lines):
    found = [LINES[line] for line in lines if LINES[line] is not None]
    return np.array(found, dtype=float).reshape(-1, 2)


class TestText:
    def test_beside_every_line_others_are_read_as_alone(self, numbers):
        """So to add or to replace a line changes the numbers of no other line."""
        for line in LINES:
            np.testing.assert_array_equal(numbers([line]), rows([line]))
            lines = [each for other in LINES for each in (other, line)]
            np.testing.assert_array_equal(numbers(lines), rows(lines), err_msg=str(line[:20]))

    @pytest.mark.parametrize("size", [2**16, 7])
    def test_all_lines_in_any_order(self, numbers, monkeypatch, size):
        monkeypatch.setattr(private_text, "BATCH_ROWS", size)
        rng = np.random.default_rng(0)
        for _ in range(20):
            lines = [list(LINES)[i] for i in rng.integers(0, len(LINES), 60)]
            np.testing.assert_array_equal(numbers(lines), rows(lines))

    def test_other_encodings(self, numbers):
        lines = [b"1,2", b"\x1b$B,2", b"+AAo-,3", b"\xe9,4", b"+2AA-,5", b"\\ud800,6", b"7,8"]
        for encoding in ("latin-1", "iso2022_jp", "utf-7", "shift_jis", "raw_unicode_escape"):
            options = TextOptions(encoding=encoding)
            alone = [numbers([line], options=options) for line in lines]
            together = numbers(lines, options=options)
            np.testing.assert_array_equal(together, np.concatenate(alone))
            assert together[[0, -1]].tolist() == [[1, 2], [7, 8]]
        for encoding in ("utf-16", "utf-32-le", "unicode_escape", "cp037"):
            with pytest.raises(ValueError, match="is not read privately"):
                numbers(lines, options=TextOptions(encoding=encoding))

    def test_the_format_is_not_found_out(self, numbers):
        """Only what the user gives counts: no delimiter and no decimal mark is guessed."""
        lines, semicolon = [b"1,5;2", b"2,5;1"], TextOptions(delimiter=";")
        assert np.isnan(numbers(lines, b"a;b", semicolon)[:, 0]).all()
        given = TextOptions(delimiter=";", decimal=",")
        assert numbers(lines, b"a;b", given)[:, 0].tolist() == [1.5, 2.5]
        with pytest.raises(ValueError, match="no column 'a'"):
            numbers(lines, b"a;b")
        assert numbers([b" 1   2 "], b" a  b", TextOptions(delimiter=" ")).tolist() == [[1, 2]]

    def test_names(self, numbers):
        first = b'\xef\xbb\xbf"a", b,'
        assert numbers([b"1,2,3"], first, columns=("a", "b", "column3")).tolist() == [[1, 2, 3]]
        no_names = {"first": b"", "options": TextOptions(header=False), "columns": ("x1", "x0")}
        assert numbers([b"1,2", b"3,4"], **no_names).tolist() == [[2, 1], [4, 3]]
        with pytest.raises(ValueError, match="no column 'x1'"):
            numbers([], **no_names)

    def test_no_rows(self, numbers):
        assert numbers([]).shape == numbers([b""]).shape == (0, 2)


class TestTypedFiles:
    COLUMNS = (
        pa.array([1, None, 2**53 + 1]).dictionary_encode(),
        pa.array([True, None, False]),
        pa.array([2**63 - 1, None, 1]),
        pa.array([Decimal("1.5"), None]),
        pa.array([1.5, None, float("inf")], pa.float16()),
        pa.nulls(2),
    )

    @staticmethod
    def read(path, column):
        pq.write_table(pa.table({"a": column}), path)
        return open_table(path, private=True).table(["a"], None, "keep").X[:, 0]

    @pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type)[:20])
    def test_each_cell_is_read_by_itself(self, tmp_path, column):
        path = tmp_path / "t.parquet"
        alone = [self.read(path, column.slice(i, 1))[0] for i in range(len(column))]
        np.testing.assert_array_equal(self.read(path, column), alone)
        assert self.read(path, column.slice(0, 0)).shape == (0,)

    @pytest.mark.parametrize(
        "column",
        [
            pa.array([1, None], pa.date32()),
            pa.array([1], pa.time32("s")),
            pa.array([[1.0], [1.0, 2.0]]),
            pa.array([b"1"]),
            pa.array(["1", "x", None]),
            pa.array(["1"], pa.large_string()),
            pa.array(["1"]).dictionary_encode(),
        ],
    )
    def test_a_type_without_numbers_is_refused_whatever_the_cells(self, tmp_path, column):
        for part in (column, column.slice(0, 0)):
            with pytest.raises(ValueError, match=r"column 'a' holds .*, not numbers"):
                self.read(tmp_path / "t.parquet", part)

    def test_a_matrix_market_file_is_refused(self, tmp_path):
        path = tmp_path / "t.mtx"
        path.write_text("%%MatrixMarket matrix array real general\n1 1\nx\n")
        with pytest.raises(ValueError, match="is not read privately"):
            open_table(path, private=True)


class TestCommand:
    BOUNDS = "a=0:10,b=0:10"
    WORDS = ("-k", 2, "--epsilon", 1, "--bounds", BOUNDS, "--force", "-o")

    def said(self, content, tmp_path, *more, bounds=BOUNDS):
        """The lines of a fit on standard error, but for warnings, which noise may cause."""
        (tmp_path / "t.csv").write_bytes(content)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            words = [bounds if word is self.BOUNDS else word for word in self.WORDS]
            result = run("fit", tmp_path / "t.csv", *words, tmp_path / "out", *more)
        assert result.exit_code == 0, result.output
        assert told == []
        return [
            line for line in result.stderr.splitlines()
            if not re.match("kvariates: warning: .*(only noise|budget may be too small)", line)
        ]  # fmt: skip

    @pytest.mark.parametrize("scale", ["none", "minmax"])
    @pytest.mark.parametrize("labels", [(), ("--labels",)])
    def test_no_line_changes_what_is_said(self, tmp_path, scale, labels):
        start, more = b"a,b\n" + b"1,2\n3,4\n" * 30, ("--scale", scale, *labels)
        bounds = "a=0:1e-10,b=0:10"  # so that 1e308 / 1e-10 would be infinite
        expected = self.said(start, tmp_path, *more, bounds=bounds)
        for line in (
            b"1,2,3", b"\xe9,1", b'"1,2', b"0x1F,2020-01-01", b"#", b"1e308,-1e308", b"-1e308,1",
            b"1e999,1", b"9" * 400 + b",1",
        ):  # fmt: skip
            said = self.said(start + line + b"\n", tmp_path, *more, bounds=bounds)
            assert said == expected

    def test_far_rows_are_clipped_before_they_are_scaled(self, tmp_path, monkeypatch):
        seen, fit = [], PrivateKMeans.fit
        monkeypatch.setattr(
            PrivateKMeans, "fit", lambda self, X: (seen.append(X.tolist()), fit(self, X))[1]
        )
        bounds = "a=0:1e-10,b=-10:10"
        content = b"a,b\n1e308,-1e308\n-1e308,0\n1e999,1\n"
        self.said(content, tmp_path, "--scale", "minmax", "--labels", bounds=bounds)
        assert seen[0][:2] == [[1, 0], [0, 0.5]]
        assert np.isnan(seen[0][2][0])
        labels = pq.read_table(tmp_path / "out" / "labels.parquet")["label"].to_pylist()
        assert [label is None for label in labels] == [False, False, True]

    @pytest.mark.parametrize("more", [(), ("--labels",), ("--labels", "--id", "id", "--keep")])
    def test_a_table_without_rows_is_fitted(self, tmp_path, more):
        expected = self.said(b"id,a,b\nx,1,2\n", tmp_path, *more)
        for rows, number in ((b"", 0), (b"x,,\n", 1), (b"x,1,\n\xe9\n", 2)):
            assert self.said(b"id,a,b\n" + rows, tmp_path, *more) == expected
            if more:
                labels = pq.read_table(tmp_path / "out" / "labels.parquet")["label"]
                assert labels.to_pylist() == [None] * number

    @pytest.mark.parametrize("more", [("--id", "id"), ("--keep",)])
    def test_text_that_is_not_utf8_beside_labels(self, tmp_path, more):
        names = pa.array([b"x", b"jane\xff", b"y"]).view(pa.string())
        path, out = tmp_path / "t.parquet", tmp_path / "out"
        pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0], "id": names}), path)
        result = run("fit", path, *self.WORDS, out, "--labels", *more)
        assert result.exit_code == 0, result.output
        found = pq.read_table(out / "labels.parquet")["id"].to_pylist()
        assert found == ["x", "jane\ufffd", "y"]

    def test_lists_of_such_text(self, tmp_path):
        names = pa.array([b"x", b"jane\xff"]).view(pa.string())
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2]), names)
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0], "id": lists}), path)
        result = run("fit", path, *self.WORDS, tmp_path / "out", "--labels", "--keep")
        assert result.exit_code == 0, result.output
        with pytest.raises(ValueError, match=r"column 'id' of list<.*> cannot be read") as refused:
            open_table(path).complete_values("id")
        assert "jane" not in str(refused.value)

    def test_labels_of_all_lines(self, tmp_path):
        path, out = tmp_path / "t.csv", tmp_path / "out"
        path.write_bytes(b'id,a,b\nx,1,2\n\xe9,3,4\n\nbroken\n"u,v",5,6\n')
        result = run("fit", path, *self.WORDS, out, "--labels", "--id", "id")
        assert result.exit_code == 0, result.output
        table = pq.read_table(out / "labels.parquet")
        assert table["id"].to_pylist() == ["x", "\ufffd", None, "u,v"]
        assert [label is None for label in table["label"].to_pylist()] == [0, 0, 1, 0]

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b'{"Jane": [0, 1]}', ": bounds are lines column,low,high"),
            ('{"a": [0, 1]}'.encode("utf-16"), ": cannot be read as bounds; give"),
            (b"[" * 100_000, ": cannot be read as bounds; give"),
            (b"a," + b"Jane" * 100 + b",1\n", ": cannot be read as bounds; give"),
            (b"name,age,job\n3,45,Jane\n", ", line 2: a bound is not a number"),
            (b"name,age\nJane,45\n", ", line 2: bounds are lines column,low,high"),
            (b"a,0,1\n\nJane,5,1\n", ", line 3: the lower bound is not below the upper one"),
            (b"Jane,0,1\nJane,0,2\n", ", line 2: the column has bounds already"),
            (b"Jane,0,inf\n", ", line 1: bounds must be numbers within +-1e+100"),
            (b"Jane,nan,1\n", ", line 1: bounds must be numbers within +-1e+100"),
            (b"Jane,-1.7e308,1.7e308\n", ", line 1: bounds must be numbers within +-1e+100"),
            (b"Jane,0,1e-200\n", ", line 1: bounds must be 1e-100 to 1e+100 apart"),
            (b"", ": bounds are lines column,low,high"),
        ],
    )
    def test_of_bad_bounds_the_place_is_named_and_no_cell(self, tmp_path, content, words):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n")
        path = tmp_path / "bounds"
        path.write_bytes(content)
        usual = csv.field_size_limit(300)  # letters; 131,072 if nobody has changed it
        options = ("-k", 1, "--epsilon", 1, "--scale", "minmax", "-o", tmp_path / "out")
        line = failure("fit", tmp_path / "t.csv", *options, "--bounds", path)
        csv.field_size_limit(usual)
        assert line.startswith(f"{path}{words}")
        assert "Jane" not in line

    def test_columns_that_a_file_of_bounds_names(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n")
        path = tmp_path / "bounds.csv"
        path.write_text("a,0,1\nJane,0,2\n")
        words = ("fit", tmp_path / "t.csv", "-k", 1, "--epsilon", 1, "--bounds", path, "-o", "out")
        assert f"has no column named in {path}, line 2; a private fit" in failure(*words)
        line = failure(*words, "--columns", "a,b")
        assert line == f"--bounds: the column named in {path}, line 2 is not one of a, b"

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            ("a=0:1,a=0:2", "--bounds: 'a' has bounds twice"),
            ("0,inf", "--bounds: the bounds must be numbers within +-1e+100; use other units"),
            ("a=-1.7e308:1.7e308", "--bounds: the bounds of a must be numbers within +-1e+100"),
            ("a=0:1e-200", "--bounds: the bounds of a must be 1e-100 to 1e+100 apart"),
            ("a=0:x", "--bounds: 'x' is not a number"),
        ],
    )
    def test_bad_bounds_in_words(self, words, line):
        with pytest.raises(ValueError, match="^" + re.escape(line)):
            parse_bounds(words)
