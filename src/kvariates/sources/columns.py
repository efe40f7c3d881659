"""The columns of a source: which there are, and which of them are read.

A column of vectors, such as the lists of a Parquet file, is as many features as a vector has
values: `embedding_0`, `embedding_1`, and so on. The name of the column chooses all of them.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


NARROW = {"f": 4, "i": 1, "u": 1}  # bytes of the largest types that float32 holds, by kind


@dataclass(frozen=True)
class Field:
    """A column of a source."""

    name: str
    dtype: np.dtype[Any] | None  # float32 or float64; None: no numbers (a date, a list)
    numeric: bool  # whether it is read if none are named. Truth values are, as 0 and 1; text is not
    type: str  # in the source, for messages
    length: int | None = None  # of its vectors; None: it holds numbers
    ragged: bool = False  # whether each row says how long its vector is

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        if self.length is None:
            return (self.name,)
        return tuple(f"{self.name}_{j}" for j in range(self.length))


@dataclass(frozen=True)
class ColumnChoice:
    """What the caller asks for. None: all numeric columns; no weights; the columns' own dtype."""

    columns: tuple[str, ...] | None = None
    weights: str | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True)
class Layout:
    """The columns of the matrix, the column of weights, and the dtype of the matrix."""

    names: tuple[str, ...]  # of the features
    weights: str | None
    dtype: np.dtype[Any]
    vectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns: their features

    @property
    def wanted(self) -> list[str]:
        """All columns to read."""
        own = {name: column for column, names in self.vectors.items() for name in names}
        columns = [*dict.fromkeys(own.get(name, name) for name in self.names)]
        return [*columns, *([self.weights] if self.weights is not None else [])]

    @property
    def lengths(self) -> dict[str, int]:
        """The columns of vectors, and how long these are."""
        return {column: len(names) for column, names in self.vectors.items()}

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
        asked = choice.columns or tuple(f.name for f in fields if f.numeric and f.name != weights)
        if not asked:
            found = listed([field.name for field in fields])
            raise ValueError(f"{place}: no numeric column (found {found}){hint and f'; {hint}'}")
        if weights in asked:
            raise ValueError(
                f"{place}: column {weights!r} holds the weights; do not cluster it as well"
            )
        of_vectors = {field.name: field.features for field in fields if field.length is not None}
        names = tuple(name for column in asked for name in of_vectors.get(column, (column,)))
        known = {name: field for field in fields for name in field.features}
        check_names(
            place, [name for field in fields for name in field.features],
            [*names, *([weights] if weights is not None else [])],
        )  # fmt: skip
        for name in (*names, *([weights] if weights is not None else [])):
            if known[name].dtype is None:
                raise ValueError(f"{place}: column {name!r} holds {known[name].type}, not numbers")
        types = {known[name].dtype or np.dtype(np.float64) for name in names}
        read = {known[name].name for name in names}
        vectors = {column: of for column, of in of_vectors.items() if column in read}
        return cls(names, weights, choice.dtype or np.result_type(*types), vectors)

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
    number = float_type(dtype)
    return tuple(Field(f"x{j}", number, number is not None, str(dtype)) for j in range(d))


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """float32 if it holds all numbers of this type, otherwise float64; None: these are no numbers.

    Truth values are float64, as the numbers of a text table.
    """
    if dtype.name == "bfloat16" or (dtype.kind in "fiu" and dtype.itemsize <= NARROW[dtype.kind]):
        return np.dtype(np.float32)
    return np.dtype(np.float64) if dtype.kind in "biuf" else None


def arrow_fields(
    schema: pa.Schema, lengths: Callable[[list[str]], Mapping[str, int]] = lambda _: {}
) -> tuple[Field, ...]:
    """The columns of an Arrow schema.

    `lengths` tells how long the vectors of these columns are, of which the schema does not say it.
    """
    fields = [arrow_field(field.name, field.type) for field in schema]
    unknown = [field.name for field in fields if field.ragged]
    told = lengths(unknown) if unknown else {}
    return tuple(with_length(each, told.get(each.name)) if each.ragged else each for each in fields)


def with_length(field: Field, length: int | None) -> Field:
    """A column of vectors of this length; None: of an unknown one, so that they are not read."""
    if length:
        return replace(field, length=length)
    return replace(field, dtype=None, numeric=False)


def arrow_field(name: str, kind: pa.DataType) -> Field:
    """A column of this Arrow type."""
    import pyarrow as pa
    from pyarrow import types

    single, double = np.dtype(np.float32), np.dtype(np.float64)
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_field(name, kind.storage_type)
    if types.is_dictionary(kind):
        return arrow_field(name, kind.value_type)
    if is_vector(kind):
        return _vector_field(name, kind)
    if types.is_float16(kind) or types.is_float32(kind):
        return Field(name, single, True, str(kind))
    numeric = (
        types.is_float64(kind) or types.is_integer(kind) or types.is_decimal(kind)
        or types.is_boolean(kind)
    )  # fmt: skip
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    convertible = numeric or text or types.is_null(kind)
    return Field(name, double if convertible else None, numeric, str(kind))


def is_vector(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type are lists."""
    from pyarrow import types

    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _vector_field(name: str, kind: pa.DataType) -> Field:
    """A column of lists, which are vectors if they hold floats or integers."""
    from pyarrow import types

    value = kind.value_type
    if not (types.is_floating(value) or types.is_integer(value)):
        return Field(name, None, False, str(kind))
    dtype = float_type(np.dtype(value.to_pandas_dtype()))
    if types.is_fixed_size_list(kind):
        return with_length(Field(name, dtype, True, str(kind)), kind.list_size)
    floats = types.is_floating(value)  # integers are often words, of which each row has some
    return Field(name, dtype, floats, str(kind), ragged=True)
