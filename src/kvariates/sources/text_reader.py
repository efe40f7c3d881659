"""Reads a text table: in memory all its rows show how it is written, in blocks the first ones.

Where the first rows and the rest do not agree, that is an error: more of them could read otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from kvariates.sources.columns import arrow_fields, listed
from kvariates.sources.pieces import Piece, Place
from kvariates.sources.readers import Part, arrow_pieces, one_line_errors
from kvariates.sources.text_format import HINT, TextFormat
from kvariates.sources.text_numbers import (
    FoundNumbers,
    find_numbers,
    plain_column,
    said_marks,
)
from kvariates.sources.text_rows import TextPass, TextRows, no_number
from kvariates.sources.text_sniffing import (
    SAMPLE_BYTES,
    DecimalMark,
    find_decimal,
    find_format,
    has_enough_lines,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(eq=False)
class TextReader(TextRows):
    """Reads a text table, plain or compressed. `whole`: all of it is kept in memory."""

    @cached_property
    def _sniffed(self) -> TextFormat:
        """How the table is written, by its beginning."""
        with one_line_errors(self.description), self.stored() as (_, text):
            sample, size = text.read(SAMPLE_BYTES), SAMPLE_BYTES
            while len(sample) == size and not has_enough_lines(sample):
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
        later = None if look.format.decimal_shown else _later_decimal(look)
        if later is not None and later.shown:
            other = replace(look.format, decimal=later.mark, ambiguous=later.ambiguous)
            again = self._first(other)
            if _numeric(look) <= _numeric(again):
                return again
        return look

    def _first(self, how: TextFormat) -> _Look:
        import pyarrow as pa

        step = self.one_pass(how)
        self._last_pass[:] = [step]
        with self.rows(step, whole=self.whole) as (_, rows):
            if self.whole:
                return _Look(how, rows, step.hexadecimal)
            batch = next(iter(rows), None)
        table = rows.schema.empty_table() if batch is None else pa.Table.from_batches([batch])
        return _Look(how, table, step.hexadecimal)

    @property
    def format(self) -> TextFormat:
        """How the table is written."""
        return self._look.format

    @cached_property
    def _last_pass(self) -> list[TextPass]:
        """The last pass over the rows, of which `remarks_after` tells."""
        return []

    @cached_property
    def _columns(self) -> dict[str, _Column]:
        """How the columns are read: as those rows show that have anything in them."""
        import pyarrow as pa

        how, table, _ = self._look
        if not table.num_rows:
            raise ValueError(f"{self.description}: no rows")
        columns, empty = {}, []
        for field, values in zip(table.schema, table.columns, strict=True):
            found = FoundNumbers(None)
            if pa.types.is_string(field.type):
                found = find_numbers(values, how.decimal, how.missing)
            columns[field.name] = _Column(field.type, found)
            if pa.types.is_null(field.type) or (pa.types.is_string(field.type) and found.is_empty):
                empty.append(field.name)
        if self.whole or not empty:
            return columns
        return columns | self._later_columns(empty)

    def _later_columns(self, empty: list[str]) -> dict[str, _Column]:
        """Columns that have nothing in the first rows. Those without anything are not numbers."""
        import pyarrow as pa

        columns, how = dict[str, _Column](), self.format
        with self.rows(self.one_pass(how), dict.fromkeys(empty, pa.string())) as (_, batches):
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
        kinds = [(name, columns[name].kind or pa.float64()) for name in self.format.names]
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
        """How the table is read, in lines for the user."""
        import pyarrow as pa

        words = self.format.words()
        true = [field.name for field in self._schema if pa.types.is_boolean(field.type)]
        said = [f"truth values read as 0 and 1 in {listed(true)}"] if true else []
        found = {name: column.found for name, column in self._columns.items()}
        return [*([words] if words else []), *said, *said_marks(found)]

    @property
    def remarks_after(self) -> list[str]:
        """What the last pass left out, in lines for the user."""
        return [line for last in self._last_pass for line in last.remarks()]

    @property
    def doubtful(self) -> dict[str, str]:
        """Columns of text that look numeric: a line about each."""
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
        step = self.one_pass(self.format)
        self._last_pass[:] = [step]
        with self.rows(step, types) as (file, batches):
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
        with self.rows(self.one_pass(self.format), types) as (_, batches):
            yield from batches

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        """These columns, as plain numbers where these lose nothing, or else as text."""
        how = self.format
        decimal = None if identifiers else how.decimal
        numeric = {field.name for field in arrow_fields(self._schema) if field.numeric}
        changed = [name for name in names if name in numeric or not self.whole]
        found = super().originals(changed, identifiers=identifiers) if changed else {}
        made = {name: plain_column(found[name], decimal, how.missing) for name in changed}
        return {name: made[name] if name in made else self.table.column(name) for name in names}

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
                    raise ValueError(no_number(where, cell, column.currency))
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


class _Look(NamedTuple):
    """Rows of a text table, how it is written, and whether hexadecimal numbers may be in them."""

    format: TextFormat
    table: pa.Table
    hexadecimal: bool


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a text table: its type, and its numbers if it is text.

    `kind` is its type, None for text that holds numbers.
    """

    type: Any
    found: FoundNumbers

    @property
    def kind(self) -> Any:
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

    how, table, _ = look
    columns = zip(table.schema, table.columns, strict=True)
    return {
        i for i, (field, column) in enumerate(columns)
        if not pa.types.is_string(field.type)
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
