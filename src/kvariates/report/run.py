"""What a report of a fit is made from: the table, the run, and the rows that are shown.

Programs read the same in centers.csv and summary.json: `centers_table` and `summary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from kvariates.data.exact_sums import to_float
from kvariates.estimators.fit_record import FitRecord
from kvariates.k_selection import Choice
from kvariates.palette import Array
from kvariates.report.page import as_options
from kvariates.sources.input_file import PathOrUrl
from kvariates.sources.parquet_writer import LABEL, name_beside

MEDOID = "medoid"  # a column of centers.csv: the name of the row, or its number from 1


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What was read, and how."""

    path: PathOrUrl | None  # None: not from a file
    names: tuple[str, ...]  # of the columns that were clustered
    left_out: tuple[str, ...]
    rows: int | None = None  # None: a secret
    weighted: bool = False
    scaled: bool = False
    streamed: bool = False
    kept: Array | None = None  # which rows of the file were clustered, as a mask; None: all
    weights: str = ""  # the name of the column of weights, if it is known
    steps: tuple[str, ...] = ()  # of a pipeline before the clustering
    units: str = "of the data"  # those of the centres

    def in_file(self, rows: Array) -> Array:
        """The numbers in the file, from 0, of clustered rows."""
        return rows if self.kept is None else np.asarray(np.flatnonzero(self.kept)[rows])


@dataclass(frozen=True, eq=False)
class FitRun:
    """The result of one run. What is None is not written."""

    table: FittedTable
    parameters: Mapping[str, Any]  # of the estimator
    centers: Array  # in the units of the table
    sizes: Array | None  # rows in each cluster; noisy counts of a private fit; None: not known
    masses: Array | None  # weight of each cluster; its size if there are no weights
    inertia: float | None = None
    n_iter: int | None = None  # iterations; of medoids, swaps
    seconds: float | None = None  # of the fit
    record: FitRecord = field(default_factory=FitRecord)  # of the fitted model
    command: str = ""  # that repeats the run: of the shell, or of Python
    costs: tuple[float, ...] = ()  # after each iteration
    medoids: tuple[str, ...] = ()  # names of centres without columns, such as nodes of a graph
    notes: tuple[str, ...] = ()  # what was said about the data and the fit
    medoid_ids: tuple[str, ...] = ()  # names of rows that are medoids, from a column of the table
    errors: Array | None = None  # error bars of private centres, in the units of the table
    choice: Choice | None = None  # how the number of clusters was chosen; None: it was given

    @property
    def k(self) -> int:
        return len(self.centers)

    @property
    def has_columns(self) -> bool:
        """Whether centres are rows of numbers; medoids of a graph, or words, are not."""
        if self.medoids or (self.record.medoids is not None and self.record.centers is None):
            return False
        return self.centers.ndim == 2 and self.centers.shape[1] == len(self.table.names) > 0

    @property
    def unit(self) -> str:
        """What is clustered, in the plural."""
        return "rows" if self.has_columns else "points"

    @property
    def counted(self) -> str:
        """What the sizes of clusters count, in words."""
        if self.public_points:
            return "noisy demand"
        return "noisy rows" if self.private else self.unit

    @property
    def amounts(self) -> Array | None:
        """The size of each cluster for readers: its weight if rows have weights."""
        return self.masses if self.table.weighted and not self.private else self.sizes

    @property
    def measured_in(self) -> str:
        """What `amounts` are, in words."""
        return "weight" if self.table.weighted and not self.private else self.counted

    @property
    def medoid_names(self) -> tuple[str, ...]:
        """What the medoids are called: by name, or by their rows; empty if centres are means."""
        numbered = tuple(f"{self.unit[:-1]} {i:,}" for i in self.medoid_rows)
        return self.medoids or self.medoid_ids or numbered

    @property
    def medoid_rows(self) -> list[int]:
        """The numbers of the medoids in the file, from 1; empty if the centres are means."""
        numbers = self.record.medoids
        return [] if numbers is None else [int(i) + 1 for i in self.table.in_file(numbers)]

    @property
    def known_sizes(self) -> Array:
        if self.sizes is None or self.masses is None:
            raise ValueError("the sizes of the clusters are not known")
        return self.sizes

    @property
    def of_shell(self) -> bool:
        """Whether the command made the page; its texts then name options, not parameters."""
        return self.command.startswith("kvariates ")

    def spoken(self, words: str) -> str:
        """A text of the library, in the words of the command if that made the page."""
        return as_options(words) if self.of_shell else words

    @property
    def private(self) -> bool:
        return self.record.private

    @property
    def public_points(self) -> bool:
        return self.record.public_points

    @property
    def doubtful(self) -> Array:
        """Which centres may be only noise, by their noisy counts."""
        found = self.record.doubtful
        return np.zeros(self.k, bool) if found is None else np.asarray(found)

    @property
    def about_errors(self) -> str:
        """What the error bars of private centres mean, or why there are none."""
        if self.errors is not None and self.doubtful.all() and np.isnan(self.errors).all():
            return "No centre has an error bar: all of them may be only noise."
        return self.record.errors_about

    @property
    def shares(self) -> Array:
        """The masses as parts of the whole (noisy counts below 0: 0); all alike if not known."""
        if self.masses is None:
            return np.full(self.k, 1 / self.k)
        masses = np.maximum(np.asarray(self.masses, float), 0.0)
        return np.asarray(masses / max(float(masses.sum()), np.finfo(float).tiny))

    def released(self) -> FitRun:
        """The run as it may be written: of a private fit, what is public or was charged.

        Each of these fields is named here, so that a field that is added later is not written.
        """
        if not self.private:
            return self
        table, counts = self.table, np.asarray(self.record.counts)
        if not self.public_points:
            table = FittedTable(table.path, table.names, table.left_out, scaled=table.scaled)
        return FitRun(
            table, self.parameters, self.centers, counts, counts, record=self.record,
            command=self.command, medoids=self.medoids,
            notes=self.notes if self.public_points else (),
            medoid_ids=self.medoid_ids if self.public_points else (), errors=self.errors,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Labelled rows and centres for the scatter plot, in the same units."""

    X: Any  # an array or a sparse matrix
    labels: Array
    centers: Array
    weights: Array | None = None
    values: Any = None  # the same rows as they are in the table, if X is not
    edges: Array | None = None  # pairs of rows that a graph connects
    names: tuple[str, ...] = ()  # of the columns of X, if they are not the table's
    points: tuple[str, ...] = ()  # names of the rows, such as nodes of a graph
    sparse: bool = False  # X is dense, the rows are not


class ClusterTotals:
    """The sizes and weights of k clusters, and their cost, added up block by block."""

    def __init__(self, k: int) -> None:
        self.sizes, self.masses, self._exact_cost = np.zeros(k, np.int64), np.zeros(k), 0

    @property
    def k(self) -> int:
        return len(self.sizes)

    @property
    def cost(self) -> float:
        return to_float(self._exact_cost)

    def add(self, labels: Array, masses: Array, exact_cost: int = 0) -> None:
        """Add a block of rows. `masses`: see `cluster_masses`."""
        self.sizes += np.bincount(labels, minlength=self.k)
        self.masses += masses
        self._exact_cost += exact_cost


def cluster_masses(labels: Array, weights: Array | None, k: int) -> Array:
    """The weight of each cluster; the number of its rows if there are no weights."""
    return np.bincount(labels, weights, minlength=k).astype(np.float64)


def centers_table(run: FitRun) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows of centers.csv: label, size and centre of each cluster.

    No two columns have one name because of ours.
    """
    centers = [[name] for name in run.medoids] or run.centers.tolist()
    own, names = [LABEL, _count_key(run)], list(run.table.names)
    if run.has_columns and run.record.medoids is not None:  # others are named anyway
        own += [MEDOID]
        rows = run.medoid_ids or run.medoid_rows
        centers = [[name, *center] for name, center in zip(rows, centers, strict=True)]
    for name in own:
        names = [name_beside(other, names, name) for other in names]
    pairs = zip(run.known_sizes.tolist(), centers, strict=True)
    listed = [[label, size, *center] for label, (size, center) in enumerate(pairs)]
    return own + names, listed


def summary(run: FitRun) -> dict[str, Any]:
    """The content of summary.json. What is None, such as the cost of a private fit, is left out."""
    table, record = run.table, run.record
    data = {"path": str(table.path), "rows": table.rows, "columns": table.names}
    given = ("left_out", "weighted", "scaled", "streamed")
    data |= {name: getattr(table, name) for name in given}
    return _without_none({
        "kvariates": version("kvariates"),
        "command": run.command,
        "data": _without_none(data),
        "notes": [*record.notes, *run.notes],
        "parameters": dict(run.parameters),
        "inertia": run.inertia,
        "n_iter": run.n_iter,
        "seconds": None if run.seconds is None else round(run.seconds, 6),
        "certificate": None if record.certificate is None else str(record.certificate),
        "privacy": _privacy(run),
        "choice": _choice(run),
        "clusters": _clusters(run),
    })  # fmt: skip


def _without_none(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _count_key(run: FitRun) -> str:
    """The name of the sizes of clusters in files."""
    return run.counted.replace(" ", "_") if run.private else "rows"


def _clusters(run: FitRun) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for label, size in enumerate(run.known_sizes.tolist()):
        found.append({"label": label, _count_key(run): size})
        if run.private:
            errors = None if run.errors is None else run.errors[label]
            found[-1] |= {"may_be_only_noise": run.doubtful[label], "center_errors": errors}
        elif run.masses is not None:
            found[-1]["weight"] = run.masses[label]
    return found


def _choice(run: FitRun) -> dict[str, Any] | None:
    if (choice := run.choice) is None:
        return None
    return {
        "k": choice.k, "clear": choice.clear, "guess": choice.guess, "reason": choice.reason,
        "tried": choice.ks, "costs": choice.inertia, "silhouettes": choice.silhouette,
        "elbows": choice.elbow, "dividing": choice.dividing,
    }  # fmt: skip


def _privacy(run: FitRun) -> dict[str, Any] | None:
    if (ledger := run.record.ledger) is None:
        return None
    return {
        "adjacency": ledger.adjacency,
        "claim": ledger.claim._asdict(),
        "total": ledger.total()._asdict(),
        "condition": run.record.condition,
        "center_errors": run.about_errors,
    }
