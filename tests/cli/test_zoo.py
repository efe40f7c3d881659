"""Ugly tables as people have them: each is read rightly, or refused with one helpful line.

A case is (bytes of the file, the matrix or the words of the error, words of the remark).
"""

import gzip
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli.test_fit import failure, run

from kvariates.sources import blocks, open_table, read

XY = [[1.5, 2], [3, 4.25], [5, 6]]
GERMAN = "Name;x;y\nMüller;1,5;2\nJosé;3;4,25\nZoë;5;6\n"


def cp(text):
    return text.encode("cp1252")


READ = {
    "plain": (b"x,y\n1.5,2\n3,4.25\n5,6\n", XY, ""),
    "windows line ends": (b"x,y\r\n1.5,2\r\n3,4.25\r\n5,6\r\n", XY, ""),
    "old mac line ends": (b"x,y\r1.5,2\r3,4.25\r5,6\r", XY, ""),
    "no end of the last line": (b"x,y\n1.5,2\n3,4.25\n5,6", XY, ""),
    "empty lines at the end": (b"x,y\n1.5,2\n3,4.25\n5,6\n\n\n\n", XY, ""),
    "empty lines between": (b"\n\nx,y\n\n1.5,2\n\n3,4.25\n5,6\n", XY, ""),
    "empty rows of a spreadsheet": (b"x;y\n1.5;2\n3;4.25\n5;6\n;\n;\n", XY, "2 empty rows"),
    "byte order mark": (b"\xef\xbb\xbfx,y\n1.5,2\n3,4.25\n5,6\n", XY, ""),
    "utf-16": ("x\ty\n1.5\t2\n3\t4.25\n5\t6\n".encode("utf-16"), XY, "encoding utf-16"),
    "tabs": (b"x\ty\n1.5\t2\n3\t4.25\n5\t6\n", XY, "separated by tabs"),
    "bars with blanks": (b"x | y\n1.5 | 2\n3 | 4.25\n5 | 6\n", XY, "separated by bars"),
    "blanks": (b"  x   y\n 1.5  2\n   3  4.25 \n   5    6\n", XY, "separated by blanks"),
    "blanks after commas": (b"x, y\n1.5, 2\n3, 4.25\n5, 6\n", XY, ""),
    "semicolons and decimal commas": (cp(GERMAN), XY, "decimal commas; encoding cp1252"),
    "the same in utf-8": (GERMAN.encode(), XY, "semicolons; decimal commas"),
    "a line for Excel": (b"sep=;\r\nx;y\r\n1,5;2\r\n3;4,25\r\n5;6\r\n", XY, "decimal commas"),
    "everything quoted": (b'"x","y"\n"1.5","2"\n"3","4.25"\n"5","6"\n', XY, ""),
    "quoted delimiters and lines": (
        b'name,x,y\n"a, b",1.5,2\n"c\nd",3,4.25\n"e ""f""",5,6\n', XY, "not numeric: name"),
    "thousands separators": (
        b'city,people\nA,"1,200"\nB,"12,000,000"\nC,950\n', [[1200], [12e6], [950]],
        "thousands separators in people"),
    "german thousands": (
        b"a;b\n1.234,5;1\n2.000.000,25;2\n3,5;3\n",
        [[1234.5, 1], [2000000.25, 2], [3.5, 3]], "thousands separators in a"),
    "blanks as thousands separators": (
        "a;b\n1\u00a0234,5;1\n12\u202f000,5;2\n".encode(), [[1234.5, 1], [12000.5, 2]], "in a"),
    "swiss apostrophes": (b"a,b\n1'234.5,1\n2'000,2\n", [[1234.5, 1], [2000, 2]], "thousands"),
    "per cents": (b"a,b\n20%,1\n3.5 %,2\n", [[0.2, 1], [0.035, 2]], "per cents in a"),
    "long minus and plus": (
        "a;b\n\u22121,5;+2\n3,5;+4\n".encode(), [[-1.5, 2], [3.5, 4]], "decimal commas"),
    "exponents": (b"a,b\n1e3,2E-1\n-1.5e+2,.5\n", [[1000, 0.2], [-150, 0.5]], ""),
    "no names": (b"1.5,2\n3,4.25\n5,6\n", XY, "no line of names"),
    "no names, first column is text": (b"A,1.5,2\nB,3,4.25\nC,5,6\n", XY, "no line of names"),
    "years as names": (b"land,2019,2020\nA,1.5,2\nB,3,4.25\nC,5,6\n", XY, "not numeric: land"),
    "comments": (
        b"# by a probe\n# 2024\nx,y\n1.5,2\n# pause\n3,4.25\n5,6\n", XY,
        "2 comments left out before the first row"),
    "names in a comment": (b"# x,y\n1.5,2\n3,4.25\n5,6\n", XY, ""),
    "a title above": (
        b"Report;;\nof 2024\n# a;b;c\n\nname;x;y\na;1,5;2\nb;3;4,25\nc;5;6\n", XY,
        "2 lines before the table left out; 1 comment left out before the first row"),
    "a delimiter at the end of lines": (b"x,y,\n1.5,2,\n3,4.25,\n5,6,\n", XY, ""),
    "a delimiter at the end of rows": (b"x,y\n1.5,2,\n3,4.25,\n5,6,\n", XY, ""),
    "row names of R": (b'"x","y"\n"r1",1.5,2\n"r2",3,4.25\n"r3",5,6\n', XY, "column1"),
    "one column with decimal commas": (b"x\n1,5\n2,5\n", [[1.5], [2.5]], "decimal commas"),
    "gzip under another name": (gzip.compress(b"x,y\n1.5,2\n3,4.25\n5,6\n"), XY, ""),
    "names with markup and escapes": (
        b"[/a],\x1b[31m$$\n1.5,2\n3,4.25\n5,6\n", XY, ""),
    "text that is mostly numbers": (
        b"x,y,z\n1.5,2,1\n3,4.25,2\n5,6,3\n7,8,4\n9,10,broken\n",
        [*XY, [7, 8], [9, 10]], "'broken' in row 5 is not a number"),
    "addresses beside decimal points": (
        b"ip,x\n10.0.0.1,12.345\n10.0.0.2,3\n", [[12.345], [3]], "not numeric: ip"),
    "addresses with long groups": (
        b"ip;x\n192.168.100.101;1.5\n192.168.100.102;2\n", [[1.5], [2]], "not numeric: ip"),
    "a mark in a note far below": (
        b"x;y;note\n" + b"0;2;a\n" * 90_000 + b"1.5;2;3,5\n",
        [*[[0, 2]] * 90_000, [1.5, 2]], "not numeric: note"),
    "a code with blanks": (
        b"phone,x\n030 123,1.5\n040 456,2\n", [[1.5], [2]], "not numeric: phone"),
    "german dates beside decimal points": (
        b"date;x;y\n12.05.2024;1.5;3\n13.05.2024;2;4\n", [[1.5, 3], [2, 4]], "not numeric: date"),
    "line ends that were doubled": (b"x,y\r\r\n1.5,2\r\r\n3,4.25\r\r\n5,6\r\r\n", XY, ""),
    "an old line end after the names": (b"x,y\r1.5,2\n3,4.25\n5,6\n", XY, ""),
    "one column with signs and gaps": (
        b"x\n-1,5\n3\n2,5e1\n", [[-1.5], [3], [25]], "decimal commas"),
    "one column with thousands and commas": (
        b"x\n1.234,5\n2.500\n12.000.000,25\n", [[1234.5], [2500], [12e6 + 0.25]], "decimal commas"),
    "one column with per cents": (b"x\n12,5%\n8 %\n1,25 %\n", [[0.125], [0.08], [0.0125]],
                                  "per cents"),
    "two columns under a title": (
        b"measured\n1.234 567\n2.345 678\n", [[1.234, 567], [2.345, 678]],
        "1 line before the table left out"),
    "one column with blanks in numbers": (b"x\n1 234\n5 678\n", [[1234], [5678]], "thousands"),
    "a decimal mark far below": (
        b"x;y\n" + b"1;2\n" * 98 + b"1,250;2\n3,125;4\n",
        [*[[1, 2]] * 98, [1.25, 2], [3.125, 4]], "--decimal '.'"),
    "a decimal mark behind the sample": (
        b"x;y\n" + b"0;2\n" * 90_000 + b"1.250;2,5\n",
        [*[[0, 2]] * 90_000, [1250, 2.5]], "decimal commas"),
    "a very long cell": (b"x,y,shape\n1.5,2,a\n3,4.25," + b"b" * 200_000 + b"\n5,6,c\n", XY, ""),
    "dollars": (
        b'n,price\na,"$6,929.03"\nb,-$5\nc,($7.50)\nd,$ 12\n', [[6929.03], [-5], [-7.5], [12]],
        "the currency $ in price"),
    "euros": (
        "n;price\na;19.758,07 \u20ac\nb;-1,50 \u20ac\nc;7 \u20ac\n".encode(),
        [[19758.07], [-1.5], [7]], "the currency \u20ac in price"),
    "codes and symbols of money": (
        "a;b\nEUR 12;\u00a35\n3 EUR;\u00a37.25\n".encode(), [[12, 5], [3, 7.25]],
        "the currency EUR in a"),
    "one column of euros": (
        "price\n19,50 \u20ac\n7 \u20ac\n".encode(), [[19.5], [7]], "the currency \u20ac in price"),
    "units below the names": (b"n,x,y\n,m,kg\na,1.5,2\nb,3,4.25\nc,5,6\n", XY,
                              "the row below the names left out, as units: m kg"),
    "totals at the end": (
        b"Sales of 2024,,\n\nshop,x,y\n,[m],\na,1.5,2\nb,3,4.25\nc,5,6\nTOTAL,9.5,12.25\n,,\n", XY,
        "the last row left out, as totals: TOTAL,9.5,12.25"),
    "totals below numbers": (b"n;x\n1;1,5\n2;2\nSumme:;3,5\n", [[1, 1.5], [2, 2]], "as totals"),
    "truth values": (b"x,y\n1,true\n2,False\n", [[1, 1], [2, 0]], "read as 0 and 1 in y"),
    "hexadecimal": (b"x,y\n1,0x1A\n2,0xff\n", [[1, 26], [2, 255]], ""),
    "doubtful decimal mark": (b"x;y\n1,200;3\n2,500;4\n", [[1.2, 3], [2.5, 4]], "--decimal '.'"),
}  # fmt: skip

REFUSED = {
    "empty": (b"", "the file is empty"),
    "only names": (b"x,y\n", "no rows"),
    "only comments": (b"# a\n# b\n", "only comments"),
    "a row too short": (b"x,y\n1,2\n3\n4,5\n6,7\n", "row 2 (line 3) has 1 cell, and there are 2"),
    "a row too short among comments": (
        b"x,y\n1,2\n# a\n3,4\n5\n# b\n6,7\n", "row 3 (line 5) has 1 cell, and there are 2"),
    "a row too long": (b"x,y\n1,2\n3,4,5\n4,5\n", "row 2 (line 3) has 3 cells, and there are 2"),
    "missing values": (
        b"x,y\n1,NA\n2,-\n3,4\n,5\n",
        "column 'x' has 1 missing value, first in row 4 (3 in 2 columns, 3 rows); --missing drop"),
    "infinite": (b"x,y\n1,inf\n2,3\n", "column 'y' has 1 missing or infinite value"),
    "text only": (
        b"name,town\na,b\nc,d\n", "no numeric column (found name, town); --skip N leaves out"),
    "a unit that could be a missing number": (
        b"n,x\na,kg\nb,2\nc,4\nd,6\ne,8\nf,0\n", "'kg' in row 1 is not a number; --na kg reads it"),
    "several currencies": (
        b"n,x\na,$5\nb,\xe2\x82\xac7\n", "'x' is left out: it has several currencies: $, \u20ac"),
    "everything skipped": (b"x,y\n1,2\n", "no rows: nothing is left after the 9 lines of --skip"),
    "the same name twice": (b"x,x\n1,2\n3,4\n", "2 columns are named 'x'"),
    "the same name twice, mostly numbers": (
        b"x,x\n1,2\n3,4\n5,6\n7,8\n9,10\na,b\n", "no numeric column (found x, x)"),
    "binary": (bytes(range(256)), "is not a text file"),
    "an open quote": (b'x,y\n1,"2\n3,4\n', "line 2: a quotation mark is not closed"),
    "wrong encoding given": (b"x,y\n\xe9,2\n", "is not in the encoding"),
}  # fmt: skip


def test_the_zoo_has_forty_tables():
    assert len(READ) + len(REFUSED) >= 40


@pytest.fixture
def table(tmp_path):
    def write(content):
        path = tmp_path / "zoo.csv"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("name", READ)
def test_it_is_read_rightly(name, table, tmp_path):
    content, matrix, words = READ[name]
    path = table(content)
    np.testing.assert_allclose(read(path).X, matrix, rtol=1e-15)
    result = run("fit", path, "-k", 1, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert words in result.output
    assert "\x1b[31m" not in result.output


def late(first, rows):
    """A table whose last rows are unlike the first ones."""
    return (first + rows).encode()


# Tables whose rows show late how they are to be read, and whether a stream may refuse them.
LATE = {
    "empty at first": (late("x,y,z\n" + "1,2,\n" * 300, "3,4,5\n6,7,8.5\n"), False),
    "empty at first, then true": (late("x,y\n" + "1,\n" * 300, "3,true\n6,false\n"), False),
    "empty at first, then text": (late("x,y\n" + "1,\n" * 300, "3,a\n6,b\n"), False),
    "unknown at first": (late("x,y\n" + "1,unknown\n" * 300, "3,5\n6,k.A.\n7,8\n"), False),
    "always empty": (late("x,y\n" + "1,\n" * 300, "3,\n"), False),
    "empty rows at the end": (late("x,y\n" + "1,2\n" * 300, ",\n" * 200), False),
    "a late decimal comma": (late("x;y\n" + "1;2\n" * 300, "3;4,5\n"), True),
    "a late thousands separator": (late("x;y\n" + "1;2\n" * 300, "3;4'500\n"), True),
    "late text": (late("x,y\n" + "1,2\n" * 300, "3,a\n"), True),
    "a late unknown": (late("x,y\n" + "1,2\n" * 300, "3,unknown\n"), True),
    "a late currency": (late("x,y\n" + "1,2\n" * 300, "3,$4\n"), True),
    "another currency": (late("x,y\n" + "1,$2\n" * 300, "3,\u20ac4\n"), True),
    "aligned": (late("x    y\n" + "1    2\n" * 300, "10  20\n"), False),
    "truth values": (late("x,y\n" + "1,true\n" * 300, "2,false\n"), False),
    "hexadecimal": (late("x,y\n" + "1,2\n" * 300, "3,0xff\n"), True),
    "totals": (late("n,x\n" + "a,2\n" * 300, "Total,600\n"), False),
    "old line ends": (late("n,x\r" + "a,2\r" * 300, "b,3\r"), False),
}


@pytest.mark.parametrize("name", LATE)
def test_a_stream_reads_the_same_table_or_refuses_it(name, table, monkeypatch):
    content, refused = LATE[name]
    # The beginning of a file is a few lines, as it is of a file of many megabytes.
    monkeypatch.setattr("kvariates.sources.text_reader.FIRST_BYTES", 256)
    monkeypatch.setattr("kvariates.sources.text_reader.SAMPLE_BYTES", 512)
    path = table(content)
    whole = read(path, missing="drop")
    if refused:
        with pytest.raises(ValueError, match=r"--no-stream|--decimal|currenc"):
            list(blocks(path, missing="drop"))
        return
    source = blocks(path, missing="drop", block_bytes=128)
    np.testing.assert_array_equal(np.concatenate([block.X for block in source]), whole.X)
    assert (source.names, source.left_out) == (whole.names, whole.left_out)


def test_words_for_missing_numbers_are_said(table, tmp_path):
    path = table(b"x,y\n1,2\n2,unknown\n3,4\n")
    out = ("-k", 1, "-o", tmp_path / "out")
    assert "column 'y' has 1 missing value, first in row 2" in failure("fit", path, *out)
    for how in ("--stream", "--no-stream"):
        result = run("fit", path, *out, "--force", "--missing", "drop", how)
        assert "zoo.csv: unknown read as missing in y" in result.stderr


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_a_number_that_cannot_be_read_is_not_to_be_missing(table, tmp_path, how):
    rows = [f"{i},{i * i},0x{i:x},{i}" for i in range(20)]
    text = "\n".join(["x,y,code,n", *rows, "1,2,3.5,12:30", ""])
    result = run("fit", table(text.encode()), "-k", 1, how, "-o", tmp_path / "out")
    assert "column 'code' is left out: '0x0' in row 1 is not a number" in result.stderr
    assert "write hexadecimal numbers as decimal ones" in result.stderr
    assert "column 'n' is left out: '12:30' in row 21 is not a number" in result.stderr
    assert "--na" not in result.stderr


@pytest.mark.parametrize("cell", ["$3.50", "3,50 \u20ac", "(\u00a33.50)", "-CHF 3"])
def test_money_that_a_stream_cannot_read_is_not_to_be_missing(table, monkeypatch, cell):
    monkeypatch.setattr("kvariates.sources.text_reader.FIRST_BYTES", 256)
    monkeypatch.setattr("kvariates.sources.text_reader.SAMPLE_BYTES", 512)
    path = table(late("x;y\n" + "1.5;2.5\n" * 300, f"3.5;{cell}\n"))
    with pytest.raises(ValueError, match="is not a number; --no-stream looks at all rows") as error:
        list(blocks(path))
    assert "--na" not in str(error.value)


def test_a_stream_with_an_identifier_says_what_it_left_out(table, tmp_path):
    path = table(b"id,plan,x,y\n" + b"1,a,2,3\n" * 9 + b"2,b,x1,4\n")
    out = tmp_path / "out"
    result = run("fit", path, "-k", 1, "--id", "id", "--stream", "-o", out)
    assert "left out, not numeric: plan, x" in result.stderr
    assert "column 'x' is left out: 'x1' in row 10 is not a number; --na x1 reads" in result.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert summary["data"]["left_out"] == ["plan", "x"]


def test_a_stream_with_an_identifier_keeps_its_notes(table, tmp_path):
    path = table(b"id,x,y\na,1.5,2\n# pause\nb,3,4.25\nTotal,4.5,6.25\n,,\n")
    for words in ((), ("--id", "id"), ("--keep",)):
        out = ("-o", tmp_path / "out", "--force")
        said = run("fit", path, "-k", 1, "--stream", *words, *out).stderr
        for note in ("1 comment left out", "1 empty row at the end", "as totals: Total,4.5,6.25"):
            assert note in said


def test_an_identifier_hides_no_other_one(table, tmp_path):
    """With --id, memory and blocks say the same of the other columns."""
    rows = [f"{i},{1000 + i},{i * i % 7},{i % 3}00" for i in range(40)]
    path, out = table("\n".join(["id,key,x,y", *rows, ""]).encode()), tmp_path / "out"
    said = {
        how: run("fit", path, "-k", 2, "--id", "id", how, "--force", "-o", out).stderr
        for how in ("--stream", "--no-stream")
    }
    assert said["--stream"] == said["--no-stream"]
    assert "key: looks like an identifier" in said["--stream"]


def test_a_pattern_is_one_table(table, tmp_path):
    path = table(b"x,y\n1,2\n3,4\n")
    (tmp_path / "zoo2.csv").write_bytes(b"x;y\n5;6\n")
    for how in ("--stream", "--no-stream"):
        words = ("-k", 1, how, "--force", "-o", tmp_path / "out")
        result = run("fit", path.with_name("zoo*.csv"), *words)
        assert result.exit_code == 0, result.output
        assert "zoo2.csv: cells are separated by semicolons" in result.stderr
        assert (tmp_path / "out" / "centers.csv").read_text().splitlines()[1] == "0,3,3.0,4.0"


# Files with lines that begin with #, the matrix, and how many comments stand between the rows.
MARKED = {
    "ids that begin with #": (b"id,x,y\n#0,1.5,2\nN1,3,4.25\n#2,5,6\n", 0),
    "only ids that begin with #": (b"id,x,y\n#1,1.5,2\n#2,3,4.25\n#3,5,6\n", 0),
    "comments everywhere": (b"# a\n#b,c\nx,y\n# d\n1.5,2\n# e\n3,4.25\n#,f,\n5,6\n# g\n", 3),
    "a line inside of quotation marks": (b'n,x,y\n"a\n#b",1.5,2\nc,3,4.25\nd,5,6\n', 0),
    "a title and comments": (b"Title\n# a\n# b,c\nx,y\n1.5,2\n3,4.25\n# d\n5,6\n", 1),
    "names in a comment": (b"# a\n# x,y\n1.5,2\n3,4.25\n# b\n5,6\n", 1),
}


@pytest.mark.parametrize("name", MARKED)
def test_lines_that_begin_with_a_hash(name, table, tmp_path):
    """They are comments only before the table, or with another number of cells."""
    content, between = MARKED[name]
    path = table(content)
    np.testing.assert_array_equal(read(path).X, XY)
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks(path)]), XY)
    for how in ("--no-stream", "--stream"):
        result = run("fit", path, "-k", 1, "--force", "-o", tmp_path / "out", how)
        words = f"{between} comment{'s' if between > 1 else ''} left out\n"
        assert ("zoo.csv: " + words in result.stderr) == (between > 0)


ZOO = {name: case[0] for cases in (READ, REFUSED, LATE, MARKED) for name, case in cases.items()}


def in_memory(path):
    opened = open_table(path)
    table = opened.table(missing="drop")
    kept = np.arange(len(table.X)) if table.kept is None else np.flatnonzero(table.kept)
    doubtful = {name: line for name, line in opened.doubtful.items() if name in table.left_out}
    return table.X, kept, (table.names, table.left_out, doubtful, sorted(opened.remarks))


def in_blocks(path):
    source = blocks(path, missing="drop", block_bytes=1000)
    read = list(source)
    X, kept = (np.concatenate([getattr(b, part) for b in read]) for part in ("X", "numbers"))
    notes = sorted([*source.remarks, *source.remarks_after])
    return X, kept, (source.names, source.left_out, source.doubtful, notes)


@pytest.mark.parametrize("name", ZOO)
def test_memory_and_blocks_read_the_same(name, table):
    """The same numbers, rows, names and notes; or the same error."""
    path, results = table(ZOO[name]), []
    for reader in (in_memory, in_blocks):
        try:
            results.append(reader(path))
        except ValueError as error:
            results.append(str(error))
    memory, streamed = results
    if isinstance(memory, str) or isinstance(streamed, str):
        assert memory == streamed
        return
    np.testing.assert_array_equal(memory[0], streamed[0])
    np.testing.assert_array_equal(memory[1], streamed[1])
    assert memory[2] == streamed[2]


def test_names_and_comments_are_no_table(table):
    path = table(b"x,y\n# end\n")
    for reader in (read, blocks):
        with pytest.raises(ValueError, match="no rows"):
            reader(path)


def test_other_columns_may_have_the_same_name(table, tmp_path):
    path = table(b"x,x,y\na,1,2\nb,3,4\n")
    for how in ("--no-stream", "--stream"):
        words = ("--columns", "y", "--seed", 0, "--force", "-o", tmp_path / "out", how)
        assert run("fit", path, "-k", 1, *words).exit_code == 0
        assert (tmp_path / "out" / "centers.csv").read_text().splitlines()[1] == "0,2,3.0"


def test_a_stream_counts_rows_without_comments(table):
    rows = b"".join(b"%d,2\n# pause\n" % i for i in range(1000))
    for bad in (b"x,2\n", b"1,2,3\n"):
        path = table(b"# a\na,b\n" + rows + bad)
        with pytest.raises(ValueError, match=r"row 1001\b"):
            sum(len(block.X) for block in blocks(path, columns=["a", "b"]))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_one_line(name, table, tmp_path):
    content, words = REFUSED[name]
    more = ["--encoding", "utf-8"] if "encoding" in name else []
    more += ["--skip", 9] if "skipped" in name else []
    line = failure("fit", table(content), "-k", 1, "-o", tmp_path / "out", *more)
    assert words in line
    assert len(line) < 400
    assert sorted(path.name for path in tmp_path.iterdir()) == ["zoo.csv"]


@pytest.mark.parametrize(
    ("content", "words", "matrix"),
    [
        (b"x;y\n1,200;3\n2,500;4\n", ["--decimal", "."], [[1200, 3], [2500, 4]]),
        (b"1,2\n3,4\n5,6\n", ["--header"], [[3, 4], [5, 6]]),
        (b"x^y\n1^2\n3^4\n", ["--delimiter", "^"], [[1, 2], [3, 4]]),
        ("naïve,x\na,1\nb,2\n".encode("latin-1"), ["--encoding", "latin-1"], [[1], [2]]),
        (b"x,y\n1,NA\n2,4\n", ["--missing", "drop"], [[2, 4]]),
        (b"x,y\n1,nix\n2,4\n-9,5\n", ["--missing", "drop", "--na", "nix", "--na", -9], [[2, 4]]),
        (b"1,2\n3,4\nx,y\n1,2\n", ["--skip", 2], [[1, 2]]),
        (b"x,y\n1,NA\n2,4\n3,8\n", ["--missing", "mean"], [[1, 6], [2, 4], [3, 8]]),
    ],
)
def test_what_was_found_out_can_be_given(table, tmp_path, content, words, matrix):
    out = tmp_path / "out"
    result = run("fit", table(content), "-k", 1, "--seed", 0, "-o", out, *words)
    assert result.exit_code == 0, result.output
    _, center = (out / "centers.csv").read_text(encoding="utf-8").splitlines()
    mean = [float(cell) for cell in center.split(",")[2:]]
    np.testing.assert_allclose(mean, np.mean(matrix, axis=0))


def test_standard_input(tmp_path):
    from api import app
    from typer.testing import CliRunner

    words = ["fit", "-", "-k", "2", "-o", str(tmp_path / "out")]
    for content in (cp(GERMAN), gzip.compress(cp(GERMAN))):
        result = CliRunner().invoke(app, [*words, "--force"], input=content)
        assert result.exit_code == 0, result.output
        assert "standard input: cells are separated by semicolons" in result.stderr
    words = ["anticluster", "-", "-g", "2", "--balance", "Name", "-o", str(tmp_path / "groups")]
    result = CliRunner().invoke(app, words, input="Name,x\na,1\na,2\nb,3\nb,4\n")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--delimiter", "\u00e9"], "the delimiter must be one ASCII character, not '\u00e9'"),
        (["--encoding", "idna"], "'idna' is no known encoding"),
        (["--encoding", "base64"], "'base64' is no known encoding"),
    ],
)
def test_odd_options_are_refused(table, tmp_path, words, line):
    path = table(b"x,y\n1,2\n3,4\n")
    assert line in failure("fit", path, "-k", 1, "-o", tmp_path / "out", *words)


def test_no_kept_column_is_lost(table, tmp_path):
    path = table(b"label,label of the data,a\n1,2,3\n4,5,6\n")
    assert run("fit", path, "-k", 1, "--keep", "-o", tmp_path / "out").exit_code == 0
    columns = pq.read_table(tmp_path / "out" / "labels.parquet").to_pydict()
    twice = "label of the data of the data"
    assert list(columns) == [twice, "label of the data", "a", "label"]
    assert columns[twice] == [1, 4]


def test_wide_tables_are_read_whatever_their_cells_are(table):
    X = np.random.default_rng(0).normal(size=(4, 16_000)).round(6)
    names = ";".join(f"a long name of column {j}" for j in range(16_000))
    rows = "\n".join(";".join(f"{x:.6f}" for x in row) for row in X).replace(".", ",")
    np.testing.assert_array_equal(read(table(f"{names}\n{rows}\n".encode())).X, X)


def test_what_a_number_would_lose_stays_text_beside_the_labels(table, tmp_path):
    content = (
        b"zip,long,phone,part,n,d,x\n00501,18446744073709551615,030 123,20%,7,1.5,1\n"
        b"00502,18446744073709551614,040 456,5%,,2.25,2\n"
    )
    words = ("-k", 1, "--columns", "x", "--keep", "-o", tmp_path / "out")
    assert run("fit", table(content), *words).exit_code == 0
    found = pq.read_table(tmp_path / "out" / "labels.parquet").to_pydict()
    assert found == {
        "zip": ["00501", "00502"], "long": ["18446744073709551615", "18446744073709551614"],
        "phone": ["030 123", "040 456"], "part": ["20%", "5%"], "n": [7, None], "d": [1.5, 2.25],
        "x": [1, 2], "label": [0, 0],
    }  # fmt: skip


def test_nodes_that_differ_in_zeros_are_different(table, tmp_path):
    words = ("--objective", "median", "--metric", "graph", "-o", tmp_path / "out")
    assert run("fit", table(b"from,to\n001,01\n01,1\n"), "-k", 3, *words).exit_code == 0


def test_columns_of_arrow_keep_their_types_beside_the_labels(tmp_path):
    import pyarrow as pa

    times = pa.array([0, 10**12], pa.timestamp("ms", "Europe/Berlin"))
    ids = pa.array([2**53 + 1, None], pa.int64())
    pq.write_table(pa.table({"id": ids, "t": times, "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    words = ("-k", 1, "--columns", "x", "--keep", "-o", tmp_path / "out")
    assert run("fit", tmp_path / "a.parquet", *words).exit_code == 0
    found = pq.read_table(tmp_path / "out" / "labels.parquet")
    assert found["id"].to_pylist() == [2**53 + 1, None]
    assert found["t"].type == times.type


def test_the_cell_that_is_no_number_is_named(table, tmp_path):
    path = table(b"a,b\n,2\n3,4\nn/v,5\n6,7\n")
    words = ("-k", 2, "--columns", "a,b", "--missing", "drop", "-o", tmp_path / "out")
    assert "row 3, column 'a': 'n/v' is not a number; empty" in failure("fit", path, *words)


def test_columns_that_are_left_out_are_listed_with_an_identifier_too(table, tmp_path):
    path = table(b"id,x,plan\n11,1,a\n22,2,b\n")
    assert run("fit", path, "-k", 1, "--id", "id", "-o", tmp_path / "out").exit_code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["data"]["left_out"] == ["plan"]


def test_identifiers_that_differ_in_zeros_are_different(table, tmp_path):
    path = table(b"version,price,x\n1.1,2.50,1\n1.10,3.00,2\n")
    words = ("-k", 1, "--columns", "x", "--id", "version", "--keep", "-o", tmp_path / "out")
    assert run("fit", path, *words).exit_code == 0
    found = pq.read_table(tmp_path / "out" / "labels.parquet")
    assert found["version"].to_pylist() == ["1.1", "1.10"]
    assert found["price"].to_pylist() == [2.5, 3.0]
