"""Reads a private demand: the point of each person. Every entry is read by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvariates.sources.input_file import InputFile
from kvariates.sources.private_text import (
    cells_of,
    fixed_format,
    lines_of,
    names_of,
    valid_text,
)
from kvariates.sources.text_format import TextOptions


def demand_numbers(
    path: Path, names: Iterable[str], column: str, text: TextOptions
) -> NDArray[np.int64]:
    """The number of the point of every entry of a demand; -1 for what is no point."""
    number = {name: i for i, name in enumerate(names)}
    entries = _parquet_entries(path, column) if _is_parquet(path) else _lines(path, column, text)
    return np.fromiter((number.get(entry, -1) for entry in entries), np.int64)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _lines(path: Path, column: str, text: TextOptions) -> Iterator[str]:
    """One cell of each line after the line of names."""
    file, options = InputFile(path), fixed_format(path, text)
    file.check()
    delimiter, place = options.delimiter or ",", 0
    lines = lines_of(file.data, options.encoding or "utf-8")
    if options.header:
        place = _place(path, names_of(next(lines, ""), options), column)
    for line in lines:
        cells = cells_of(line, delimiter)
        yield cells[place].strip() if place < len(cells) else ""


def _place(path: Path, names: list[str], column: str) -> int:
    """Which column holds the points: the one of this name, or the only one."""
    if column in names:
        return names.index(column)
    if len(names) == 1:
        return 0
    raise ValueError(
        f"{path}: the demand has {len(names)} columns, and none is called {column!r}; give that "
        "name to the column of points, or leave the others out"
    )


def _parquet_entries(path: Path, column: str) -> Iterator[str]:
    import pyarrow as pa
    from pyarrow import parquet

    file = InputFile(path)
    file.check()
    schema = parquet.read_schema(file.arrow())
    name = schema.names[_place(path, schema.names, column)]
    kind = schema.field(name).type
    known = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not any(is_known(kind) for is_known in known):
        raise ValueError(f"{path}: column {name!r} holds {kind}, not names or numbers of points")
    values = parquet.read_table(file.arrow(), columns=[name]).column(0)
    if not pa.types.is_integer(kind):
        values = valid_text(values)
    return (str(value) for value in values.to_pylist())
