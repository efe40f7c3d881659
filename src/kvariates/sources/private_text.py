"""Reads text of a private fit: every line by itself, so that no line changes how others are read.

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
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.sources.columns import Field
from kvariates.sources.pieces import ArrowPiece
from kvariates.sources.readers import FileReader, Part, arrow_pieces, valid_text
from kvariates.sources.text_format import TextOptions
from kvariates.sources.text_numbers import find_numbers

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 2**16


def fixed_format(path: Path, text: TextOptions) -> TextOptions:
    """How a text file is written, without a look at it: what is not given has one value."""
    encoding = text.encoding or "utf-8"
    if codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"  # a byte order mark is left out in any case
    if "\n".encode(encoding) != b"\n":
        raise ValueError(
            f"--encoding {encoding}: is not read privately, because one line can change how the "
            "next is read; save the file in UTF-8"
        )
    return TextOptions(
        delimiter=text.delimiter or ("\t" if ".tsv" in path.suffixes else ","),
        decimal=text.decimal or ".", encoding=encoding, header=text.header is not False,
        na=text.na, skip=text.skip,
    )  # fmt: skip


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


def names_of(first: str, options: TextOptions) -> list[str]:
    """The names of the columns, by the first line of a table."""
    cells = cells_of(first, options.delimiter or ",")
    if not options.header:
        return [f"x{j}" for j in range(len(cells))]
    return [cell.strip() or f"column{j}" for j, cell in enumerate(cells, 1)]


def private_table(data: bytes, options: TextOptions) -> pa.Table:
    """All cells as text, null in rows without any value. Pre: `options` are those fixed."""
    import pyarrow as pa

    delimiter, encoding = options.delimiter or ",", options.encoding or "utf-8"
    names = names_of(next(islice(lines_of(data, encoding), options.skip, None), ""), options)
    lines = islice(lines_of(data, encoding), options.skip + (1 if options.header else 0), None)
    schema = pa.schema([(name, pa.large_string()) for name in names])
    rows = (_row(cells_of(line, delimiter), len(names)) for line in lines if line.strip())
    batches = []
    while part := list(islice(rows, BATCH_ROWS)):
        columns = [pa.array(column, pa.large_string()) for column in zip(*part, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _row(cells: list[str], width: int) -> Sequence[str | None]:
    return cells if len(cells) == width else [None] * width


@dataclass(frozen=True)
class PrivateTextReader(FileReader):
    """Reads a text table, each cell by itself."""

    text: TextOptions
    decodes = False

    @cached_property
    def _options(self) -> TextOptions:
        return fixed_format(self.file.path, self.text)

    @cached_property
    def _table(self) -> pa.Table:
        return private_table(self.file.data, self._options)

    @property
    def n_rows(self) -> int:
        return int(self._table.num_rows)

    @property
    def parts(self) -> list[Part]:
        names, double = self._table.column_names, np.dtype(np.float64)
        return [Part(self.description, tuple(Field(name, double, True, "text") for name in names))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        import pyarrow as pa

        decimal, missing = self._options.decimal or ".", self._options.missing
        columns = (self._table.column(name) for name in wanted)
        numbers = [find_numbers(c, decimal, missing, each=True).numbers for c in columns]
        batches = pa.table(numbers, names=wanted).to_batches()
        yield from arrow_pieces(batches, self.description)

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        return {name: valid_text(self._table.column(name)) for name in names}
