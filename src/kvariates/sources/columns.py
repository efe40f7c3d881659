"""The columns of a source: which there are, and which of them are read."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Field:
    """A column of a source."""

    name: str
    dtype: np.dtype[Any] | None  # float32 or float64; None: no numbers (a date, a list)
    numeric: bool  # whether it is read if none are named. Truth values are, as 0 and 1; text is not
    type: str  # in the source, for messages


@dataclass(frozen=True)
class ColumnChoice:
    """What the caller asks for. None: all numeric columns; no weights; the columns' own dtype."""

    columns: tuple[str, ...] | None = None
    weights: str | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True)
class Layout:
    """The columns of the matrix, the column of weights, and the dtype of the matrix."""

    names: tuple[str, ...]
    weights: str | None
    dtype: np.dtype[Any]

    @property
    def wanted(self) -> list[str]:
        """All columns to read."""
        return [*self.names, *([self.weights] if self.weights is not None else [])]

    @classmethod
    def of(
        cls, place: str, fields: Sequence[Field], choice: ColumnChoice, hint: str = ""
    ) -> Layout:
        """Choose among `fields`. Raise ValueError, which names `place`, if that is not possible.

        `hint` says what to try if none of them holds numbers.
        """
        if not fields or choice.columns == ():
            raise ValueError(f"{place}: no columns")
        weights = choice.weights
        names = choice.columns or tuple(f.name for f in fields if f.numeric and f.name != weights)
        if not names:
            found = listed([field.name for field in fields])
            raise ValueError(f"{place}: no numeric column (found {found}){hint and f'; {hint}'}")
        if weights in names:
            raise ValueError(
                f"{place}: column {weights!r} holds the weights; do not cluster it as well"
            )
        layout = cls(names, weights, np.dtype(np.float64))
        check_names(place, [field.name for field in fields], layout.wanted)
        known = {field.name: field for field in fields}
        for field in (known[name] for name in layout.wanted):
            if field.dtype is None:
                raise ValueError(f"{place}: column {field.name!r} holds {field.type}, not numbers")
        types = {known[name].dtype or layout.dtype for name in names}
        return replace(layout, dtype=choice.dtype or np.result_type(*types))

    def check_later(self, place: str, later: Layout) -> None:
        """Raise ValueError unless `later`, chosen from the columns of `place`, is the same."""
        if set(later.names) != set(self.names):
            raise ValueError(
                f"{place}: the numeric columns are {listed(later.names)}, but those before are "
                f"{listed(self.names)}; name the columns to read"
            )
        if later.dtype != self.dtype:
            raise ValueError(
                f"{place}: the columns are {later.dtype}, but those before are {self.dtype}; "
                "give dtype= to convert all of them"
            )


def check_names(place: object, known: list[str], wanted: list[str]) -> None:
    """Raise ValueError unless each wanted name is in the source once, and is wanted once."""
    in_source, asked = Counter(known), Counter(wanted)
    for name in wanted:
        if name not in in_source:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.75)
            hint = f"did you mean {listed(close)}?" if close else f"there are {listed(known)}"
            raise ValueError(f"{place}: no column {name!r}; {hint}")
        if in_source[name] > 1:
            raise ValueError(f"{place}: {in_source[name]} columns are named {name!r}")
        if asked[name] > 1:
            raise ValueError(f"{place}: column {name!r} is asked for twice")


def listed(names: Sequence[str], most: int = 8) -> str:
    """The names in one line, at most `most` of them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def matrix_fields(d: int, dtype: np.dtype[Any]) -> tuple[Field, ...]:
    """The columns x0, x1, ... of a matrix, which are numbers if its type is one of real numbers."""
    number = None
    if dtype.kind in "biuf":
        number = np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)
    return tuple(Field(f"x{j}", number, number is not None, str(dtype)) for j in range(d))


def arrow_fields(schema: pa.Schema) -> tuple[Field, ...]:
    """The columns of an Arrow schema."""
    return tuple(arrow_field(field.name, field.type) for field in schema)


def arrow_field(name: str, kind: pa.DataType) -> Field:
    """A column of this Arrow type."""
    from pyarrow import types

    single, double = np.dtype(np.float32), np.dtype(np.float64)
    if types.is_dictionary(kind):
        return arrow_field(name, kind.value_type)
    if types.is_float16(kind) or types.is_float32(kind):
        return Field(name, single, True, str(kind))
    numeric = (
        types.is_float64(kind) or types.is_integer(kind) or types.is_decimal(kind)
        or types.is_boolean(kind)
    )  # fmt: skip
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    convertible = numeric or text or types.is_null(kind)
    return Field(name, double if convertible else None, numeric, str(kind))
