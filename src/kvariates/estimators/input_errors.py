"""Errors about X in one line: what is wrong, in which column or row, and what to do.

scikit-learn's validators decide what is refused. After they have refused X, the reason is looked
for here; the words by which scikit-learn's users know an error stay at its beginning.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import SourceBlocks
from kvariates.estimators.array_input import host_array, is_bfloat16, is_small
from kvariates.sources.columns import listed

SHOWN = 40  # characters of a value
TIMES = "date", "time", "duration"  # how the types of dates and durations begin
NAMED = 5  # columns that are named
FILL = "Leave such rows out, or fill them in, e.g. with sklearn.impute.SimpleImputer."
ON_GPU = {  # tables on a GPU that are no arrays, by package, and what to give instead
    "cudf": "X.to_cupy() to KMeans, or X.to_numpy()",
    "cupyx": "X.toarray() to KMeans, or X.get()",
}
RESHAPE = "X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if it is one row"


@contextmanager
def one_line(X: Any, *, small: bool = False) -> Iterator[Any]:
    """Replace the errors of scikit-learn's validators, called inside, by clearer ones.

    They are to check the X that this returns: a NumPy array, if X is an array of another library;
    float32 in place of bfloat16, unless `small`.
    """
    refuse_kind(X)
    X = host_array(X)
    try:
        yield X.astype(np.float32) if is_bfloat16(X) and not (small and is_small(X)) else X
    except (TypeError, ValueError) as error:
        better = explained(X, error)
        if better is None:
            raise
        raise better from None


def refuse_kind(X: Any) -> None:
    """TypeError or ValueError if X is no table, by its type alone."""
    kind = type(X).__name__
    if X is None:
        raise TypeError("X is None; give a table of numbers, a row for each point.")
    if isinstance(X, SourceBlocks):
        raise TypeError(
            f"X is blocks of {X.description}, but all rows are needed in memory: give a table of "
            "them, or of a sample. KMeans, StreamingKMeans and OnlineKMeans take blocks."
        )
    if kind == "LazyFrame":
        raise TypeError(
            "X is a polars LazyFrame, which holds no rows yet: call X.collect() first, or give "
            "kvariates.sources.blocks(X) to estimators that take blocks."
        )
    if (package := type(X).__module__.split(".", maxsplit=1)[0]) in ON_GPU:
        raise TypeError(f"X is a {kind} of {package}, on a GPU; give {ON_GPU[package]}.")
    if isinstance(X, (str, bytes, PathLike)):
        raise TypeError(
            f"X is a {kind}; read the file first, e.g. with pandas.read_csv, or give "
            "kvariates.sources.blocks(...) to estimators that take blocks."
        )
    if np.isscalar(X):
        raise ValueError(wrong_shape(X))
    if isinstance(X, (dict, set, frozenset)) and not sparse.issparse(X):
        raise TypeError(f"X is a {kind}; give an array or a data frame, e.g. pandas.DataFrame(X).")
    if isinstance(X, Iterator):
        raise TypeError(
            f"X is an iterator ({kind}), which gives its rows only once; give all of them, e.g. "
            "np.array(list(X))."
        )
    if any(words.startswith(TIMES) for words in types_of(X)) and (error := _bad_columns(X)):
        raise error  # scikit-learn would take nanoseconds for features


def types_of(X: Any) -> list[str]:
    """The types of the columns, in words; of an array, its type."""
    if (types := getattr(X, "dtypes", None)) is not None and getattr(X, "ndim", 2) == 2:
        return [str(dtype).lower() for dtype in types]
    return [str(getattr(X, "dtype", ""))]


def explained(X: Any, error: Exception) -> Exception | None:
    """A clearer error than the one of a validator; None if there is none."""
    line = str(error).split("\n", maxsplit=1)[0]
    if line.startswith(("Expected 2D array", "Expected a 2-dimensional")):
        return ValueError(wrong_shape(X))
    if line.startswith("Complex data not supported"):
        dtype = getattr(X, "dtype", "complex")
        advice = "give real numbers, e.g. np.hstack([X.real, X.imag])"
        return ValueError(f"Complex data not supported: X has dtype {dtype}; {advice}.")
    if re.match(r"Input (\S+ )?contains (NaN|infinity)", line):
        return ValueError(_not_finite(X, line.replace("Input contains", "Input X contains")))
    if line.startswith("The feature names should match"):
        return ValueError(" ".join(str(error).split()))
    if sparse.issparse(X):
        return None
    return _uneven_rows(X) or _bad_columns(X)


def wrong_shape(X: Any) -> str:
    """The message about an X that is no table."""
    shape = tuple(np.shape(X))
    if len(shape) == 0:
        return f"Expected 2D array, got scalar array instead: X is a {type(X).__name__}."
    advice = "X.to_frame()" if hasattr(X, "to_frame") else RESHAPE
    return (
        f"Expected 2D array, got {len(shape)}D array instead: X has shape {shape}. Reshape your "
        f"data: {advice}."
    )


def _not_finite(X: Any, line: str) -> str:
    """Where NaN or infinity is first, and how many values are neither."""
    head = line.rstrip(".:")
    if sparse.issparse(X):
        entries = X.tocoo()
        bad = ~np.isfinite(entries.data.astype(np.float64))
        n, rows, columns = X.shape[0], entries.row[bad], entries.col[bad]
    else:
        bad = ~np.isfinite(_floats(X))
        n, (rows, columns) = len(bad), np.nonzero(bad)
    if not len(rows):
        return f"{head}: its values are finite but too large; rescale X or give float64."
    first = int(np.lexsort((columns, rows))[0])
    place = f"row {rows[first]}, column {_name(X, int(columns[first]))}"
    count = f"{len(rows):,} value{'' if len(rows) == 1 else 's'} in {len(np.unique(rows)):,} of "
    return f"{head}: {count}{n:,} rows, first in {place}. {FILL}"


def _floats(X: Any) -> Any:
    """X as floats; pandas turns its missing values into NaN."""
    if hasattr(X, "iloc"):
        return X.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(X).astype(np.float64)


def _uneven_rows(X: Any) -> Exception | None:
    if not isinstance(X, (list, tuple)) or not X:
        return None
    lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
    other = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if other is None:
        return None
    said = ["is no row" if n is None else f"has {n} values" for n in (lengths[0], lengths[other])]
    return ValueError(
        f"X has rows of different lengths (inhomogeneous): row 0 {said[0]}, row {other} {said[1]}."
    )


@dataclass(frozen=True)
class BadColumn:
    """A column that is not made of numbers: its name in words, and the first such value."""

    name: str
    kind: str  # "text", "dates", "durations", "missing", "vectors" or "objects"
    value: Any
    row: int


def _bad_columns(X: Any) -> Exception | None:
    """An error about the first column that is no numbers, and others of the same kind."""
    found = [bad for j, column in enumerate(_columns(X)) if (bad := _bad_column(X, j, column))]
    if not found:
        return None
    first = found[0]
    names = [bad.name for bad in found if bad.kind == first.kind]
    which = f"column{'s' if len(names) > 1 else ''} {listed(names, NAMED)}"
    hold = f"{which} {'hold' if len(names) > 1 else 'holds'}"
    shown = repr(first.value)
    shown = f"{shown[:SHOWN]}{'...' if len(shown) > SHOWN else ''} in row {first.row}"
    it = "it" if len(names) == 1 else "them"
    out = f"leave {it} out"
    if hasattr(X, "iloc") and len(names) <= NAMED:
        out += f", X.drop(columns=[{', '.join(names)}])"
    messages = {
        "text": f"could not convert string to float: {hold} text ({shown}); {out}, or encode {it} "
        "as numbers, e.g. with OneHotEncoder.",
        "dates": f"{hold} dates ({shown}); {out}, or give numbers, such as days since the first.",
        "durations": f"{hold} durations ({shown}); {out}, or give numbers, such as seconds.",
        "missing": f"{hold} missing values (NaN), first in row {first.row}; leave such rows out, "
        "or fill them in, e.g. with sklearn.impute.SimpleImputer.",
        "vectors": f"setting an array element with a sequence: {hold} vectors; give them as a "
        f"matrix, np.stack(list(X[{first.name}])), or kvariates.sources.blocks(X).",
        "objects": f"float() argument must be a string or a real number: {hold} a "
        f"{type(first.value).__name__} ({shown}); every value must be a number.",
    }
    kind = TypeError if first.kind == "objects" else ValueError
    return kind(messages[first.kind])


def _columns(X: Any) -> list[Any]:
    """The columns of X, each as an array; none if X has no columns."""
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:  # pandas; two columns may share a name
        return [np.asarray(X.iloc[:, j]) for j in range(X.shape[1])]
    if hasattr(X, "get_column"):  # polars
        return [X.get_column(name).to_numpy() for name in X.columns]
    array = np.asarray(X)
    if array.dtype.kind in "US":  # NumPy turns numbers beside text into text
        array = np.array(X, dtype=object)
    return list(array.T) if array.ndim == 2 else []


def _name(X: Any, j: int) -> str:
    """The name of a column in quotes, or its number."""
    columns = getattr(X, "columns", None)
    return str(j) if columns is None else repr(_plain(list(columns)[j]))


def _bad_column(X: Any, j: int, column: Any) -> BadColumn | None:
    kinds = {"M": "dates", "m": "durations", "U": "text", "S": "text"}
    named = hasattr(X, "columns")
    if named and len(column) and not isinstance(column[0], str) and np.ndim(column[0]) == 1:
        return BadColumn(_name(X, j), "vectors", None, 0)
    if column.dtype.kind in "fiub":
        return None
    if column.dtype.kind in kinds and len(column):
        return BadColumn(_name(X, j), kinds[column.dtype.kind], _plain(column[0]), 0)
    for row, value in enumerate(column):
        if (kind := _kind(value)) is not None:
            return BadColumn(_name(X, j), kind, _plain(value), row)
    return None


def _kind(value: Any) -> str | None:
    """What a value is if it is no number; None for numbers, and for text that is a number."""
    if value is not None and is_missing(value):
        return "missing"
    if isinstance(value, (dt.date, dt.time, np.datetime64)):
        return "dates"
    if isinstance(value, (dt.timedelta, np.timedelta64)):
        return "durations"
    try:
        float(value) if value is not None else None
    except (TypeError, ValueError, OverflowError):
        return "text" if isinstance(value, (str, bytes)) else "objects"
    return None


def is_missing(value: Any) -> bool:
    """Whether it is None, NA, NaT or a signalling NaN, which float() refuses; NaN is a number."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_snan()
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _plain(value: Any) -> Any:
    """A NumPy scalar as a value of Python, for a message."""
    return str(value) if isinstance(value, (np.datetime64, np.timedelta64, np.str_)) else value


def refuse_columns_by_type(X: Any) -> None:
    """ValueError if a data frame has a column of dates or text, by its types: no value is read."""
    if not hasattr(X, "columns"):
        return
    for j, words in enumerate(types_of(X)):
        if words.startswith((*TIMES, "str", "utf", "categor")):
            raise ValueError(
                f"X must have numbers; column {_name(X, j)} has the type {words}. Leave it out, or "
                "give it as numbers."
            )
