"""The rows of a text file, as pyarrow reads them, and its errors in words."""

from __future__ import annotations

import csv as python_csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from kvariates.sources.pieces import Place
from kvariates.sources.readers import FileReader, one_line_errors
from kvariates.sources.text_format import COMMENT, TextFormat, TextOptions, comments_left_out
from kvariates.sources.text_lines import TextCheck, TextLines
from kvariates.sources.text_numbers import cell_remedy
from kvariates.sources.text_sniffing import MOST_LETTERS

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_BYTES = 2**22  # of the rows that are looked at before blocks are read


@dataclass(eq=False)
class TextRows(FileReader):
    """A text file, plain or compressed; `whole`: all of it is in memory."""

    text: TextOptions
    whole: bool = False

    def one_pass(self, how: TextFormat) -> TextPass:
        """What is done with the text in a pass over it."""
        strict = self.text.encoding is not None
        return TextPass(how, self.description, strict=strict, first=FIRST_BYTES)

    @contextmanager
    def stored(self) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """The file, and its bytes without compression."""
        import pyarrow as pa

        if self.whole:
            with pa.BufferReader(self.file.data) as text:
                yield text, text
            return
        with self.file.arrow(stored=True) as file:
            if self.file.gzipped:
                yield file, pa.CompressedInputStream(file, "gzip")
            else:
                yield file, file

    @contextmanager
    def _text(self, how: TextFormat) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """The file, and its text in UTF-8."""
        import pyarrow as pa

        with self.stored() as (file, text):
            if how.encoding != "utf-8":
                text = pa.transcoding_input_stream(text, how.encoding, "utf-8")
            yield file, text

    @contextmanager
    def rows(
        self, step: TextPass, types: dict[str, Any] | None = None, *, whole: bool = False
    ) -> Iterator[tuple[pa.NativeFile, Any]]:
        """The file, and its rows: in batches, or as one table.

        With `types`, these columns are read, otherwise all, in types that fit what they hold.
        """
        import pyarrow as pa
        from pyarrow import csv

        how = step.how
        columns = {} if types is None else {"column_types": types, "include_columns": list(types)}
        options = {
            # Messages have row numbers only without threads; a stream is read by one thread anyway.
            "read_options": csv.ReadOptions(
                column_names=list(how.names), skip_rows=how.skip, use_threads=whole,
                block_size=max(FIRST_BYTES, 64 * len(how.names) if self.whole else 0),
            ),
            "parse_options": csv.ParseOptions(
                delimiter=how.delimiter, invalid_row_handler=step.odd_row,
                newlines_in_values=not whole or b'"' in self.file.data,
            ),
            "convert_options": csv.ConvertOptions(
                null_values=sorted(how.missing), decimal_point=how.decimal, **columns
            ),
        }  # fmt: skip
        with self._errors(step), self._text(how) as (file, text):
            stream = pa.lib.TransformInputStream(text, step)
            yield file, (csv.read_csv if whole else csv.open_csv)(stream, **options)

    @contextmanager
    def _errors(self, step: TextPass) -> Iterator[None]:
        import pyarrow as pa

        with one_line_errors(self.description):
            try:
                yield
            except pa.ArrowInvalid as error:
                raise ValueError(self._in_words(str(error), step)) from error
            except UnicodeDecodeError as error:
                bad = error.object[error.start : error.start + 1].hex()
                raise ValueError(
                    f"{self.description}: is not in the encoding {step.how.encoding}: "
                    f"byte 0x{bad}; give the right one (--encoding)"
                ) from None

    def _in_words(self, message: str, step: TextPass) -> str:
        """A message of pyarrow, with the column's name and the row as `Place` counts it.

        pyarrow counts columns from 0, and lines from 1 with those that are skipped, and comments.
        """
        how = step.how
        if found := re.match(r"In CSV column #(\d+): Row #(\d+): .* value '(.*)'", message):
            row, column = step.row(int(found[2])), how.names[int(found[1])]
            return no_number(Place(self.description).row(row - 1, column), found[3])
        with self._text(how) as (_, text):
            lines = io.TextIOWrapper(text, "utf-8", "replace", newline="")
            uneven = uneven_row(islice(lines, how.skip, None), how)
        return f"{self.description}: {uneven}" if uneven else message


class TextPass:
    """One pass over a text table; `how` says how it is written.

    It takes the parts of the text, as `TextLines` does, and pyarrow asks it about rows with another
    number of cells than the table: comments are left out, others are an error.
    """

    def __init__(
        self, how: TextFormat, place: str, *, strict: bool = False, first: int = 0
    ) -> None:
        self.how = how
        self._check = TextCheck(how.delimiter, place=f"{place}: ", skip=how.skip)
        self._lines = TextLines(how.delimiter, skip=how.skip, strict=strict)
        self._comments: list[int | None] = []  # to append is safe in threads
        self._first = first
        self.hexadecimal = False  # whether a number in the `first` bytes may be

    def __call__(self, part: Any) -> bytes:
        text = self._lines(self._check(part))
        if self._first > 0:  # pyarrow reads ahead: later bytes may have come or not
            seen, self._first = text[: self._first], self._first - len(text)
            self.hexadecimal = self.hexadecimal or b"0x" in seen or b"0X" in seen
        return text

    def odd_row(self, row: Any) -> str:
        """What pyarrow does with a row of another number of cells."""
        if not row.text.startswith(COMMENT):
            return "error"
        self._comments.append(row.number)
        return "skip"

    def row(self, line: int) -> int:
        """The number of a row, by its line as pyarrow counts them without threads."""
        before = sum(number is not None and number < line for number in self._comments)
        return line - self.how.skip - before

    def remarks(self) -> list[str]:
        """What was left out, in lines for the user."""
        n = len(self._comments)
        return [*([comments_left_out(n)] if n else []), *self._lines.remarks()]


def uneven_row(lines: Any, how: TextFormat) -> str | None:
    """The first row with another number of cells than there are columns, in words.

    Pre: `lines` begins with the first row.
    """
    reader = python_csv.reader(lines, delimiter=how.delimiter)
    width, row = len(how.names), 0
    python_csv.field_size_limit(MOST_LETTERS)
    try:
        for cells in reader:
            if not cells or (len(cells) != width and cells[0].startswith(COMMENT)):
                continue
            row += 1
            if len(cells) != width:
                number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                return (
                    f"row {row} (line {how.skip + reader.line_num}) has {number}, and there are "
                    f"{width} columns; correct the line, or give --delimiter if "
                    f"{how.delimiter!r} is not the delimiter"
                )
    except python_csv.Error as error:
        return f"line {how.skip + reader.line_num}: {error}"
    return None


def no_number(where: str, cell: str, currencies: str = "") -> str:
    """That a cell is no number, although those before it are, and what to do."""
    if currencies:
        return f"{where}: {cell!r} has another currency than the cells before it ({currencies})"
    remedy = f"{cell_remedy((cell,))}; --no-stream looks at all rows to find out how they are read"
    return f"{where}: {cell!r} is not a number{remedy}"
