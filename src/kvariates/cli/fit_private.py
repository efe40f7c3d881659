"""The work of `kvariates fit --epsilon`: private k-means.

Nothing that is written, and nothing that is printed, is computed from the rows without noise: the
bounds come from the user, the sizes are noisy counts, and there are no inertia, no picture of rows,
no number of rows and no time of the fit. Labels are written only if they are asked for. Every row
of the file is read by itself (`sources/private_text.py`), and none of them is an error.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from rich.progress import Progress

from kvariates.cli.fit_command import BOUNDS_HELP, NO_SEED, WITH_EPSILON, FitRequest, Fitted
from kvariates.cli.reading import beside_columns
from kvariates.cli.screen import fit_with_bar, phase
from kvariates.estimators.private_input import LARGEST, SMALLEST
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.privacy.secret import silent
from kvariates.sources import DataTable, OpenedTable, Scale, open_table
from kvariates.sources.parquet_writer import write_labels
from kvariates.sources.scaling import within_box

NO_COLUMNS = (
    "--epsilon needs --columns a,b, or --bounds that name the columns: which columns are numbers "
    "must not be found out from the rows"
)
NOT_GUESSED = (
    "a private fit does not guess the format of a text file; if it is not comma-separated UTF-8 "
    "with decimal points and names in its first line, give --delimiter, --decimal, --encoding or "
    "--no-header"
)
NO_LABELS = (
    "no labels.parquet: the label of a row reveals information about it, whatever the noise; "
    "--labels writes it all the same, for your own use"
)
LABELS = "labels.parquet is not private: it reveals information about every row; do not publish it"
FARTHEST = 1e100  # of scaled rows that get a label: larger ones could be infinite
SHOWN = ("n_clusters", "epsilon", "delta", "bounds", "adjacency", "method", "missing")


def fit_private(request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Read the file, and find private centres."""
    options = request.options
    _check(request)
    # All that were given: the last alone would be a fit of other columns.
    given = parse_bounds(",".join(options.bounds or ()))
    with phase(progress, f"reading {request.data.name}"), silent():
        opened, table = _read(request, given)
        low, high = _ends(given, table.names)
        X, bounds, scale = table.X, (low, high), None
        if request.scaling == "minmax":
            scale = Scale(low, high - low)
            X = scale.apply(within_box(X, low, high))
            bounds = (np.zeros(len(low)), np.ones(len(low)))
    with phase(progress, "clustering privately") as bar:
        model = PrivateKMeans(
            request.k or 1, **request.budget,
            bounds=(bounds[0].tolist(), bounds[1].tolist()),
            missing="error" if request.reading.missing == "error" else "drop",
        )  # fmt: skip
        fit_with_bar(model, bar, request.notes, X)
    if options.labels:
        kept = np.isfinite(table.X).all(axis=1)
        beside = beside_columns(opened, request.reading)
        write_labels(folder / "labels.parquet", _labels(model, table.X[kept], scale), beside, kept)
    centers, errors, counts = model.cluster_centers_, model.center_errors_, model.cluster_counts_
    parameters = {name: model.get_params()[name] for name in SHOWN}
    if scale is not None:
        centers, errors = scale.undo(centers), None if errors is None else errors * scale.spread
        parameters["scale"] = request.scaling
    run = request.run(
        model, table=request.table(table.names, table.left_out, None), parameters=parameters,
        centers=centers, sizes=np.asarray(counts), masses=np.asarray(counts), errors=errors,
        notes=(),
    )  # fmt: skip
    request.notes.add(LABELS if options.labels else NO_LABELS)
    return Fitted(run, None, model, scale)


def _check(request: FitRequest) -> None:
    """Raise ValueError for options that a private fit does not have."""
    request.refuse(
        WITH_EPSILON, "metric", "init", "algorithm", "n_init", "size_min", "size_max", "certify",
        but=("minmax", "drop", "keep"), seed=NO_SEED, weights="",
        k=": the choice would depend on the rows; give a number",
        missing=": the mean would be taken from the data",
        scale=": it is measured on the data; --scale minmax uses the bounds",
    )  # fmt: skip
    if not request.options.labels:
        request.refuse("needs --labels in a private fit", "id", "keep")


def _read(request: FitRequest, given: Mapping[str, Bounds]) -> tuple[OpenedTable, DataTable]:
    """The file and its columns of numbers. ValueError if a column is missing."""
    columns = request.reading.columns or [name for name in given if name]
    if not columns:
        raise ValueError(NO_COLUMNS)
    opened = open_table(request.data, request.reading.text, private=True)
    if opened.matrix is not None:
        raise ValueError(f"{request.data}: is sparse, and --epsilon takes dense tables")
    for name in columns:
        if name not in opened.names:
            shown = repr(name) if request.reading.columns else given[name].named(name)
            raise ValueError(f"{request.data}: has no column {shown}; {NOT_GUESSED}")
    return opened, opened.table(columns, None, "keep")


def _ends(bounds: Mapping[str, Bounds], names: Sequence[str]) -> tuple[Any, Any]:
    """The lower and the upper bound of each column."""
    for name in bounds:
        if name and name not in names:
            shown = bounds[name].named(name)
            raise ValueError(f"--bounds: the column {shown} is not one of {', '.join(names)}")
    missing = [name for name in names if name not in bounds and "" not in bounds]
    if missing:
        raise ValueError(f"--bounds: none for {', '.join(missing)}")
    found = [bounds[name] if name in bounds else bounds[""] for name in names]
    return np.array([each.low for each in found]), np.array([each.high for each in found])


def _labels(model: PrivateKMeans, X: Any, scale: Scale | None) -> Any:
    """The labels of complete rows, of which there may be none."""
    if not len(X):
        return np.empty(0, np.int32)
    with silent():
        if scale is not None:
            X = np.clip(scale.apply(X.astype(np.float64)), -FARTHEST, FARTHEST)
        return model.predict(np.ascontiguousarray(X))


@dataclass(frozen=True)
class Bounds:
    """The bounds of a column, as they are written. `place`: in a file, if they come from one."""

    name: str
    ends: tuple[str, str]
    place: str = ""

    def named(self, name: str) -> str:
        """The name of the column for messages; of a file, only where it is."""
        return f"named in {self.place}" if self.place else repr(name)

    @property
    def low(self) -> float:
        return float(self.ends[0])

    @property
    def high(self) -> float:
        return float(self.ends[1])

    def refuse(self, what: str, shown: str) -> NoReturn:
        """ValueError that says `what` about a line of a file, or `shown` about words."""
        raise ValueError(f"{self.place}: {what}" if self.place else f"--bounds: {shown}")

    def check(self) -> None:
        """ValueError unless PrivateKMeans takes these bounds."""
        for cell in self.ends:
            if not _is_number(cell):
                self.refuse("a bound is not a number", f"{cell!r} is not a number")
        low, high = self.low, self.high
        of = f" of {self.name}" if self.name else ""
        within = f"must be numbers within +-{LARGEST:g}; use other units"
        apart = f"must be {SMALLEST:g} to {LARGEST:g} apart; use other units"
        if not max(abs(low), abs(high)) <= LARGEST:
            self.refuse(f"bounds {within}", f"the bounds{of} {within}")
        if not low < high:
            words = f"the lower bound{of} ({low:g}) is not below {high:g}"
            self.refuse("the lower bound is not below the upper one", words)
        if not SMALLEST <= high - low <= LARGEST:
            self.refuse(f"bounds {apart}", f"the bounds{of} {apart}")


def parse_bounds(words: str) -> dict[str, Bounds]:
    """Bounds by column; the key "" is for all columns."""
    found: dict[str, Bounds] = {}
    for bounds in _of_file(Path(words)) if _is_file(words) else _of_words(words):
        bounds.check()
        if bounds.name in found:
            bounds.refuse("the column has bounds already", f"{bounds.name!r} has bounds twice")
        found[bounds.name] = bounds
    return found


def _is_file(words: str) -> bool:
    try:
        return Path(words).is_file()
    except OSError:  # too long for the name of a file
        return False


def _of_words(words: str) -> list[Bounds]:
    pair = re.fullmatch(r"\s*([^,:=]+)\s*[,:]\s*([^,:=]+)\s*", words)
    if pair:
        return [Bounds("", (pair[1], pair[2]))]
    items = [re.fullmatch(r"\s*(.+?)\s*=\s*([^:]+):([^:]+)", part) for part in words.split(",")]
    if not all(items):
        raise ValueError(f"--bounds {words}: is neither a file nor bounds; give {BOUNDS_HELP}")
    return [Bounds(item[1], (item[2], item[3])) for item in items if item]


def _of_file(path: Path) -> list[Bounds]:
    """The bounds of a file of lines column,low,high."""
    try:
        return list(_lines(path, path.read_text(encoding="utf-8-sig")))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path}: cannot be read as bounds; give {BOUNDS_HELP}") from None


def _lines(path: Path, text: str) -> Iterator[Bounds]:
    reader = csv.reader(io.StringIO(text), delimiter=";" if ";" in text else ",")
    rows = [(reader.line_num, row) for row in reader if row]
    if rows and not any(_is_number(cell) for cell in rows[0][1][1:]):
        rows = rows[1:]  # a line of names
    if not rows:
        raise ValueError(f"{path}: bounds are lines column,low,high")
    for line, row in rows:
        if len(row) != 3:
            raise ValueError(f"{path}, line {line}: bounds are lines column,low,high")
        yield Bounds(row[0].strip(), (row[1], row[2]), f"{path}, line {line}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
