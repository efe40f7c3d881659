"""Checks of the input of anti-clustering: categories, links, sizes of groups, distances."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from kvariates.balancing.group_problem import NO_LINKS, Categories, InfeasibleError, Links, pairs_of
from kvariates.data.exchanges import Ints
from kvariates.data.metrics import DISTANCES, METRICS, ROWS
from kvariates.data.rows import Floats

MOST_ROWS = 20_000  # of which all distances are kept
LARGEST = {"f8": 1e140, "f4": 1e15}  # of values: squares of sums must stay in their type
GROUP_METRICS = [name for name, entry in METRICS.items() if entry.needs in (ROWS, DISTANCES)]


def check_range(X: Any) -> None:
    """ValueError if squares of sums could overflow, or of all values vanish."""
    largest, limit = float(np.abs(X).max(initial=0.0)), LARGEST[X.dtype.str[1:]]
    if largest > limit or 0 < largest < 1 / limit:
        what = "overflow" if largest > 1 else "vanish"
        raise ValueError(
            f"X has values up to {largest:.3g}, whose squares {what}; scale X, e.g. with "
            "StandardScaler."
        )


def categories_of(categories: Any, n: int, name: str = "categories") -> Categories:
    """One category for each row. Of several columns, every combination is a category."""
    if categories is None:
        return Categories(np.zeros(n, dtype=np.int64), ())
    columns = _columns(categories, n, name)
    number, names = np.zeros(n, dtype=np.int64), [""]
    for column in columns:
        found, parts = _numbered(column, name)
        number = number * len(parts) + found
        names = [f"{first}, {part}" if first else part for first in names for part in parts]
        used, number = np.unique(number, return_inverse=True)
        names = [names[i] for i in used]
    return Categories(number.astype(np.int64), tuple(names))


def _columns(categories: Any, n: int, name: str) -> list[Any]:
    """One-dimensional arrays of length n."""
    if hasattr(categories, "iloc"):  # of pandas; its columns may have the same name
        two = categories.to_frame() if categories.ndim == 1 else categories
        columns = [np.asarray(two.iloc[:, j]) for j in range(two.shape[1])]
    elif hasattr(categories, "columns"):  # another data frame
        columns = [np.asarray(categories[column]) for column in categories.columns]
    else:
        table = _array(categories, name)
        if table.ndim not in (1, 2):
            raise ValueError(f"{name} has {table.ndim} dimensions; give one or more columns.")
        columns = [table] if table.ndim == 1 else list(table.T)
    for column in columns:
        if len(column) != n:
            raise ValueError(f"{name} has {len(column)} rows, but X has {n}.")
    return columns


def _array(values: Any, name: str) -> Any:
    """An array of a list; an iterator becomes a list first."""
    try:
        return np.asarray(list(values) if hasattr(values, "__next__") else values)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name} has entries of different lengths.") from None


def _numbered(column: Any, name: str) -> tuple[Ints, list[str]]:
    """Numbers of the values, in sorted order where they can be sorted."""
    values = column.tolist()
    for row, value in enumerate(values):
        if value is None or value != value:  # NaN
            raise ValueError(
                f"{name} has no value at row {row}; fill it, or give missing values a value of "
                "their own."
            )
    try:
        distinct = list(dict.fromkeys(values))
    except TypeError:
        raise ValueError(f"{name} should be numbers or text, one or more for each row.") from None
    try:
        distinct.sort()
    except TypeError:  # values of several types
        distinct.sort(key=str)
    rank = {value: i for i, value in enumerate(distinct)}
    texts = [str(value) for value in distinct]
    names = texts if len(set(texts)) == len(texts) else [repr(value) for value in distinct]
    return np.array([rank[v] for v in values], dtype=np.int64), names


def links_of(must_link: Any, cannot_link: Any, n: int) -> Links:
    """Pairs of rows; must-links may also be labels, with -1 for rows without any."""
    label = None if must_link is None else _array(must_link, "must_link")
    cannot = None if cannot_link is None else _array(cannot_link, "cannot_link")
    if label is None or label.ndim != 1 or not len(label):
        must = _pairs(label, n, "must_link")
    elif label.shape == (n,) and label.dtype.kind in "iu":
        must = pairs_of(label, np.flatnonzero(label >= 0))
    else:
        raise ValueError(
            f"must_link should be pairs of rows, of shape (pairs, 2), or an integer for each of "
            f"the {n} rows (-1: no link); got {label.dtype} of shape {label.shape}."
        )
    return Links(must, _pairs(cannot, n, "cannot_link"))


def _pairs(table: Any, n: int, name: str) -> Ints:
    if table is None or not table.size:
        return NO_LINKS
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise ValueError(
            f"{name} should be pairs of rows, of shape (pairs, 2); got {table.dtype} of shape "
            f"{table.shape}."
        )
    wrong = ((table < 0) | (table >= n)).any(axis=1)
    if wrong.any():
        i, j = table[int(np.argmax(wrong))]
        raise ValueError(f"{name} has the pair ({i}, {j}), but rows are 0 to {n - 1}.")
    loop = table[:, 0] == table[:, 1]
    if name == "cannot_link" and loop.any():
        row = table[int(np.argmax(loop)), 0]
        raise InfeasibleError(f"cannot_link keeps row {row} apart from itself; remove this pair.")
    return np.asarray(table, dtype=np.int64)


def sizes_of(group_sizes: Any, n: int, n_groups: int) -> Ints | None:
    """Rows of each group, or None for sizes that differ by at most one."""
    if group_sizes is None:
        return None
    sizes = _array(group_sizes, "group_sizes")
    if sizes.shape != (n_groups,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise ValueError(
            f"group_sizes should be {n_groups} positive integers, one for each group; got "
            f"{reprlib.repr(sizes.tolist())}."
        )
    total = sum(sizes.tolist())
    if total != n:
        raise ValueError(f"group_sizes add up to {total}, but X has {n} rows.")
    return np.asarray(sizes, dtype=np.int64)


def distances_of(X: Floats, metric: str) -> Floats:
    """All distances of rows, or X itself if it holds them."""
    if len(X) > MOST_ROWS:
        raise ValueError(
            f"distances of all pairs of {len(X)} rows do not fit into memory (at most "
            f"{MOST_ROWS} rows); use objective='variance' or 'kplus'."
        )
    if metric != "precomputed":
        return np.ascontiguousarray(METRICS[metric].run(X, None).distances(np.arange(len(X))))
    if X.shape[0] != X.shape[1]:
        raise ValueError(f"metric='precomputed' needs a square matrix; X has shape {X.shape}.")
    close = 1e-6 * np.abs(X).max()
    if (X < 0).any() or (np.abs(np.diag(X)) > close).any() or (np.abs(X - X.T) > close).any():
        raise ValueError(
            "X is not a matrix of distances: it should be symmetric, without negative values, and "
            "zero on its diagonal."
        )
    return np.ascontiguousarray((X + X.T) / 2)
