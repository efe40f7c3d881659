"""Reads tables and demands of private fits: every line by itself, so that no other line matters.

| line | what is read |
|---|---|
| the first, after `skip` others | the names of the columns; if there are none, their number |
| another with as many cells | a row |
| with an odd number of quotation marks, or another number of cells | a row without any value |
| empty | nothing |

A quotation mark does not join lines, and bytes that are not in the encoding become "\ufffd".
Cells stay text: a type that is found out would depend on all rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvariates.sources.columns import Field
from kvariates.sources.file_readers import IpcReader, ParquetReader
from kvariates.sources.input_file import MAGIC, InputFile
from kvariates.sources.pieces import Piece
from kvariates.sources.readers import FileReader, Part, arrow_pieces, valid_text
from kvariates.sources.text_format import TextFormat, TextOptions
from kvariates.sources.text_numbers import find_numbers

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 2**16


def fixed_format(path: Path, text: TextOptions) -> TextFormat:
    """How a text file is written, without a look at it: what is not given has one value."""
    encoding = text.encoding or "utf-8"
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"  # a byte order mark is left out in any case
    if "\n".encode(encoding) != b"\n":
        raise ValueError(
            f"--encoding {encoding}: is not read privately, because one line can change how the "
            "next is read; save the file in UTF-8"
        )
    delimiter = text.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
    decimal, header = text.decimal or ".", text.header is not False
    replace(text, delimiter=delimiter, decimal=decimal)  # an error if they are the same
    return TextFormat(encoding, delimiter, decimal, (), header, text.skip, missing=text.missing)


def lines_of(data: bytes, encoding: str) -> Iterator[str]:
    """The lines of a text without their ends, each decoded by itself."""
    for line in io.BytesIO(data.removeprefix(codecs.BOM_UTF8)):
        text = line.decode(encoding, "replace").rstrip("\r\n")
        yield text.encode("utf-8", "replace").decode()  # without halves of characters


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of a line; none if it cannot be divided into cells."""
    if '"' not in line:
        return line.split() if delimiter == " " else line.split(delimiter)
    if line.count('"') % 2:
        return []
    try:
        return next(csv.reader([line.strip()], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return []


def names_of(first: str, how: TextFormat) -> list[str]:
    """The names of the columns, by the first line of a table."""
    cells = cells_of(first, how.delimiter)
    if not how.header:
        return [f"x{j}" for j in range(len(cells))]
    return [cell.strip() or f"column{j}" for j, cell in enumerate(cells, 1)]


def _table(data: bytes, how: TextFormat) -> pa.Table:
    """All cells as text, null in rows without any value."""
    import pyarrow as pa

    lines = islice(lines_of(data, how.encoding), how.skip, None)
    first = next(lines, "")
    names = names_of(first, how)
    schema = pa.schema([(name, pa.large_string()) for name in names])
    rest = lines if how.header else chain([first], lines)
    cells = (cells_of(line, how.delimiter) for line in rest if line.strip())
    rows = (row if len(row) == len(names) else [None] * len(names) for row in cells)
    batches = []
    while part := list(islice(rows, BATCH_ROWS)):
        columns = [pa.array(column, pa.large_string()) for column in zip(*part, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


@dataclass(eq=False)
class PrivateTextReader(FileReader):
    """Reads a text table, each cell by itself."""

    text: TextOptions
    decodes = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._format = fixed_format(self.file.path, self.text)
        self._table = _table(self.file.data, self._format)
        self.n_rows = self._table.num_rows

    @property
    def parts(self) -> list[Part]:
        names, double = self._table.column_names, np.dtype(np.float64)
        return [Part(self.description, tuple(Field(name, double, True, "text") for name in names))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        import pyarrow as pa

        decimal, missing = self._format.decimal, self._format.missing
        columns = (self._table.column(name) for name in wanted)
        numbers = [find_numbers(c, decimal, missing, each=True).numbers for c in columns]
        batches = pa.table(numbers, names=wanted).to_batches()
        yield from arrow_pieces(batches, self.description)

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        return {name: valid_text(self._table.column(name)) for name in names}


KNOWN = "a demand is a text table (.csv, .tsv, .txt, also .gz), Parquet, Arrow or Feather"
OTHERS = {"numpy": "NumPy or ZIP file", "matrix market": "Matrix Market file"}


def demand_numbers(
    path: Path, names: Iterable[str], column: str, text: TextOptions
) -> NDArray[np.int64]:
    """The number of the point of every entry of a demand; -1 for what is no point."""
    file, number = InputFile(path), {name: i for i, name in enumerate(names)}
    file.check()
    readers = {"text": _lines, "parquet": _typed_entries, "arrow": _typed_entries}
    if file.kind not in readers:
        raise ValueError(f"{file.name}: is a {OTHERS.get(file.kind, file.kind)}; {KNOWN}")
    file.needs()
    entries = readers[file.kind](file, column, text)
    return np.fromiter((number.get(entry, -1) for entry in entries), np.int64)


def _lines(file: InputFile, column: str, text: TextOptions) -> Iterator[str]:
    """One cell of each line after the line of names."""
    how, place = fixed_format(file.path, text), 0
    lines = lines_of(file.data, how.encoding)
    if how.header:
        if file.data.startswith(tuple(MAGIC)):  # by the first line, which is public
            raise ValueError(f"{file.name}: is called {file.path.suffix}, but is no text")
        place = _place(file, names_of(next(lines, ""), how), column)
    for line in lines:
        cells = cells_of(line, how.delimiter)
        yield cells[place].strip() if place < len(cells) else ""


def _place(file: InputFile, names: list[str], column: str) -> int:
    """Which column holds the points: the one of this name, or the only one."""
    if column in names:
        return names.index(column)
    if len(names) == 1:
        return 0
    raise ValueError(
        f"{file.name}: the demand has {len(names)} columns, and none is called {column!r}; give "
        "that name to the column of points, or leave the others out"
    )


def _typed_entries(file: InputFile, column: str, _text: object) -> Iterator[str]:
    """The entries of a file with types. ValueError for another type, whatever its cells are."""
    damaged = f"{file.name}: is damaged, or no {file.kind} file"  # whatever it holds
    try:
        reader = ParquetReader(file) if file.kind == "parquet" else IpcReader(file)
        fields = reader.parts[0].fields
    except ValueError:
        raise ValueError(damaged) from None
    field = fields[_place(file, [field.name for field in fields], column)]
    if not re.fullmatch(r"u?int\d+|(large_)?string", field.type):
        raise ValueError(
            f"{file.name}: column {field.name!r} holds {field.type}, not names or numbers of points"
        )
    try:
        values = reader.originals([field.name], identifiers=True)[field.name]
    except ValueError:
        raise ValueError(damaged) from None
    return (str(value) for value in values.to_pylist())
