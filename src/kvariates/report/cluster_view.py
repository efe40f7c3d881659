"""The scatter plot of a fit: which rows are shown, where, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kvariates.palette import Array, cut

from .cluster_words import Contrast, amounts_in_words, listed_clusters, same_units
from .page import counted
from .plane import MOST_SHOWN, Plane, city_near, plane, shown_rows
from .run import FitRun, ShownRows
from .scatter_figure import Scatter, scatter

MOST_TIP_VALUES = 8
MOST_WORDS = 25  # names at centres
NO_ROWS = np.empty(0, np.intp)


@dataclass(frozen=True, eq=False)
class View:
    """The rows that are shown, as indices, in two dimensions.

    `cities` are names of places near the centres of a map; empty if it is none, or if few differ.
    """

    shown: ShownRows | None
    rows: Array
    flat: Plane
    cities: tuple[str, ...] = ()

    @property
    def labels(self) -> Array:
        labels: Array = NO_ROWS if self.shown is None else self.shown.labels[self.rows]
        return labels


class TipValues(NamedTuple):
    """What tips show of each row: columns in the units of the table."""

    values: Array | None
    columns: tuple[str, ...]


def view_of(run: FitRun, shown: ShownRows | None) -> View | None:
    """Rows and centres, or centres alone; None if neither have coordinates."""
    if shown is not None:
        reached = np.flatnonzero(shown.labels >= 0)  # some nodes of a graph are not
        rows = reached[shown_rows(shown.labels[reached], run.k)]
        X = shown.X.tocsr() if sparse.issparse(shown.X) else np.asarray(shown.X)
        flat = plane(X[rows], shown.centers, _names(run, X.shape[1], shown))
        return View(shown, rows, flat, _cities(run, flat))
    if not run.has_columns:
        return None
    flat = plane(None, run.centers, run.table.names)
    return View(None, NO_ROWS, flat, _cities(run, flat))


def _names(run: FitRun, d: int, shown: ShownRows) -> tuple[str, ...]:
    """The names of the d columns that are drawn; x0, x1, ... if they have none."""
    names = shown.names or run.table.names
    return names if len(names) == d else tuple(f"x{j}" for j in range(d))


def _cities(run: FitRun, flat: Plane) -> tuple[str, ...]:
    """Names of cities near the centres of clusters that are listed; "" for others and for noise."""
    if not flat.degrees or run.medoids or run.medoid_ids:  # medoids have names of their own
        return ()
    listed = listed_clusters(run)
    names = city_near(flat.centers[listed], nearest=run.record.medoids is not None)
    if not any(names) or 2 * len(set(names)) <= len(names):
        return ()
    near = dict(zip(listed, names, strict=True))
    return tuple("" if run.doubtful[i] else near.get(i, "") for i in range(run.k))


def drawn(run: FitRun, view: View, found: Contrast | None) -> str:
    """The scatter plot as HTML."""
    flat, shown = view.flat, view.shown
    in_file = shown is not None and not run.table.streamed and len(shown.labels) == run.table.rows
    tips = _tip_values(run, view, found)
    names = tuple(shown.points[i] for i in view.rows) if shown and shown.points else ()
    plot = Scatter(
        flat.points, view.labels, flat.centers, flat.axes, flat.limits,
        sizes=amounts_in_words(run),
        measured_in=run.measured_in,
        shares=None if run.sizes is None else run.shares,
        values=tips.values,
        columns=tips.columns,
        rows=run.table.in_file(view.rows) if in_file and not names else None,
        titles=names,
        edges=_edges(run, view),
        land=flat.land,
        regions=_has_regions(run, view),
        degrees=flat.degrees,
        words=(run.medoids or run.medoid_ids or view.cities) if run.k <= MOST_WORDS else (),
        aspect=flat.aspect if shown is None or shown.edges is None else _equal_units(flat),
        caption=" ".join(_caption(run, view)),
    )  # fmt: skip
    return scatter(plot)


def _caption(run: FitRun, view: View) -> list[str]:
    flat = view.flat
    words = [flat.how] if flat.how else []
    words += [_about_centers(run)] if view.shown is None else _about_points(run, view, view.shown)
    words += _outside(flat)
    words.append(
        "Numbers mark centres. Click a cluster in the legend to hide or show it; shift-click shows "
        "it alone."
    )
    dots, names = len(flat.land) > 0, len(view.cities) > 0
    if dots or names:
        what = "Grey dots" * dots + ", and " * (dots and names)
        what += ("names near the centres" if dots else "Names near the centres") * names
        words.append(f"{what}: cities (GeoNames, CC BY 4.0).")
    return words


def _about_centers(run: FitRun) -> str:
    if run.private:
        return (
            "Only released values are drawn: the noisy centres, and circles whose areas are in "
            "proportion to the noisy counts. There are no rows in this page."
        )
    if run.sizes is None:
        return "Only the centres are drawn."
    return "The areas of the circles are in proportion to the sizes of the clusters."


def _about_points(run: FitRun, view: View, shown: ShownRows) -> list[str]:
    n, words = len(shown.labels), []
    if n > MOST_SHOWN:
        words.append(
            f"{len(view.rows):,} of {n:,} points are shown, drawn at random from each cluster."
        )
    if run.public_points:
        words.append("The points are public; of the demand, only what was released is drawn.")
    if run.table.streamed:
        words.append("The points are weighted synopses of the stream, not rows.")
    return words


def _outside(flat: Plane) -> list[str]:
    """What is said about points and centres outside the frame."""
    words = []
    for n, what in ((flat.n_outside, "points"), (flat.n_centers_outside, "centres")):
        verb, arrows = ("is", "an arrow") if n == 1 else ("are", "arrows")
        line = f"{counted(n, what)} {verb} far outside the frame, shown as {arrows} at its border."
        words += [line] if n else []
    return words


def _tip_values(run: FitRun, view: View, found: Contrast | None) -> TipValues:
    shown = view.shown
    if shown is None or found is None:
        return TipValues(None, ())
    X: Any = shown.values
    if X is None and same_units(run, shown):
        X = shown.X
    if X is None or sparse.issparse(X):
        return TipValues(None, ())
    columns = found.columns(MOST_TIP_VALUES)
    values: Array = np.asarray(X)[view.rows][:, columns]
    return TipValues(values, tuple(cut(run.table.names[j]) for j in columns))


def _edges(run: FitRun, view: View) -> Array | None:
    """The edges of a graph as lines between coordinates; None if the nodes are not on a map."""
    shown = view.shown
    if shown is None or shown.edges is None or not (view.flat.own or view.flat.degrees):
        return None
    places: Array = np.asarray(shown.X, dtype=np.float64)
    if view.flat.degrees:
        places = plane(shown.X, shown.centers, _names(run, places.shape[1], shown)).points
    ends: Array = places[np.asarray(shown.edges)].reshape(-1, 4)
    return ends


def _equal_units(flat: Plane) -> float:
    """Width by height of a frame in which both coordinates have the same scale."""
    (x0, x1), (y0, y1) = flat.limits
    return flat.aspect or min(max((x1 - x0) / (y1 - y0), 0.6), 2.4)


def _has_regions(run: FitRun, view: View) -> bool:
    """Whether the nearest centre in this plane is the cluster of a place."""
    edges = view.shown is not None and view.shown.edges is not None
    given = run.parameters.get
    other = any(given(name) is not None for name in ("size_min", "size_max", "distortion"))
    plain = (
        given("metric", "euclidean") == "euclidean" and not run.table.scaled and not run.table.steps
    )
    return view.flat.own and plain and not other and not edges
