"""Reads a text table into memory: any delimiter, decimal mark, encoding and comments."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvariates.sources.columns import listed
from kvariates.sources.text_check import TextCheck
from kvariates.sources.text_format import (
    COMMENT,
    MISSING,
    TextFormat,
    TextOptions,
    comments_left_out,
    decoded,
)
from kvariates.sources.text_numbers import FoundNumbers, find_numbers
from kvariates.sources.text_sniffing import SAMPLE_BYTES, find_format

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class TextTable:
    """The columns of a text file, and what a reader of it should know.

    Attributes
    ----------
    table : pyarrow Table
        Numbers with marks are numbers.
    format : TextFormat
    remarks : tuple of str
        Lines for the user.
    text : dict
        The columns that are text and look numeric, with what was found.
    """

    table: pa.Table
    format: TextFormat
    remarks: tuple[str, ...]
    text: dict[str, FoundNumbers]


def read_text(data: bytes, options: TextOptions) -> TextTable:
    """Read the bytes of a text file. Raises ValueError if it is no table."""
    how = find_format(data[:SAMPLE_BYTES], options, len(data) <= SAMPLE_BYTES)
    body, how = _body(data, how, options)
    body, dropped = _without_empty_end(body, how.delimiter)
    comments = CommentFilter()
    table = _without_empty_columns(_parsed(body, how, comments))
    remarks = [how.words()] if how.words() else []
    if comments.count:
        remarks.append(comments_left_out(comments.count))
    if dropped:
        remarks.append(f"{dropped} empty rows at the end left out")
    table, found = _with_numbers(table, how.decimal)
    marked: dict[str, list[str]] = {}
    for name, column in found.items():
        for mark in column.marks:
            marked.setdefault(mark, []).append(name)
    remarks += [f"{mark} in {listed(names)}" for mark, names in marked.items()]
    doubtful = {name: column for name, column in found.items() if column.looks_numeric}
    return TextTable(table, how, tuple(remarks), doubtful)


def _body(data: bytes, how: TextFormat, options: TextOptions) -> tuple[bytes, TextFormat]:
    """The lines from the first row on, in UTF-8."""
    if how.encoding == "utf-8":
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            if options.encoding is not None:
                decoded(data, "utf-8")  # raises with the place
            how = replace(how, encoding="cp1252")  # beyond the sample
            if re.search(rb"[\x81\x8d\x8f\x90\x9d]", data):
                how = replace(how, encoding="latin-1")
    if how.encoding != "utf-8":
        data = decoded(data, how.encoding).encode("utf-8")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    at = 0
    for _ in range(how.skip):
        at = data.find(b"\n", at) + 1 or len(data)
    body = data[at:]
    if how.delimiter == " ":
        body = re.sub(rb"(?m)^ +| +$", b"", re.sub(rb"[ \t]+", b" ", body.replace(b"\r\n", b"\n")))
    return body, how


class CommentFilter:
    """Tells pyarrow's readers of CSV to leave out comments between the rows, and counts them.

    Only lines with another number of cells than the table come here: others are rows.
    """

    def __init__(self) -> None:
        self._lines: list[int] = []  # to append is safe in threads

    def __call__(self, row: Any) -> str:
        if not row.text.startswith(COMMENT):
            return "error"
        self._lines.append(row.number)
        return "skip"

    @property
    def count(self) -> int:
        return len(self._lines)

    def before(self, number: int) -> int:
        """The comments before a line, as pyarrow counts them without threads."""
        return sum(line < number for line in self._lines)

    def forget(self) -> None:
        """Begin to count again."""
        self._lines.clear()


def parse_options(how: TextFormat, comments: CommentFilter, **reading: Any) -> dict[str, Any]:
    """The options of pyarrow's readers of CSV."""
    from pyarrow import csv as arrow_csv

    return {
        "read_options": arrow_csv.ReadOptions(column_names=list(how.names), **reading),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=how.delimiter, newlines_in_values=True, invalid_row_handler=comments
        ),
    }


def convert_options(how: TextFormat, **columns: Any) -> Any:
    """How pyarrow reads cells."""
    from pyarrow import csv as arrow_csv

    return arrow_csv.ConvertOptions(
        null_values=sorted(MISSING), decimal_point=how.decimal, **columns
    )


def _parsed(body: bytes, how: TextFormat, comments: CommentFilter) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    empty = pa.table({name: pa.array([], pa.float64()) for name in how.names})
    if not body.strip():
        return empty
    check = TextCheck(how.delimiter, lines=how.skip)
    for part in (body, b""):
        check(part)
    options = parse_options(how, comments, block_size=max(2**22, 64 * len(how.names)))
    options["parse_options"].newlines_in_values = b'"' in body
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(body), convert_options=convert_options(how), **options
        )
    except pa.ArrowInvalid as error:
        raise ValueError(_uneven_row(body, how) or _first_line(error)) from None
    return table if table.num_rows else empty  # all lines may be comments


def _uneven_row(body: bytes, how: TextFormat) -> str | None:
    """The first row with another number of cells than there are columns, in words."""
    lines = csv.reader(io.StringIO(body.decode("utf-8"), newline=""), delimiter=how.delimiter)
    width, row = len(how.names), 0
    csv.field_size_limit(2**30)
    try:
        for cells in lines:
            if not cells or (len(cells) != width and cells[0].startswith(COMMENT)):
                continue
            row += 1
            if len(cells) != width:
                number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                return (
                    f"row {row} (line {how.skip + lines.line_num}) has {number}, and there are "
                    f"{width} columns; correct the line, or give --delimiter if "
                    f"{how.delimiter!r} is not the delimiter"
                )
    except csv.Error as error:
        return f"line {how.skip + lines.line_num}: {error}"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _without_empty_end(body: bytes, delimiter: str) -> tuple[bytes, int]:
    """The lines without those at the end whose cells are all empty, and the number of these."""
    empty = b" \t\r\n" + delimiter.encode()
    end = body.rstrip(empty)
    line = body.find(b"\n", len(end))  # the end of the last line that is not empty
    if line < 0:
        return body, 0
    rest = body[line + 1 :]
    return body[: line + 1], sum(1 for part in rest.split(b"\n") if part.strip())


def _without_empty_columns(table: pa.Table) -> pa.Table:
    """The table without columns that have neither a name nor a value."""
    import pyarrow as pa

    kept = [
        i
        for i, field in enumerate(table.schema)
        if not (re.fullmatch(r"column\d+", field.name) and pa.types.is_null(field.type))
    ]
    return table.select(kept) if 0 < len(kept) < table.num_columns else table


def _with_numbers(table: pa.Table, decimal: str) -> tuple[pa.Table, dict[str, FoundNumbers]]:
    """The table with numbers in place of text where each cell is a number."""
    import pyarrow as pa

    found = {}
    columns = list(table.columns)
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = find_numbers(columns[i], decimal)
            found[field.name] = column
            if column.numbers is not None:
                columns[i] = column.numbers
    if found:
        table = pa.table(columns, names=table.column_names)
    return table, found
