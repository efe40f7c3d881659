"""The columns of an Arrow table, or of several that follow each other: the files of a folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvariates.sources.input_file import check_size
from kvariates.sources.parquet_reader import ParquetReader
from kvariates.sources.private_text import valid_text

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class JoinedColumns:
    """Columns of tables, which are named by their files."""

    tables: dict[str, pa.Table]

    @classmethod
    def of_folder(cls, folder: Path) -> JoinedColumns:
        """All Parquet files of a folder, in the order in which blocks are read."""
        from pyarrow import parquet

        reader = ParquetReader.of_folder(folder)
        widths = [sum(field.numeric for field in part.fields) for part in reader.parts]
        check_size(max(reader.n_bytes, 8 * reader.n_rows * max(widths)), str(folder))
        tables = {}
        for path in reader.paths:
            with parquet.ParquetFile(path) as file:
                tables[str(path)] = file.read()
        return cls(tables)

    @cached_property
    def names(self) -> list[str]:
        """Those of the first table, then those that only others have."""
        first, *others = (table.column_names for table in self.tables.values())
        more = dict.fromkeys(name for names in others for name in names)
        return [*first, *(name for name in more if name not in set(first))]

    @cached_property
    def numeric(self) -> set[str]:
        """The columns that hold numbers in one of the tables."""
        fields = (field for table in self.tables.values() for field in table.schema)
        return {field.name for field in fields if is_numeric(_value_type(field.type))}

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all tables, without dictionaries; text with "\ufffd" for bytes of no letter.

        ValueError if the tables do not agree on its type.
        """
        import pyarrow as pa

        parts = {}
        for place, table in self.tables.items():
            if table.schema.get_field_index(name) < 0:  # quick for many columns
                raise ValueError(f"{place}: no column {name!r}, which other files have")
            parts[place] = table.column(name)
        kinds = {place: _value_type(part.type) for place, part in parts.items()}
        kind = self._common_type(name, kinds)
        alike = (p if p.type == kind else p.cast(kind, safe=False) for p in parts.values())
        column = pa.chunked_array([chunk for part in alike for chunk in part.chunks], kind)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return valid_text(column) if is_text else column

    def _common_type(self, name: str, kinds: dict[str, pa.DataType]) -> pa.DataType:
        import pyarrow as pa

        first = next(iter(kinds))
        others = [place for place, kind in kinds.items() if kind != kinds[first]]
        if others and not all(map(is_numeric, kinds.values())):
            raise ValueError(
                f"{others[0]}: column {name!r} holds {kinds[others[0]]}, but {kinds[first]} in "
                f"{first}"
            )
        return pa.float64() if others else kinds[first]

    def values(self, name: str) -> NDArray[np.generic]:
        """A column as it is; decimals as floats."""
        import pyarrow as pa

        column = self.column(name)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        try:
            values: NDArray[np.generic] = column.to_numpy()
        except pa.ArrowException:  # its message quotes a cell
            raise ValueError(
                f"{next(iter(self.tables))}: column {name!r} of {column.type} cannot be read"
            ) from None
        return values

    def numbers(self, name: str) -> NDArray[np.generic]:
        """The numbers of a column. ValueError if its type, whatever its cells are, has none."""
        import pyarrow as pa

        kind = self.column(name).type
        if not (is_numeric(kind) or pa.types.is_null(kind)):
            raise ValueError(
                f"{next(iter(self.tables))}: column {name!r} holds {kind}, not numbers"
            )
        return self.values(name)


def is_numeric(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers; truth values are 0 and 1."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(test(kind) for test in tests)


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, also of a dictionary."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind
