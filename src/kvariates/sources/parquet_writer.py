"""Writes labels, and columns of the source beside them, to a Parquet file (or CSV)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Labels = NDArray[Any] | np.ma.MaskedArray[Any, Any]

LABEL = "label"


def write_labels(
    path: Path,
    labels: NDArray[Any],
    beside: Mapping[str, Any] | None = None,
    kept: NDArray[np.bool_] | None = None,
    name: str = LABEL,
) -> None:
    """Write the label of every row, after the columns `beside`.

    With `kept`, the labels are those of some of the rows, and the others have none. A column of the
    source that is called like theirs, `name`, gets another name.
    """
    import pyarrow as pa

    if kept is not None:
        some, labels = labels, np.ma.MaskedArray(np.zeros(len(kept), np.int32), ~kept)
        labels[kept] = some
    columns = {}
    for other, values in (beside or {}).items():
        is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
        column = values if is_arrow else pa.array(values, from_pandas=True)
        columns[name_beside(other, beside or {}, name)] = column
    _write(path, pa.table({**columns, name: _arrow_labels(labels)}))


def name_beside(name: str, names: Collection[str], label: str = LABEL) -> str:
    """What a column of the data is called beside the column `label`: none of them is lost."""
    if name == label:
        while name in names:
            name += " of the data"
    return name


def _write(path: Path, table: Any) -> None:
    import pyarrow as pa
    from pyarrow import compute as pc
    from pyarrow import csv, parquet

    if path.suffix.lower() != ".csv":
        parquet.write_table(table, path)
        return
    column = table.column(0)
    if table.num_columns == 1 and column.null_count:  # readers skip lines without anything
        table = pa.table({table.column_names[0]: pc.fill_null(column.cast(pa.string()), "NA")})
    csv.write_csv(table, path)


def write_label_parts(
    path: Path, parts: Iterable[Labels], beside: Iterable[pa.RecordBatch] = ()
) -> None:
    """Write the labels of rows, part after part; masked rows have none.

    `beside` are other columns of the same rows, in batches of any size.
    """
    _write_tables(path, _labelled_parts(parts, iter(beside)))


def write_labelled_frames(path: Path, parts: Iterable[tuple[NDArray[Any], Any]]) -> None:
    """Write the labels of the rows of pandas frames, frame after frame, after their columns."""
    import pyarrow as pa

    tables = (
        _labelled(pa.Table.from_pandas(frame, preserve_index=False), labels)
        for labels, frame in parts
    )
    _write_tables(path, tables)


def _labelled_parts(
    parts: Iterable[Labels], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """The labels of each part, after the columns of the same rows if there are batches of them."""
    import pyarrow as pa

    left = next(batches, None)
    schema = pa.schema([]) if left is None else left.schema
    for labels in parts:
        n, tables = len(labels), [schema.empty_table()]
        while n and left is not None:
            if not left.num_rows:
                left = next(batches)
                continue
            part, left = left.slice(0, n), left.slice(n)
            n -= part.num_rows
            # Files of one folder may differ in the widths of their integers.
            tables.append(pa.Table.from_batches([part]).cast(schema))
        yield _labelled(pa.concat_tables(tables), labels)


def _labelled(table: pa.Table, labels: Labels) -> pa.Table:
    """The columns of a table, and the labels of its rows."""
    import pyarrow as pa

    if not table.num_columns:
        return pa.table({LABEL: _arrow_labels(labels)})
    names = [name_beside(name, table.column_names) for name in table.column_names]
    return table.rename_columns(names).append_column(LABEL, _arrow_labels(labels))


def _arrow_labels(labels: Labels) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.ma.getdata(labels).astype(np.int32), mask=np.ma.getmaskarray(labels))


def _write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables one after the other; they get the types of the first."""
    from pyarrow import parquet

    writer = None
    try:
        for table in tables:
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()
