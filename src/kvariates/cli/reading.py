"""Reads the table of a command, and points out what its user may not have meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.cli.app import DROP, REMEDY, Notes
from kvariates.sources import (
    DataTable,
    MissingValuesError,
    OpenedTable,
    Scale,
    TextOptions,
    open_table,
    scale_for,
)
from kvariates.sources.columns import check_names, listed
from kvariates.sources.input_file import PathOrUrl
from kvariates.sources.text_numbers import first_formula, formula_of

APART = 100.0  # times the smallest deviation of a column: very different scales
FEWEST = 10  # rows in which equal steps show an identifier
IDENTIFIER = re.compile(
    r"(^|[_\s.-])(id|ids|nr|no|num|index|idx|key|code|row|rowid|uuid|zip|plz|phone)$|^id[_\s.-]"
    r"|[a-z]I[dD]$|^#$|^column1$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ReadRequest:
    """What to read, and how."""

    data: PathOrUrl  # "-": standard input
    columns: list[str] | None = None  # None: all numeric ones
    weights: str | None = None
    identifier: str | None = None  # the column of names of the rows
    keep: bool = False  # whether the original columns are copied beside the labels
    missing: Any = "error"
    aside: tuple[str, ...] = ()  # columns that are not clustered unless they are named
    text: TextOptions = field(default_factory=TextOptions)
    means: Any = None  # in place of missing values, if not those of the file
    notes: Notes = field(default_factory=Notes)


@dataclass(frozen=True, eq=False)
class ReadTable:
    """A table, the columns that are copied beside the labels (of all rows), and the file."""

    table: DataTable
    beside: dict[str, Any]
    opened: OpenedTable | None = None


def read_table(request: ReadRequest) -> ReadTable:
    """Read the file and say on standard error how it was read."""
    opened, notes = open_table(request.data, request.text), request.notes
    for line in opened.remarks:
        notes.add(f"{shown_name(request.data)}: {line}")
    names = dict.fromkeys((request.identifier, *request.aside))
    columns, aside = request.columns, [name for name in names if name is not None]
    check_names(request.data, opened.names, aside)
    if columns is None and opened.numeric & set(aside):
        columns = [n for n in opened.names if n in opened.numeric and n not in aside]
    try:
        table = opened.table(columns, request.weights, request.missing, request.means)
    except MissingValuesError as error:
        remedy = DROP if request.missing == "mean" else REMEDY
        raise ValueError(f"{error}; {remedy}") from None
    if request.columns is None:
        used = {*table.names, *aside, request.weights}
        others = (name for name in opened.names if name not in used)
        left_out = tuple(name for name in others if name not in opened.numeric)
        table = replace(table, left_out=left_out)
    if table.kept is not None:
        n = int(np.count_nonzero(~table.kept))
        notes.add(f"{n:,} {'row' if n == 1 else 'rows'} with a missing value left out")
    if table.filled:
        values = "value was" if table.filled == 1 else "values were"
        notes.add(f"{table.filled:,} missing {values} filled in with the mean of the column")
    say_left_out(notes, table.left_out, opened.doubtful)
    beside = beside_columns(opened, request)
    say_formulas(notes, opened.names, beside)
    return ReadTable(table, beside, opened)


def scaled_rows(X: Any, w: Any, scaling: Any) -> tuple[Any, Scale | None]:
    """Rows in the units of a scale of `sources.scaling`, and the scale."""
    if scaling != "none" and not isinstance(X, np.ndarray):
        raise ValueError(
            f"--scale {scaling} would turn the zeros of a sparse matrix into other numbers; use "
            "--scale none"
        )
    scale = scale_for(X, w, scaling)
    return (X if scale is None else scale.apply(X)), scale


def say_left_out(notes: Notes, names: Sequence[str], doubtful: Mapping[str, str]) -> None:
    """Say which columns are not numeric, and why if they look so."""
    if names:
        notes.add(f"left out, not numeric: {listed(names)}")
    for name in names:
        if name in doubtful:
            notes.add(doubtful[name])


def say_formulas(notes: Notes, names: Sequence[str], beside: Mapping[str, Any]) -> None:
    """Point out text that a spreadsheet takes for a formula; it is written as it is."""
    found = {"the name of a column": first_formula(names)}
    found |= {f"column {name!r}": formula_of(column) for name, column in beside.items()}
    for where, cell in found.items():
        if cell:
            notes.add(
                f"{where}: a spreadsheet may run {cell[:40]!r} as a formula; such cells are "
                "written as they are, so import CSV files as text"
            )


def shown_name(path: PathOrUrl) -> str:
    """The name of a file for messages."""
    return "standard input" if str(path) == "-" else path.name or str(path)


def beside_names(request: ReadRequest, names: Sequence[str]) -> list[str]:
    """Which of the columns of a file are copied beside the labels: the identifier comes first."""
    first = [] if request.identifier is None else [request.identifier]
    check_names(request.data, list(names), first)
    return first + [name for name in names if request.keep and name not in first]


def beside_columns(opened: OpenedTable, request: ReadRequest) -> dict[str, Any]:
    """The columns that are copied beside the labels."""
    names = beside_names(request, opened.names)
    first = [name for name in names if name == request.identifier]
    found = opened.originals(first, identifiers=True)
    return found | opened.originals([name for name in names if name not in found])


def say_remarks(
    table: DataTable, scaled: bool, request: ReadRequest, used: str = "clustered"
) -> None:
    """Point out identifiers, columns of very different scale, and what may be a network."""
    X, names = table.X, table.names
    square = X.shape[0] == X.shape[1] > 2
    if used == "clustered" and sparse.issparse(X) and square and (X != X.T).nnz == 0:
        request.notes.add(
            "the matrix is symmetric, and its rows are clustered like measurements; if it is a "
            "network: --objective median --metric graph"
        )
    if not isinstance(X, np.ndarray) or X.shape[1] < 2:
        return
    if request.columns is None:
        alike = [name for j, name in enumerate(names) if _is_identifier(name, X[:, j])]
        rest = [name for name in names if name not in alike]
        if alike and rest:
            request.notes.add(_about_identifiers(alike, rest, used))
    if not scaled:
        _say_scales(request.notes, X, names)


def _about_identifiers(alike: Sequence[str], rest: Sequence[str], used: str) -> str:
    """What columns that look like identifiers are used as, and how to use them as names."""
    what, each, them = f"look like identifiers, and are {used} like measurements", "one", "them"
    if len(alike) == 1:
        what, each, them = f"looks like an identifier, and is {used} like a measurement", "it", "it"
    columns = ",".join(rest[:4]) + ",..." * (len(rest) > 4)
    return (
        f"{listed(alike)}: {what}; --id {alike[0]} uses {each} as a name only, --columns {columns} "
        f"leaves {them} out"
    )


def _say_scales(notes: Notes, X: Any, names: Sequence[str]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        spread = X[:: len(X) // 2**17 + 1].std(axis=0, dtype=np.float64)
    varied = np.flatnonzero(spread > 0)
    if not varied.size:
        return
    low, high = varied[spread[varied].argmin()], varied[spread[varied].argmax()]
    if spread[high] > APART * spread[low]:
        notes.add(
            f"columns have very different scales (deviation of {names[low]}: {spread[low]:.3g}, of "
            f"{names[high]}: {spread[high]:.3g}), so {names[high]} decides; --scale standard gives "
            "all columns the same say"
        )


def _is_identifier(name: str, column: Any) -> bool:
    """Whether a column has different integers, and the name or the even steps of a numbering."""
    if len(column) < FEWEST or not (column == np.round(column)).all():
        return False
    if (np.diff(column) == 1).all():
        return True
    return IDENTIFIER.search(name) is not None and len(np.unique(column)) == len(column)
