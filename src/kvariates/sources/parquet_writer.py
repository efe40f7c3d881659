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

    column = pa.array(labels.astype(np.int32))
    if kept is not None:
        whole = np.zeros(len(kept), np.int32)
        whole[kept] = labels
        column = pa.array(whole, mask=~kept)
    beside = beside or {}
    columns = {name_beside(other, beside, name): _arrow(values) for other, values in beside.items()}
    _write(path, pa.table({**columns, name: column}))


def _arrow(values: Any) -> Any:
    import pyarrow as pa

    is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
    return values if is_arrow else pa.array(values, from_pandas=True)


def name_beside(name: str, names: Collection[str], label: str = LABEL) -> str:
    """What a column of the data is called beside the column `label`: none of them is lost."""
    if name == label:
        while name in names:
            name += " of the data"
    return name


def _write(path: Path, table: Any) -> None:
    if path.suffix.lower() == ".csv":
        from pyarrow import csv

        csv.write_csv(_no_empty_lines(table), path)
    else:
        from pyarrow import parquet

        parquet.write_table(table, path)


def _no_empty_lines(table: Any) -> Any:
    """A table whose only column has NA in place of nulls: readers skip lines without anything."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if table.num_columns > 1 or not table.column(0).null_count:
        return table
    words = pc.fill_null(table.column(0).cast(pa.string()), "NA")
    return pa.table({table.column_names[0]: words})


def write_label_parts(
    path: Path, parts: Iterable[Labels], beside: Iterable[pa.RecordBatch] = ()
) -> None:
    """Write the labels of rows, part after part; masked rows have none.

    `beside` are other columns of the same rows, in batches of any size.
    """
    columns = _Columns(iter(beside))
    _write_tables(path, (columns.beside(_arrow_labels(labels)) for labels in parts))


def write_labelled_frames(path: Path, parts: Iterable[tuple[NDArray[Any], Any]]) -> None:
    """Write the labels of the rows of pandas frames, frame after frame, after their columns."""
    import pyarrow as pa

    tables = (
        _Columns(iter(pa.Table.from_pandas(frame, preserve_index=False).to_batches())).beside(
            _arrow_labels(labels)
        )
        for labels, frame in parts
    )
    _write_tables(path, tables)


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


class _Columns:
    """Columns that come in batches, as tables of any number of rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: Any = next(batches, None)
        self._schema: Any = None if self._left is None else self._left.schema

    def beside(self, labels: pa.Array) -> pa.Table:
        """The labels, after the columns of the same rows."""
        import pyarrow as pa

        if self._schema is None:
            return pa.table({LABEL: labels})
        return self._take(len(labels)).append_column(LABEL, labels)

    def _take(self, n: int) -> pa.Table:
        import pyarrow as pa

        parts = []
        while n:
            if not self._left.num_rows:
                self._left = next(self._batches)
                continue
            parts.append(self._left.slice(0, n))
            self._left = self._left.slice(parts[-1].num_rows)
            n -= parts[-1].num_rows
        # Files of one folder may differ in the widths of their integers.
        tables = [pa.Table.from_batches([part]).cast(self._schema) for part in parts]
        made = pa.concat_tables(tables) if tables else self._schema.empty_table()
        return made.rename_columns(
            [name_beside(name, made.column_names) for name in made.column_names]
        )
