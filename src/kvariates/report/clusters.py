"""What a page shows of the clusters: a scatter plot, and what sets each of them apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.palette import Array, Look, cut

from .figures import Scatter, mark, scatter
from .page import MINUS, counted, number, scrolled, short, text
from .plane import MOST_SHOWN, Plane, city_near, plane, shown_rows, some_rows
from .run import FitRun, ShownRows

MOST_TIP_VALUES = 8
MOST_NAMED = 25  # names at centres
NO_ROWS = np.empty(0, np.intp)
MOST_COLUMNS = 12  # in a table
MOST_LISTED = 300  # clusters in a table
WIDE = 8  # columns of a table that is printed in small letters
ONLY_NOISE = "not known: this centre may be only noise"
MOST_WORDS = 3  # differences of a cluster in words
SMALLEST = 0.3  # a difference, in standard deviations, that is worth a word
FEW = 200  # rows, or centres, all of which count
MOST_MEASURED = 20_000  # rows of which quantiles are taken
STEPS = ((2.0, "far "), (1.0, ""), (0.0, "somewhat "))
TAILS = (0.005, 0.995)  # quantiles between which columns are clipped
MOST_OF_A_COLUMN = (0.05, 0.95)  # quantiles; rare values are beyond them
RARE = 0.1  # of the deviation: clipping that leaves less may have cut rare values off


@dataclass(frozen=True, eq=False)
class View:
    """The rows that are shown, as indices, in two dimensions.

    `cities` are names of places near the centres of a map; empty if it is none, or if few differ.
    """

    shown: ShownRows | None
    rows: Array
    flat: Plane
    cities: tuple[str, ...] = ()


def view_of(run: FitRun, shown: ShownRows | None) -> View | None:
    """Rows and centres, or centres alone; None if neither have coordinates."""
    if shown is not None:
        reached = np.flatnonzero(shown.labels >= 0)  # some nodes of a graph are not
        rows = reached[shown_rows(shown.labels[reached], run.k)]
        X = shown.X.tocsr() if sparse.issparse(shown.X) else np.asarray(shown.X)
        flat = plane(X[rows], shown.centers, _names(run, X.shape[1], shown))
    elif run.has_columns:
        rows, flat = NO_ROWS, plane(None, run.centers, run.table.names)
    else:
        return None
    return View(shown, rows, flat, _cities(run, flat))


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
    values, columns = _tip_values(run, view, found)
    names = tuple(shown.points[i] for i in view.rows) if shown and shown.points else ()
    aspect = flat.aspect
    if aspect is None and shown is not None and shown.edges is not None:
        (x0, x1), (y0, y1) = flat.limits  # both coordinates have the same scale
        aspect = min(max((x1 - x0) / (y1 - y0), 0.6), 2.4)
    plot = Scatter(
        flat.points, NO_ROWS if shown is None else shown.labels[view.rows],
        flat.centers, flat.axes, flat.limits,
        sizes=amounts_in_words(run),
        measured_in=run.measured_in,
        shares=None if run.sizes is None else run.shares,
        values=values,
        columns=columns,
        rows=run.table.in_file(view.rows) if in_file and not names else None,
        titles=names,
        edges=_edges(run, view),
        land=flat.land,
        regions=_has_regions(run, view),
        degrees=flat.degrees,
        words=(run.medoids or run.medoid_ids or view.cities) if run.k <= MOST_NAMED else (),
        aspect=aspect,
        caption=" ".join(_caption(run, view)),
    )  # fmt: skip
    return scatter(plot)


def _caption(run: FitRun, view: View) -> list[str]:
    flat = view.flat
    words = [*([flat.how] if flat.how else []), *_about_rows(run, view)]
    for places, what in ((flat.points, "points"), (flat.centers, "centres")):
        n = int(flat.outside(places).sum())
        verb, arrows = ("is", "an arrow") if n == 1 else ("are", "arrows")
        line = f"{counted(n, what)} {verb} far outside the frame, shown as {arrows} at its border."
        words += [line] if n else []
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


def _about_rows(run: FitRun, view: View) -> list[str]:
    """Which rows are drawn, or why none are."""
    if view.shown is None:
        words = "Only the centres are drawn."
        if run.private:
            words = (
                "Only released values are drawn: the noisy centres, and circles whose areas are in "
                "proportion to the noisy counts. There are no rows in this page."
            )
        elif run.sizes is not None:
            words = "The areas of the circles are in proportion to the sizes of the clusters."
        return [words]
    n, said = len(view.shown.labels), []
    if n > MOST_SHOWN:
        said.append(
            f"{len(view.rows):,} of {n:,} points are shown, drawn at random from each cluster."
        )
    if run.public_points:
        said.append("The points are public; of the demand, only what was released is drawn.")
    if run.table.streamed:
        said.append("The points are weighted synopses of the stream, not rows.")
    return said


def _tip_values(
    run: FitRun, view: View, found: Contrast | None
) -> tuple[Array | None, tuple[str, ...]]:
    """What tips show of each row, in the units of the table, and the names of these columns."""
    shown = view.shown
    if shown is None or found is None:
        return None, ()
    X: Any = shown.X if shown.values is None and same_units(run, shown) else shown.values
    if X is None or sparse.issparse(X):
        return None, ()
    columns = found.columns(MOST_TIP_VALUES)
    return np.asarray(X)[view.rows][:, columns], tuple(cut(run.table.names[j]) for j in columns)


def _edges(run: FitRun, view: View) -> Array | None:
    """The edges of a graph as lines between coordinates; None if the nodes are not on a map."""
    shown = view.shown
    if shown is None or shown.edges is None or not (view.flat.own or view.flat.degrees):
        return None
    places: Array = np.asarray(shown.X, dtype=np.float64)
    if view.flat.degrees:
        places = plane(shown.X, shown.centers, _names(run, places.shape[1], shown)).points
    return np.asarray(places[np.asarray(shown.edges)].reshape(-1, 4))


def _has_regions(run: FitRun, view: View) -> bool:
    """Whether the nearest centre in this plane is the cluster of a place."""
    edges = view.shown is not None and view.shown.edges is not None
    given = run.parameters.get
    other = any(given(name) is not None for name in ("size_min", "size_max", "distortion"))
    other = other or given("metric", "euclidean") != "euclidean"
    return view.flat.own and not (other or edges or run.table.scaled or run.table.steps)


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


def contrast(run: FitRun, shown: ShownRows | None) -> Contrast | None:
    """How the centres differ from all rows, or, without rows, from the average of all centres.

    None if centres have no columns, as in a graph.
    """
    if not run.has_columns:
        return None
    if shown is None or shown.centers.shape != run.centers.shape:
        average = _mean(run.centers, run.shares)
        difference = _differences(run.centers, average, _deviation(run.centers, run.shares))
        return Contrast(average, difference, "the centres, weighted by their sizes")
    average = mean = _average(run, shown, shown.X, shown.centers)
    if not same_units(run, shown):
        average = _average(run, shown, shown.values, run.centers)
    deviation, clipping = _robust_deviation(shown)
    difference = _differences(shown.centers, mean, deviation)
    what = "the synopses" if run.table.streamed else "the rows"
    return Contrast(average, difference, what + clipping)


def same_units(run: FitRun, shown: ShownRows) -> bool:
    """Whether the rows are in the units of the table."""
    return shown.centers.shape == run.centers.shape and np.allclose(shown.centers, run.centers)


def _differences(centers: Array, mean: Array, deviation: Array) -> Array:
    """In standard deviations; 0 in columns without any."""
    flat = deviation <= 1e-12 * np.abs(mean)
    difference: Array = (centers - mean) / np.where(flat, 1.0, deviation)
    difference[:, flat] = 0.0
    return difference


def _average(run: FitRun, shown: ShownRows, rows: Any, centers: Array) -> Array:
    """The mean of all rows; if not all are there, of the centres, weighted by the clusters."""
    if rows is None or run.table.streamed or len(shown.labels) != run.table.rows:
        return _mean(centers, run.shares)
    return _mean(rows, shown.weights)


def _mean(X: Any, weights: Array | None) -> Array:
    weights = np.ones(X.shape[0]) if weights is None or not weights.sum() > 0 else weights
    return np.asarray((weights / weights.sum()) @ X)  # sums of very large numbers are infinite


def _robust_deviation(shown: ShownRows) -> tuple[Array, str]:
    """The standard deviation of each column, and what is said about its clipping.

    Columns of many dense rows are clipped: a few far rows would hide all differences. Not a column
    with rare values, such as a flag that few rows have: they are all that differs.
    """
    X, weights = shown.X, shown.weights
    whole = _deviation(X, weights)
    if shown.sparse or sparse.issparse(X) or len(X) <= FEW:
        return whole, ""
    X = np.asarray(X, dtype=np.float64)
    some = some_rows(X, MOST_MEASURED)
    clipped = _deviation(np.clip(X, *np.quantile(some, TAILS, axis=0)), weights)
    low, high = np.quantile(some, MOST_OF_A_COLUMN, axis=0)
    rare = (low == high) & (clipped < RARE * whole)
    but = ", but for columns with rare values" * bool(rare.any())
    words = "" if rare.all() else f" (the outermost 1 % clipped{but})"
    return np.where(rare, whole, clipped), words


def _deviation(X: Any, weights: Array | None) -> Array:
    """The standard deviation of each column."""
    if not sparse.issparse(X):
        X = np.asarray(X, dtype=np.float64)
        X = X - _mean(X, weights)
        unit = np.abs(X).max(axis=0)  # squares of very large numbers are infinite
        X /= np.where(unit > 0, unit, 1.0)
        return np.asarray(unit * np.sqrt(_mean(X**2, weights)))
    squares = _mean(X.multiply(X).tocsr(), weights) - _mean(X, weights) ** 2
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def in_words(found: Contrast, center: Array, cluster: int, names: tuple[str, ...]) -> str:
    """The largest differences of a cluster, such as "income far above (52 against 31)"."""
    difference = found.difference[cluster]
    largest = np.argsort(-np.abs(difference), kind="stable")[:MOST_WORDS].tolist()
    words = []
    for j in largest:
        if abs(difference[j]) >= SMALLEST:
            far = next(word for least, word in STEPS if abs(difference[j]) >= least)
            how = f"{far}{'above' if difference[j] > 0 else 'below'}"
            words.append(f"{cut(names[j])} {how} ({_pair(center[j], found.average[j])})")
    return "; ".join(words) or "close to the average in every column"


def _pair(value: float, average: float) -> str:
    """Both numbers, with digits enough to tell them apart."""
    for digits in range(3, 13):
        words = number(value, digits), number(average, digits)
        if words[0] != words[1]:
            break
    return f"{words[0]} against {words[1]}"


def center_table(
    run: FitRun, found: Contrast | None, look: tuple[Look, ...], cities: tuple[str, ...] = ()
) -> str:
    """A row for each cluster: size, what sets it apart, and its centre in the data's units.

    `cities` are names of places near the centres of a map.
    """
    columns = [] if found is None else found.columns()
    facts = _cluster_facts(run, cities)
    cells = "".join(f'<th scope="col" class="n">{text(name)}</th>' for name in facts)
    cells += "" if found is None else '<th scope="col" class="apart">what sets it apart</th>'
    cells += "".join(f'<th scope="col" class="n">{short(run.table.names[j])}</th>' for j in columns)
    rows = [
        f'<tr><td class="name">{mark(look[i])}<b>{i}</b></td>'
        + "".join(f'<td class="n">{short(words[i])}</td>' for words in facts.values())
        + ("" if found is None else _difference_cells(run, found, i, columns))
        + "</tr>"
        for i in listed_clusters(run)
    ]
    wide = ' class="wide"' * (len(facts) + len(columns) > WIDE)
    whole = (
        f'<table{wide}><thead><tr><th scope="col" class="name">cluster</th>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    return scrolled(whole, "Table of the clusters and their centres", "tall")


def _cluster_facts(run: FitRun, cities: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Columns of a table: a name, and a text for each cluster."""
    facts: dict[str, tuple[str, ...]] = {}
    if run.sizes is not None:
        facts[run.measured_in] = amounts_in_words(run)
        facts["share"] = tuple(f"{share:.1%}" for share in run.shares)
    if run.sizes is not None and run.measured_in == "weight":
        facts[run.unit] = tuple(number(size) for size in run.sizes)
    if medoids := run.medoid_names:
        facts["medoid"] = medoids
    if run.doubtful.any() and not run.has_columns:  # otherwise it is said in place of differences
        facts["noise"] = tuple("maybe only noise" if each else "" for each in run.doubtful)
    return facts | ({"near": cities} if cities else {})


def amounts_in_words(run: FitRun) -> tuple[str, ...]:
    """The size of each cluster; noisy counts are rounded to whole numbers."""
    if run.amounts is None:
        return ()
    if run.private:
        return tuple(f"{round(float(v)):,}".replace("-", MINUS) for v in run.amounts)
    return tuple(number(v) for v in run.amounts)


def listed_clusters(run: FitRun) -> list[int]:
    """The clusters of a table: all in their order, or the largest ones."""
    return largest_clusters(run) if run.k > MOST_LISTED else list(range(run.k))


def largest_clusters(run: FitRun) -> list[int]:
    """The clusters that are listed, largest first: all, or as many as a reader can look at."""
    sizes = np.zeros(run.k) if run.amounts is None else np.asarray(run.amounts, dtype=np.float64)
    return [int(i) for i in np.argsort(-sizes, kind="stable")[:MOST_LISTED]]


def _difference_cells(run: FitRun, found: Contrast, cluster: int, columns: list[int]) -> str:
    center = run.centers[cluster]
    errors = np.full(len(center), np.nan) if run.errors is None else run.errors[cluster]
    # A difference that noise alone could make is none; NaN: nothing is known about the noise.
    noise = (np.abs(center - found.average) <= errors) | run.doubtful[cluster]
    difference = np.where(noise, 0.0, found.difference[cluster])
    words = in_words(replace(found, difference=difference[None]), center, 0, run.table.names)
    words = ONLY_NOISE if run.doubtful[cluster] else words
    return f'<td class="apart">{text(words)}</td>' + "".join(
        _value(center[j], errors[j], difference[j]) for j in columns
    )


def _value(value: float, error: float, difference: float) -> str:
    words = number(value) + ("" if np.isnan(error) else f" ± {number(error, 2)}")
    if not difference:
        return f'<td class="n">{text(words)}</td>'
    step = int(np.searchsorted([0.5, 1.0, 2.0], abs(difference), side="right"))
    shade = f" {'z' if difference > 0 else 'y'}{step}" if step else ""
    tip = f"{abs(difference):.1f} standard deviations {'above' if difference > 0 else 'below'}"
    return f'<td class="n{shade}" data-tip="{tip} the average">{text(words)}</td>'
