"""Writes labels, and columns of the source beside them, to a Parquet file (or CSV)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    columns = {
        f"{other} of the data" if other == name else other: pa.array(values, from_pandas=True)
        for other, values in (beside or {}).items()
    }
    _write(path, pa.table({**columns, name: column}))


def _write(path: Path, table: Any) -> None:
    if path.suffix.lower() == ".csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    else:
        from pyarrow import parquet

        parquet.write_table(table, path)


def write_label_parts(path: Path, parts: Iterable[NDArray[Any]]) -> None:
    """Write the labels of blocks of rows, one after the other."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([(LABEL, pa.int32())])
    with parquet.ParquetWriter(path, schema) as writer:
        for labels in parts:
            writer.write_table(pa.table({LABEL: pa.array(labels.astype(np.int32))}, schema=schema))
