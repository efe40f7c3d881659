"""What sets clusters apart: how far each centre is from the average, in words and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .colors import Array, Look
from .figures import mark
from .fit_run import FitRun, ShownRows
from .page import number, text

MOST_COLUMNS = 12  # in a table
MOST_LISTED = 300  # clusters in a table
MOST_WORDS = 3  # differences of a cluster in words
SMALLEST = 0.3  # a difference, in standard deviations, that is worth a word
FEW = 200  # rows, or centres, all of which count
STEPS = ((2.0, "far "), (1.0, ""), (0.0, "somewhat "))


ROWS = "the rows (the outermost 1 % clipped)"


@dataclass(frozen=True, eq=False)
class Contrast:
    """Differences of centres from the average, in standard deviations of each column."""

    average: Array  # in the units of the table
    difference: Array  # of shape (k, d)
    measured_by: str  # what the standard deviations are of

    def columns(self, most: int = MOST_COLUMNS) -> list[int]:
        """The columns in which centres differ most, in their own order."""
        range_ = np.ptp(self.difference, axis=0) if len(self.difference) else self.average
        return sorted(np.argsort(-range_, kind="stable")[:most].tolist())


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Mean and standard deviation of each column."""

    mean: Array
    deviation: Array


def contrast(run: FitRun, shown: ShownRows | None) -> Contrast | None:
    """How the centres differ from all rows, or, without rows, from the average of all centres.

    None if centres have no columns, as in a graph.
    """
    if not run.has_columns:
        return None
    of_centers = _moments(run.centers, run.shares)
    if shown is None or shown.centers.shape != run.centers.shape:
        found, centers, words = of_centers, run.centers, "the centres, weighted by their sizes"
    else:
        found, centers, words = _moments(shown.X, _weights(run, shown)), shown.centers, ROWS
    flat = found.deviation <= 1e-12 * np.abs(found.mean)
    difference = (centers - found.mean) / np.where(flat, 1.0, found.deviation)
    difference[:, flat] = 0.0
    same = shown is not None and same_units(run, shown)
    return Contrast(found.mean if same else of_centers.mean, difference, words)


def same_units(run: FitRun, shown: ShownRows) -> bool:
    """Whether the rows are in the units of the table."""
    return shown.centers.shape == run.centers.shape and np.allclose(shown.centers, run.centers)


def _weights(run: FitRun, shown: ShownRows) -> Array | None:
    """Synopses of a stream have weights."""
    weights = getattr(run.model, "synopsis_weights_", None) if run.table.streamed else None
    return weights if weights is not None and len(weights) == len(shown.labels) else None


def _moments(X: Any, weights: Array | None) -> ColumnMoments:
    if weights is not None and not weights.sum() > 0:
        weights = None
    if sparse.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        return ColumnMoments(mean, np.sqrt(np.maximum(square - mean**2, 0.0)))
    X = np.asarray(X, dtype=np.float64)
    if len(X) > FEW:  # a few far rows would hide all other differences
        X = np.clip(X, *np.quantile(X[:: max(1, len(X) // 20_000)], [0.005, 0.995], axis=0))
    unit = np.abs(X).max(axis=0)  # squares of very large numbers are infinite
    unit[unit == 0] = 1.0
    mean = np.average(X / unit, axis=0, weights=weights)
    squares = np.average((X / unit - mean) ** 2, axis=0, weights=weights)
    return ColumnMoments(unit * mean, unit * np.sqrt(squares))


def in_words(found: Contrast, center: Array, cluster: int, names: tuple[str, ...]) -> str:
    """The largest differences of a cluster, such as "income far above (52 against 31)"."""
    difference = found.difference[cluster]
    largest = np.argsort(-np.abs(difference), kind="stable")[:MOST_WORDS].tolist()
    words = [
        f"{names[j]} {_size(difference[j])} "
        f"({number(center[j], 3)} against {number(found.average[j], 3)})"
        for j in largest
        if abs(difference[j]) >= SMALLEST
    ]
    return "; ".join(words) or "close to the average in every column"


def _size(difference: float) -> str:
    how = next(word for least, word in STEPS if abs(difference) >= least)
    return f"{how}{'above' if difference > 0 else 'below'}"


def center_table(
    run: FitRun, found: Contrast | None, look: tuple[Look, ...], cities: tuple[str, ...] = ()
) -> str:
    """A row for each cluster: size, what sets it apart, and its centre in the data's units.

    `cities` are names of places near the centres of a map.
    """
    columns = [] if found is None else found.columns()
    medoids = _medoids(run)
    head = [run.counted, "share"]
    head += ["medoid"] if medoids else []
    head += ["near"] if cities else []
    cells = "".join(f'<th class="n">{text(name)}</th>' for name in head)
    cells += "" if found is None else "<th>what sets it apart</th>"
    cells += "".join(f'<th class="n">{text(run.table.names[j])}</th>' for j in columns)
    rows = []
    for i in largest_clusters(run) if run.k > MOST_LISTED else range(run.k):
        sizes = [number(run.counts[i]), f"{run.shares[i]:.1%}"]
        sizes += [medoids[i]] if medoids else []
        sizes += [cities[i]] if cities else []
        rows.append(
            f'<tr><td class="name">{mark(look[i])}<b>{i}</b></td>'
            + "".join(f'<td class="n">{text(word)}</td>' for word in sizes)
            + ("" if found is None else _difference_cells(run, found, i, columns))
            + "</tr>"
        )
    return (
        '<div class="scroll tall"><table><thead><tr><th class="name">cluster</th>'
        f"{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def largest_clusters(run: FitRun) -> list[int]:
    """The clusters that are listed, largest first: all, or as many as a reader can look at."""
    sizes = np.asarray(run.counts, dtype=np.float64)
    return [int(i) for i in np.argsort(-sizes, kind="stable")[:MOST_LISTED]]


def _medoids(run: FitRun) -> tuple[str, ...]:
    """The names of the medoids, or their rows; empty if the centres are means."""
    found = getattr(run.model, "medoid_indices_", ())
    return run.medoids or tuple(f"{run.unit[:-1]} {int(i) + 1:,}" for i in found)


def _difference_cells(run: FitRun, found: Contrast, cluster: int, columns: list[int]) -> str:
    words = in_words(found, run.centers[cluster], cluster, run.table.names)
    return f'<td class="apart">{text(words)}</td>' + "".join(
        _value(run.centers[cluster, j], found.difference[cluster, j]) for j in columns
    )


def _value(value: float, difference: float) -> str:
    step = int(np.searchsorted([0.5, 1.0, 2.0], abs(difference), side="right"))
    shade = f" {'z' if difference > 0 else 'y'}{step}" if step else ""
    tip = f"{abs(difference):.1f} standard deviations {'above' if difference > 0 else 'below'}"
    return f'<td class="n{shade}" data-tip="{tip} the average">{text(number(value))}</td>'
