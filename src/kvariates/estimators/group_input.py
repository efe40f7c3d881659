"""Checks of the input of anti-clustering: categories, links, sizes of groups, distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.balancing.units import InfeasibleError, Links
from kvariates.data.exchanges import Ints
from kvariates.data.metrics import DISTANCES, METRICS, ROWS
from kvariates.data.rows import Floats

MOST_ROWS = 20_000  # of which all distances are kept
LARGEST = {"f8": 1e140, "f4": 1e15}  # of values: squares of sums must stay in their type
GROUP_METRICS = [name for name, entry in METRICS.items() if entry.needs in (ROWS, DISTANCES)]


@dataclass(frozen=True, eq=False)
class Categories:
    """The number of each row's category, and the names; none if no categories are given."""

    number: Ints
    names: tuple[str, ...]


def check_range(X: Any) -> None:
    """ValueError if squares of sums could overflow, or of all values vanish."""
    largest, limit = float(np.abs(X).max(initial=0.0)), LARGEST[X.dtype.str[1:]]
    if largest > limit or 0 < largest < 1 / limit:
        what = "overflow" if largest > 1 else "vanish"
        raise ValueError(
            f"X has values up to {largest:.3g}, whose squares {what}; scale X, e.g. with "
            "StandardScaler."
        )


def categories_of(categories: Any, n: int) -> Categories:
    """One category for each row. Of several columns, every combination is a category."""
    if categories is None:
        return Categories(np.zeros(n, dtype=np.int64), ())
    columns = _columns(categories, n)
    number, names = np.zeros(n, dtype=np.int64), [""]
    for column in columns:
        found, parts = _numbered(column)
        number = number * len(parts) + found
        names = [f"{name}, {part}" if name else part for name in names for part in parts]
        used, number = np.unique(number, return_inverse=True)
        names = [names[i] for i in used]
    return Categories(number.astype(np.int64), tuple(names))


def _columns(categories: Any, n: int) -> list[Any]:
    """One-dimensional arrays of length n."""
    if hasattr(categories, "columns"):  # a data frame
        columns = [np.asarray(categories[name]) for name in categories.columns]
    else:
        table = np.asarray(categories)
        if table.ndim not in (1, 2):
            raise ValueError(f"categories has {table.ndim} dimensions; give one or more columns.")
        columns = [table] if table.ndim == 1 else list(table.T)
    for column in columns:
        if len(column) != n:
            raise ValueError(f"categories has {len(column)} rows, but X has {n}.")
    return columns


def _numbered(column: Any) -> tuple[Ints, list[str]]:
    """Numbers of the values, in sorted order where they can be sorted."""
    values = column.tolist()
    for row, value in enumerate(values):
        if value is None or value != value:  # NaN
            raise ValueError(
                f"categories has no value at row {row}; fill it, or give missing values a category "
                "of their own."
            )
    distinct = list(dict.fromkeys(values))
    try:
        distinct.sort()
    except TypeError:  # values of several types
        distinct.sort(key=str)
    rank = {value: i for i, value in enumerate(distinct)}
    return np.array([rank[v] for v in values], dtype=np.int64), [str(v) for v in distinct]


def links_of(must_link: Any, cannot_link: Any, n: int) -> Links:
    """Pairs of rows; must-links may also be labels, with -1 for rows without any."""
    return Links(_must(must_link, n), _pairs(cannot_link, n, "cannot_link"))


def _must(must_link: Any, n: int) -> Ints:
    if must_link is None or np.ndim(must_link) != 1 or not len(must_link):
        return _pairs(must_link, n, "must_link")
    label = np.asarray(must_link)
    if label.shape != (n,) or label.dtype.kind not in "iu":
        raise ValueError(
            f"must_link should be pairs of rows, of shape (pairs, 2), or an integer for each of "
            f"the {n} rows (-1: no link); got {label.dtype} of shape {label.shape}."
        )
    rows = np.flatnonzero(label >= 0)
    rows = rows[np.argsort(label[rows], kind="stable")]
    same = label[rows[1:]] == label[rows[:-1]]
    return np.stack([rows[:-1][same], rows[1:][same]], axis=1).astype(np.int64)


def _pairs(pairs: Any, n: int, name: str) -> Ints:
    if pairs is None or not len(pairs):
        return np.empty((0, 2), dtype=np.int64)
    table = np.asarray(pairs)
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
    return table.astype(np.int64)


def sizes_of(group_sizes: Any, n: int, n_groups: int) -> Ints | None:
    """Rows of each group, or None for sizes that differ by at most one."""
    if group_sizes is None:
        return None
    sizes = np.asarray(group_sizes)
    if sizes.shape != (n_groups,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise ValueError(
            f"group_sizes should be {n_groups} positive integers, one for each group; got "
            f"{group_sizes!r}."
        )
    if sizes.sum() != n:
        raise ValueError(f"group_sizes add up to {sizes.sum()}, but X has {n} rows.")
    return sizes.astype(np.int64)


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
