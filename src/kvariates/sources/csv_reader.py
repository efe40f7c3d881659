"""Reads a text table a piece at a time. Its beginning shows how it is written.

Where the beginning and the rest do not agree, that is an error: other rows could be read otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvariates.sources.input_file import InputFile
from kvariates.sources.pieces import ArrowPiece, Place, arrow_fields
from kvariates.sources.readers import Part, arrow_pieces, one_line_errors
from kvariates.sources.text_check import TextCheck
from kvariates.sources.text_format import TextFormat, TextOptions, comments_left_out
from kvariates.sources.text_lines import TextLines
from kvariates.sources.text_numbers import FoundNumbers, cell_remedy, find_numbers, said_marks
from kvariates.sources.text_sniffing import SAMPLE_BYTES, find_format, has_enough_lines
from kvariates.sources.text_table import (
    CommentFilter,
    convert_options,
    parse_options,
    said_truth_values,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

CSV_BYTES = 2**22


@dataclass(frozen=True)
class OneFile:
    """What readers of one file share."""

    path: Path
    repeatable = decodes = True

    @property
    def description(self) -> str:
        return str(self.path)

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size


@dataclass(frozen=True)
class CsvReader(OneFile):
    """Reads a text table, plain or compressed."""

    text: TextOptions
    n_rows = None
    named = True

    @cached_property
    def format(self) -> TextFormat:
        """How the table is written, by its beginning."""
        with one_line_errors(self.description), self._input() as (_, text):
            sample, size = text.read(SAMPLE_BYTES), SAMPLE_BYTES
            while len(sample) == size and not has_enough_lines(sample):
                size *= 2
                sample += text.read(size - len(sample))
            try:
                return find_format(sample, self.text, len(sample) < size)
            except ValueError as error:
                raise ValueError(f"{self.path}: {error}") from None

    @cached_property
    def comments(self) -> CommentFilter:
        """The comments between the rows that the last pass left out."""
        return CommentFilter()

    @cached_property
    def _last_pass(self) -> list[TextLines]:
        """The lines of the last pass."""
        return []

    @property
    def remarks_after(self) -> list[str]:
        """What the last pass left out, in lines for the user."""
        n = self.comments.count
        left_out = [line for lines in self._last_pass for line in lines.remarks()]
        return [*([comments_left_out(n)] if n else []), *left_out]

    @cached_property
    def _columns(self) -> dict[str, _Column]:
        """How the columns are read: as the first lines show that have anything in them."""
        import pyarrow as pa

        with self._errors(), self._input() as (_, text):
            stream = self._stream(text, None, self.comments)
            fields = list(stream.schema)
            batch = next(iter(stream), None)
        if batch is None:
            raise ValueError(f"{self.path}: no rows")
        columns = {}
        for field, column in zip(fields, batch.columns, strict=True):
            found = FoundNumbers(None)
            if pa.types.is_string(field.type):
                found = self._numbers(column)
            empty = pa.types.is_null(field.type) or pa.types.is_string(field.type)
            columns[field.name] = _Column(field.type, found, empty and found.is_empty)
        empty = [name for name, column in columns.items() if column.empty]
        return columns | (self._later_columns(empty) if empty else {})

    def _later_columns(self, empty: list[str]) -> dict[str, _Column]:
        """Columns that have nothing in the first lines. Those without anything are not numbers."""
        import pyarrow as pa

        columns = {}
        with self._errors(), self._input() as (_, text):
            for batch in self._stream(text, dict.fromkeys(empty, pa.string())):
                for name in [name for name in empty if name not in columns]:
                    found = self._numbers(batch.column(name))
                    if not found.is_empty:
                        columns[name] = _Column(self._plain_type(batch.column(name)), found)
                if len(columns) == len(empty):
                    break
        return columns

    def _plain_type(self, column: pa.Array) -> Any:
        """The type that pyarrow would find for a column of text."""
        import pyarrow as pa
        from pyarrow import compute as pc

        missing = pc.is_in(pc.utf8_trim_whitespace(column), pa.array(sorted(self.format.missing)))
        for kind in (pa.float64(), pa.bool_()):
            with suppress(pa.ArrowInvalid):
                return pc.if_else(missing, None, column).cast(kind).type
        return pa.string()

    def _numbers(self, column: pa.Array) -> FoundNumbers:
        """A column of text as numbers. ValueError if only another decimal mark makes them such."""
        how = self.format
        found = find_numbers(column, how.decimal, how.missing)
        if not how.decimal_shown and found.bad >= 0:
            other = "," if how.decimal == "." else "."
            if find_numbers(column, other, how.missing).numbers is not None:
                raise ValueError(
                    f"{self.path}: {found.words[0]!r} in row {found.bad + 1} is the first number "
                    f"with a decimal mark; give --decimal '{other}'"
                )
        return found

    @property
    def parts(self) -> list[Part]:
        import pyarrow as pa

        types = {name: column.kind or pa.float64() for name, column in self._columns.items()}
        schema = pa.schema([(name, types[name]) for name in self.format.names])
        return [Part(self.description, arrow_fields(schema))]

    @property
    def remarks(self) -> list[str]:
        """How the table is read, in lines for the user."""
        import pyarrow as pa

        words, columns = self.format.words(), self._columns.items()
        schema = pa.schema([(name, column.kind or pa.float64()) for name, column in columns])
        said = said_marks({name: column.found for name, column in columns})
        return [*([words] if words else []), *said_truth_values(schema), *said]

    @property
    def doubtful(self) -> dict[str, str]:
        """Columns of text whose first lines look numeric: a line about each."""
        found = {name: column.found for name, column in self._columns.items()}
        return {name: c.why_left_out(name) for name, c in found.items() if c.looks_numeric}

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        # A column of integers may have decimals in later lines, so all numbers are float64.
        kinds = {name: self._columns[name].kind for name in wanted}
        types = {n: _read_as(kind) for n, kind in kinds.items()}
        marked = [name for name, kind in kinds.items() if kind is None]
        self.comments.forget()
        with self._errors(), self._input() as (file, text):
            batches: Any = self._stream(text, types, self.comments)
            if marked:
                batches = self._without_marks(batches, marked)
            yield from arrow_pieces(batches, self.description, file.tell)

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """These columns as text, in batches."""
        import pyarrow as pa

        with self._errors(), self._input() as (_, text):
            yield from self._stream(text, dict.fromkeys(names, pa.string()))

    def _without_marks(self, batches: Any, marked: list[str]) -> Iterator[pa.RecordBatch]:
        """The batches with numbers in place of text with thousands separators and per cents."""
        import pyarrow as pa

        first, currencies = 0, dict[str, str]()
        for batch in batches:
            for name in marked:
                at = batch.schema.get_field_index(name)
                column = find_numbers(batch.column(at), self.format.decimal, self.format.missing)
                if column.bad >= 0:
                    where = Place(self.description, first).row(column.bad, name)
                    cell = batch.column(at)[column.bad].as_py()
                    raise ValueError(_no_number(where, cell, column.currency))
                if (
                    column.currency
                    and currencies.setdefault(name, column.currency) != column.currency
                ):
                    where = f"{self.description}: column {name!r}"
                    raise ValueError(
                        f"{where} has several currencies: {currencies[name]}, {column.currency}"
                    )
                numbers = column.numbers
                if numbers is None:  # all are missing
                    numbers = pa.nulls(batch.num_rows, pa.float64())
                batch = batch.set_column(at, name, numbers)
            first += batch.num_rows
            yield batch

    @contextmanager
    def _input(self) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """The file, and its bytes without compression."""
        import pyarrow as pa

        with pa.OSFile(self.description) as file:
            if InputFile(self.path).gzipped:
                yield file, pa.CompressedInputStream(file, "gzip")
            else:
                yield file, file

    def _stream(
        self, text: pa.NativeFile, types: dict[str, Any] | None,
        comments: CommentFilter | None = None,
    ) -> csv.CSVStreamingReader:  # fmt: skip
        """The rows in batches; of the columns with these types, if they are given."""
        import pyarrow as pa
        from pyarrow import csv

        how = self.format
        if how.encoding != "utf-8":
            text = pa.transcoding_input_stream(text, how.encoding, "utf-8")
        lines = TextLines(how.delimiter, skip=how.skip)
        self._last_pass[:] = [lines]
        check = TextCheck(how.delimiter, place=f"{self.description}: ", skip=how.skip)
        columns = {} if types is None else {"column_types": types, "include_columns": list(types)}
        # Messages have row numbers only without threads, and a stream is read by one thread anyway.
        reading = {"block_size": CSV_BYTES, "use_threads": False, "skip_rows": how.skip}
        return csv.open_csv(
            pa.lib.TransformInputStream(text, lambda part: lines(check(part))),
            convert_options=convert_options(how, **columns),
            **parse_options(how, comments or CommentFilter(), **reading),
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import pyarrow as pa

        with one_line_errors(self.description):
            try:
                yield
            except pa.ArrowInvalid as error:
                raise ValueError(self._with_row(str(error))) from error

    def _with_row(self, message: str) -> str:
        """A message of pyarrow, with the column's name and the row as `Place` counts it.

        pyarrow counts columns from 0, and lines from 1 with those that are skipped, and comments.
        """
        if found := re.match(r"In CSV column #(\d+): Row #(\d+): .* value '(.*)'", message):
            column = self.format.names[int(found[1])]
            where = Place(self.description).row(self._row(int(found[2])) - 1, column)
            return _no_number(where, found[3])
        if found := re.match(r"CSV parse error: Row #(\d+): (.*)", message):
            return f"{self.path}: row {self._row(int(found[1]))}: {found[2]}"
        return message

    def _row(self, line: int) -> int:
        return line - self.format.skip - self.comments.before(line)


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a text table, by its first lines.

    `kind` is its type, None for text that holds numbers, and `empty` whether it has no value there.
    """

    type: Any
    found: FoundNumbers
    empty: bool = False

    @property
    def kind(self) -> Any:
        return self.type if self.found.numbers is None else None


def _no_number(where: str, cell: str, currencies: str = "") -> str:
    """That a cell is no number, although those before it are, and what to do."""
    if currencies:
        return f"{where}: {cell!r} has another currency than the cells before it ({currencies})"
    remedy = f"{cell_remedy((cell,))}; --no-stream looks at all rows to find out how they are read"
    return f"{where}: {cell!r} is not a number{remedy}"


def _read_as(kind: Any) -> Any:
    import pyarrow as pa

    if kind is None:
        return pa.string()
    return kind if pa.types.is_boolean(kind) else pa.float64()
