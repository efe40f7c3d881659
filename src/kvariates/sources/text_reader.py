"""Reads a text table: in memory all its rows show how it is written, in blocks the first ones.

Where the first rows and the rest do not agree, that is an error: more of them could read otherwise.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kvariates.sources.columns import arrow_fields, listed
from kvariates.sources.pieces import Piece, Place
from kvariates.sources.readers import FileReader, Part, arrow_pieces, one_line_errors
from kvariates.sources.text_format import HINT, TextFormat, TextOptions
from kvariates.sources.text_lines import TextPass, uneven_row
from kvariates.sources.text_numbers import (
    FoundNumbers,
    cell_remedy,
    find_numbers,
    plain_column,
    said_marks,
)
from kvariates.sources.text_sniffing import (
    MOST_SAMPLE_BYTES,
    SAMPLE_BYTES,
    SAMPLE_LINES,
    DecimalMark,
    find_decimal,
    find_format,
)

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_BYTES = 2**22  # of the rows that are looked at before blocks are read


@dataclass(eq=False)
class TextReader(FileReader):
    """Reads a text table, plain or compressed. `whole`: all of it is kept in memory."""

    text: TextOptions
    whole: bool = False
    _last_pass: TextPass | None = field(default=None, init=False)  # `remarks_after` tells of it

    @cached_property
    def _sniffed(self) -> TextFormat:
        """How the table is written, by its beginning."""
        with one_line_errors(self.description), self._text("utf-8") as (_, text):
            sample, size = text.read(SAMPLE_BYTES), SAMPLE_BYTES
            while (
                len(sample) == size < MOST_SAMPLE_BYTES  # also if its lines are very long
                and sample.count(b"\n") + sample.count(b"\r") < SAMPLE_LINES
            ):
                size *= 2
                sample += text.read(size - len(sample))
            try:
                return find_format(sample, self.text, len(sample) < size)
            except ValueError as error:
                raise ValueError(f"{self.description}: {error}") from None

    @cached_property
    def _look(self) -> _Look:
        """The first rows, or all of them, read as they themselves show."""
        look = self._first(self._sniffed)
        if look.format.decimal_shown:
            return look
        later = _later_decimal(look)
        if later.shown:
            other = replace(look.format, decimal=later.mark, ambiguous=later.ambiguous)
            again = self._first(other)
            if _numeric(look) <= _numeric(again):
                return again
        return look

    def _first(self, how: TextFormat) -> _Look:
        import pyarrow as pa

        step = self._last_pass = self._one_pass(how)
        with self._rows(step) as (_, rows):
            if self.whole:
                return _Look(how, rows, step.hexadecimal)
            batch = next(iter(rows), None)
        table = rows.schema.empty_table() if batch is None else pa.Table.from_batches([batch])
        return _Look(how, table, step.hexadecimal)

    @cached_property
    def _columns(self) -> dict[str, _Column]:
        """How the columns are read: as those rows show that have anything in them."""
        import pyarrow as pa

        how, table, _ = self._look
        if not table.num_rows:
            raise ValueError(f"{self.description}: no rows")
        columns, empty = {}, []
        for column, values in zip(table.schema, table.columns, strict=True):
            found = FoundNumbers(None)
            is_text = pa.types.is_string(column.type)
            if is_text:
                found = find_numbers(values, how.decimal, how.missing)
            columns[column.name] = _Column(column.type, found)
            if pa.types.is_null(column.type) or (is_text and found.is_empty):
                empty.append(column.name)
        if self.whole or not empty:
            return columns
        return columns | self._later_columns(empty)

    def _later_columns(self, empty: list[str]) -> dict[str, _Column]:
        """Columns that have nothing in the first rows. Those without anything are not numbers."""
        import pyarrow as pa

        columns, how = dict[str, _Column](), self._look.format
        with self._rows(self._one_pass(how), dict.fromkeys(empty, pa.string())) as (_, batches):
            for batch in batches:
                for name in [name for name in empty if name not in columns]:
                    found = find_numbers(batch.column(name), how.decimal, how.missing)
                    if not found.is_empty:
                        columns[name] = _Column(_plain_type(batch.column(name), how), found)
                if len(columns) == len(empty):
                    break
        return columns

    @cached_property
    def _schema(self) -> pa.Schema:
        """The columns, without those that have neither a name nor a value."""
        import pyarrow as pa

        columns = self._columns
        kinds = [(name, columns[name].kind or pa.float64()) for name in self._look.format.names]
        named = [
            (name, kind)
            for name, kind in kinds
            if not (re.fullmatch(r"column\d+", name) and pa.types.is_null(kind))
        ]
        return pa.schema(named or kinds)

    @property
    def parts(self) -> list[Part]:
        return [Part(self.description, arrow_fields(self._schema))]

    @property
    def remarks(self) -> list[str]:
        import pyarrow as pa

        words = self._look.format.words()
        true = [column.name for column in self._schema if pa.types.is_boolean(column.type)]
        said = [f"truth values read as 0 and 1 in {listed(true)}"] if true else []
        found = {name: column.found for name, column in self._columns.items()}
        return [*([words] if words else []), *said, *said_marks(found)]

    @property
    def remarks_after(self) -> list[str]:
        return [] if self._last_pass is None else self._last_pass.remarks()

    @property
    def doubtful(self) -> dict[str, str]:
        found = {name: column.found for name, column in self._columns.items()}
        return {name: c.why_left_out(name) for name, c in found.items() if c.looks_numeric}

    @property
    def hint(self) -> str:
        return super().hint or HINT

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        if self.whole:
            table = self.table.select(wanted)
            yield from arrow_pieces(table.to_batches(max_chunksize=rows), self.description)
            return
        kinds = {name: self._columns[name].kind for name in wanted}
        types = {name: _read_as(kind, self._look.hexadecimal) for name, kind in kinds.items()}
        marked = [name for name, kind in kinds.items() if kind is None]
        step = self._last_pass = self._one_pass(self._look.format)
        with self._rows(step, types) as (file, batches):
            if marked:
                batches = self._without_marks(batches, marked)
            yield from arrow_pieces(batches, self.description, file.tell)

    @cached_property
    def table(self) -> pa.Table:
        """All rows, with numbers in place of text that reads as numbers. Pre: `whole`."""
        import pyarrow as pa

        table, names = self._look.table, set(self._schema.names)
        columns = [
            values if (numbers := self._columns[name].found.numbers) is None else numbers
            for name, values in zip(table.column_names, table.columns, strict=True)
        ]
        kept = [i for i, name in enumerate(table.column_names) if name in names]
        return pa.table(columns, names=table.column_names).select(kept)

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """These columns as text, in batches."""
        import pyarrow as pa

        types = dict.fromkeys(names, pa.string())
        with self._rows(self._one_pass(self._look.format), types) as (_, batches):
            yield from batches

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        """These columns, as plain numbers where these lose nothing, or else as text."""
        how = self._look.format
        decimal = None if identifiers else how.decimal
        numeric = {column.name for column in self.parts[0].fields if column.numeric}
        changed = [name for name in names if name in numeric or not self.whole]
        found = super().originals(changed, identifiers=identifiers) if changed else {}
        made = {name: plain_column(found[name], decimal, how.missing) for name in changed}
        return {name: made[name] if name in made else self.table.column(name) for name in names}

    def _without_marks(self, batches: Any, marked: list[str]) -> Iterator[pa.RecordBatch]:
        """The batches with numbers in place of text with thousands separators and per cents."""
        import pyarrow as pa

        first, currencies, how = 0, dict[str, str](), self._look.format
        for batch in batches:
            for name in marked:
                at = batch.schema.get_field_index(name)
                column = find_numbers(batch.column(at), how.decimal, how.missing)
                if column.bad >= 0:
                    where = Place(self.description, first).row(column.bad, name)
                    cell = batch.column(at)[column.bad].as_py()
                    raise ValueError(no_number(where, cell, column.currency))
                now = column.currency
                if now and (before := currencies.setdefault(name, now)) != now:
                    where = f"{self.description}: column {name!r}"
                    raise ValueError(f"{where} has several currencies: {before}, {now}")
                numbers = column.numbers
                if numbers is None:  # all are missing
                    numbers = pa.nulls(batch.num_rows, pa.float64())
                batch = batch.set_column(at, name, numbers)
            first += batch.num_rows
            yield batch

    def _one_pass(self, how: TextFormat) -> TextPass:
        """What is done with the text in a pass over it."""
        strict = self.text.encoding is not None
        return TextPass(how, self.description, strict=strict, first=FIRST_BYTES)

    @contextmanager
    def _text(self, encoding: str) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """The file, and its text without compression, from this encoding to UTF-8."""
        import pyarrow as pa

        stored = pa.BufferReader(self.file.data) if self.whole else self.file.arrow(stored=True)
        with stored as file:
            text = file
            if self.file.gzipped and not self.whole:
                text = pa.CompressedInputStream(file, "gzip")
            if encoding != "utf-8":
                text = pa.transcoding_input_stream(text, encoding, "utf-8")
            yield file, text

    @contextmanager
    def _rows(
        self, step: TextPass, types: dict[str, Any] | None = None
    ) -> Iterator[tuple[pa.NativeFile, Any]]:
        """The file, and its rows: in batches, or, for all columns of `whole`, as one table.

        With `types`, these columns are read, otherwise all, in types that fit what they hold.
        """
        import pyarrow as pa
        from pyarrow import csv

        how, whole = step.how, self.whole and types is None
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
        with self._errors(step), self._text(how.encoding) as (file, text):
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
        with self._text(how.encoding) as (_, text):
            lines = io.TextIOWrapper(text, "utf-8", "replace", newline="")
            uneven = uneven_row(islice(lines, how.skip, None), how)
        return f"{self.description}: {uneven}" if uneven else message


class _Look(NamedTuple):
    """Rows of a text table, how it is written, and whether hexadecimal numbers may be in them."""

    format: TextFormat
    table: pa.Table
    hexadecimal: bool


class _Column(NamedTuple):
    """A column of a text table: its type, and its numbers if it is text."""

    type: Any
    found: FoundNumbers

    @property
    def kind(self) -> Any:
        """Its type, None for text that holds numbers."""
        return self.type if self.found.numbers is None else None


def _plain_type(column: pa.Array, how: TextFormat) -> Any:
    """The type that pyarrow would find for a column of text."""
    import pyarrow as pa
    from pyarrow import compute as pc

    missing = pc.is_in(pc.utf8_trim_whitespace(column), pa.array(sorted(how.missing)))
    for kind in (pa.float64(), pa.bool_()):
        with suppress(pa.ArrowInvalid):
            return pc.if_else(missing, None, column).cast(kind).type
    return pa.string()


def _numeric(look: _Look) -> set[int]:
    """The columns of numbers, also of numbers with marks."""
    import pyarrow as pa

    how, columns = look.format, zip(look.table.schema.types, look.table.columns, strict=True)
    return {
        i for i, (kind, column) in enumerate(columns)
        if not pa.types.is_string(kind)
        or find_numbers(column, how.decimal, how.missing).numbers is not None
    }  # fmt: skip


def _later_decimal(look: _Look) -> DecimalMark:
    """The decimal mark that cells behind the beginning of the file show."""
    import pyarrow as pa
    from pyarrow import compute as pc

    columns = [c for c in look.table.columns if pa.types.is_string(c.type)]
    marked = (pc.unique(c.filter(pc.match_substring_regex(c, r"\d[.,]\d"))) for c in columns)
    return find_decimal((cells.to_pylist() for cells in marked), look.format.delimiter)


def _read_as(kind: Any, hexadecimal: bool) -> Any:
    """The type of a column in later rows, where integers may have decimals; None: text."""
    import pyarrow as pa

    if kind is None:
        return pa.string()
    as_found = pa.types.is_boolean(kind) or (hexadecimal and pa.types.is_integer(kind))
    return kind if as_found else pa.float64()


def no_number(where: str, cell: str, currencies: str = "") -> str:
    """That a cell is no number, although those before it are, and what to do."""
    if currencies:
        return f"{where}: {cell!r} has another currency than the cells before it ({currencies})"
    remedy = f"{cell_remedy((cell,))}; --no-stream looks at all rows to find out how they are read"
    return f"{where}: {cell!r} is not a number{remedy}"
