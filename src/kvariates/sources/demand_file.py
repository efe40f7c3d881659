"""Reads a private demand: the point of each person. Every entry is read by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvariates.sources.input_file import MAGIC, InputFile
from kvariates.sources.private_text import (
    cells_of,
    fixed_format,
    lines_of,
    names_of,
)
from kvariates.sources.readers import valid_text
from kvariates.sources.text_format import TextOptions

if TYPE_CHECKING:
    import pyarrow as pa

KNOWN = "a demand is a text table (.csv, .tsv, .txt, also .gz), Parquet, Arrow or Feather"
OTHERS = {"numpy": "NumPy or ZIP file", "matrix market": "Matrix Market file"}
NO_TEXT = (b"PK\x03\x04", *MAGIC)  # how files begin that are not text


def demand_numbers(
    path: Path, names: Iterable[str], column: str, text: TextOptions
) -> NDArray[np.int64]:
    """The number of the point of every entry of a demand; -1 for what is no point."""
    file, number = InputFile(path), {name: i for i, name in enumerate(names)}
    file.check()
    readers = {"text": _lines, "parquet": _parquet_entries, "arrow": _arrow_entries}
    if file.kind not in readers:
        raise ValueError(f"{file.name}: is a {OTHERS.get(file.kind, file.kind)}; {KNOWN}")
    file.needs()
    entries = readers[file.kind](file, column, text)
    return np.fromiter((number.get(entry, -1) for entry in entries), np.int64)


def _lines(file: InputFile, column: str, text: TextOptions) -> Iterator[str]:
    """One cell of each line after the line of names."""
    options, place = fixed_format(file.path, text), 0
    delimiter = options.delimiter or ","
    lines = lines_of(file.data, options.encoding or "utf-8")
    if options.header:
        if file.data.startswith(NO_TEXT):  # by the first line, which is public
            raise ValueError(f"{file.name}: is called {file.path.suffix}, but is no text")
        place = _place(file, names_of(next(lines, ""), options), column)
    for line in lines:
        cells = cells_of(line, delimiter)
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


def _parquet_entries(file: InputFile, column: str, _text: object) -> Iterator[str]:
    from pyarrow import parquet

    with _readable(file):
        schema = parquet.read_schema(file.arrow())
    at = _checked_place(file, schema, column)
    with _readable(file):
        values = parquet.read_table(file.arrow(), columns=[schema.names[at]]).column(0)
    return _entries(values)


def _arrow_entries(file: InputFile, column: str, _text: object) -> Iterator[str]:
    import pyarrow as pa
    from pyarrow import ipc

    opened = ipc.open_file if file.data.startswith(b"ARROW1") else ipc.open_stream
    with _readable(file):
        table = opened(pa.BufferReader(file.data)).read_all()
    return _entries(table.column(_checked_place(file, table.schema, column)))


@contextmanager
def _readable(file: InputFile) -> Iterator[None]:
    """A damaged file is an error, in words that do not depend on what it holds."""
    try:
        yield
    except (ValueError, OSError, NotImplementedError):
        raise ValueError(f"{file.name}: is damaged, or no {file.kind} file") from None


def _checked_place(file: InputFile, schema: pa.Schema, column: str) -> int:
    """Which column holds the points. ValueError if its type is another one, whatever its cells."""
    from pyarrow import types

    at = _place(file, schema.names, column)
    kind = schema.field(at).type
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
        raise ValueError(
            f"{file.name}: column {schema.names[at]!r} holds {kind}, not names or numbers of points"
        )
    return at


def _entries(values: pa.ChunkedArray) -> Iterator[str]:
    from pyarrow import types

    values = values if types.is_integer(values.type) else valid_text(values)
    return (str(value) for value in values.to_pylist())
