"""Reads a text table into memory: any delimiter, decimal mark, encoding and comments."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from kvariates.sources.columns import listed
from kvariates.sources.text_check import TextCheck
from kvariates.sources.text_format import (
    COMMENT,
    TextFormat,
    TextOptions,
    comments_left_out,
    decoded,
)
from kvariates.sources.text_lines import TextLines
from kvariates.sources.text_numbers import FoundNumbers, find_numbers, said_marks
from kvariates.sources.text_sniffing import (
    MOST_LETTERS,
    SAMPLE_BYTES,
    DecimalMark,
    find_decimal,
    find_format,
    has_enough_lines,
)

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
    sample = sample_of(data)
    how = find_format(sample, options, len(data) <= len(sample))
    body, how, lines = _body(data, how, options)
    comments = CommentFilter()
    table = _parsed(body, how, comments)
    if not how.decimal_shown and (later := _later_decimal(table, how.delimiter)).shown:
        other = replace(how, decimal=later.mark, ambiguous=later.ambiguous)
        again = _parsed(body, other, CommentFilter())
        if _numeric(table, how) <= _numeric(again, other):
            table, how = again, other
    table = _without_empty_columns(table)
    remarks = [how.words()] if how.words() else []
    if comments.count:
        remarks.append(comments_left_out(comments.count))
    remarks += lines.remarks()
    remarks += said_truth_values(table.schema)
    table, found = _with_numbers(table, how)
    remarks += said_marks(found)
    doubtful = {name: column for name, column in found.items() if column.looks_numeric}
    return TextTable(table, how, tuple(remarks), doubtful)


def rows_as_text(
    data: bytes, options: TextOptions, how: TextFormat, names: Sequence[str]
) -> pa.Table:
    """These columns of a text table, with all cells as text. Pre: `how` is that of `read_text`."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    body, how, _ = _body(data, how, options)
    texts = {"include_columns": list(names), "column_types": dict.fromkeys(names, pa.string())}
    return arrow_csv.read_csv(
        pa.BufferReader(body), convert_options=arrow_csv.ConvertOptions(**texts),
        **parse_options(how, CommentFilter(), block_size=max(2**22, 64 * len(how.names))),
    )  # fmt: skip


def _numeric(table: pa.Table, how: TextFormat) -> set[int]:
    """The columns of numbers, also of numbers with marks."""
    import pyarrow as pa

    columns = zip(table.schema, table.columns, strict=True)
    return {
        i for i, (field, column) in enumerate(columns)
        if not pa.types.is_string(field.type)
        or find_numbers(column, how.decimal, how.missing).numbers is not None
    }  # fmt: skip


def _later_decimal(table: pa.Table, delimiter: str) -> DecimalMark:
    """The decimal mark that cells behind the beginning of the file show."""
    import pyarrow as pa
    from pyarrow import compute as pc

    columns = [table.column(i) for i, f in enumerate(table.schema) if pa.types.is_string(f.type)]
    marked = (pc.unique(c.filter(pc.match_substring_regex(c, r"\d[.,]\d"))) for c in columns)
    return find_decimal((cells.to_pylist() for cells in marked), delimiter)


def sample_of(data: bytes) -> bytes:
    """The beginning of a text: some bytes, more if the lines are very long."""
    size = SAMPLE_BYTES
    while size < len(data) and not has_enough_lines(data[:size]):
        size *= 2
    return data[:size]


def _body(
    data: bytes, how: TextFormat, options: TextOptions
) -> tuple[bytes, TextFormat, TextLines]:
    """The lines from the first row on, in UTF-8, and what was left out of them."""
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
    ends = [found.end() for found in islice(re.finditer(rb"\r\n|\n|\r", data), how.skip)]
    body = data[ends[-1] :] if len(ends) == how.skip > 0 else data if how.skip == 0 else b""
    lines = TextLines(how.delimiter)
    return lines(body) + lines(b""), how, lines


def said_truth_values(schema: pa.Schema) -> list[str]:
    """Which columns hold truth values, in a line for the user."""
    import pyarrow as pa

    names = [field.name for field in schema if pa.types.is_boolean(field.type)]
    return [f"truth values read as 0 and 1 in {listed(names)}"] if names else []


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
        null_values=sorted(how.missing), decimal_point=how.decimal, **columns
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
    csv.field_size_limit(MOST_LETTERS)
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


def _without_empty_columns(table: pa.Table) -> pa.Table:
    """The table without columns that have neither a name nor a value."""
    import pyarrow as pa

    kept = [
        i
        for i, field in enumerate(table.schema)
        if not (re.fullmatch(r"column\d+", field.name) and pa.types.is_null(field.type))
    ]
    return table.select(kept) if 0 < len(kept) < table.num_columns else table


def _with_numbers(table: pa.Table, how: TextFormat) -> tuple[pa.Table, dict[str, FoundNumbers]]:
    """The table with numbers in place of text where each cell is a number."""
    import pyarrow as pa

    found = {}
    columns = list(table.columns)
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = find_numbers(columns[i], how.decimal, how.missing)
            found[field.name] = column
            if column.numbers is not None:
                columns[i] = column.numbers
    if found:
        table = pa.table(columns, names=table.column_names)
    return table, found
