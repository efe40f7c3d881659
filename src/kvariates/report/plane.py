"""Rows in two dimensions: their own coordinates, a map, or principal directions.

One far row must not shrink the rest to a dot. So directions are computed from clipped columns, and
the frame is set by quantiles.
"""

from __future__ import annotations

import csv
import gzip
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.palette import Array

Limits = tuple[tuple[float, float], tuple[float, float]]
LATITUDE = re.compile(r"(?i)^(.*[\W_])?(lat|latitude|breite|breitengrad)([\W_].*)?$")
LONGITUDE = re.compile(r"(?i)^(.*[\W_])?(lon|lng|long|longitude|länge|längengrad)([\W_].*)?$")
EARTH = 6371.0088  # km: the mean radius, which is the length of a radian on the globe
MOST_SHOWN = 20_000
MOST_FOR_DIRECTIONS = 4000  # rows; enough for two directions of a picture
ALONE = 0.22  # of the range: the margin around centres without points
WIDE = 12.0  # degrees: a smaller map has no land in its background
NEAR, FAR = 250.0, 1500.0  # km: the largest city within the first, the nearest within the second


@dataclass(frozen=True, eq=False)
class Plane:
    """Points and centres in two dimensions, the names of the axes, and the frame."""

    points: Array
    centers: Array
    axes: tuple[str, str]
    limits: Limits
    how: str  # how the rows came into the plane, in words
    degrees: bool = False
    aspect: float | None = None
    own: bool = False  # the rows' own two coordinates
    land: Array = field(default_factory=lambda: np.empty((0, 2)))

    def outside(self, places: Array) -> Array:
        """Which of these points or centres are not in the frame."""
        low, high = np.array(self.limits).T
        return np.asarray(((places < low) | (places > high)).any(axis=1))


def plane(X: Any, centers: Array, names: tuple[str, ...]) -> Plane:
    """Rows (dense or sparse) and centres in two dimensions.

    Without rows, the plane is that of the centres.
    """
    whole = np.asarray(centers, dtype=np.float64)
    if (columns := coordinates(X, whole, names)) is not None:
        return _map(X, whole, columns)
    if whole.shape[1] == 1:
        return _one_column(_dense(X), whole, names[0])
    if whole.shape[1] == 2:
        rows = _dense(X)
        return Plane(rows, whole, (names[0], names[1]), robust_limits(rows, whole), "", own=True)
    return _principal(X, whole)


def shown_rows(labels: Array, k: int, most: int = MOST_SHOWN) -> Array:
    """The rows that are shown, sorted: all, or `most` at random, from each cluster in proportion.

    Each cluster keeps up to 25 rows, so that small ones can be seen, unless there are more clusters
    than rows that are shown.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    sizes = np.bincount(labels, minlength=k)
    least = np.minimum(sizes, min(25, max(1, most // (2 * k))))
    if least.sum() >= most:
        return np.sort(some_rows(np.arange(len(labels)), most))
    quota = least + np.floor((sizes - least) * (most - least.sum()) / (sizes - least).sum())
    order = np.random.default_rng(0).permutation(len(labels))
    by_cluster = order[np.argsort(labels[order], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(by_cluster[place < np.repeat(quota, sizes)])


def some_rows(rows: Array, most: int) -> Array:
    """All rows, or `most` of them at random: the first ones of a sorted table are not typical."""
    if len(rows) <= most:
        return rows
    return rows[np.random.default_rng(0).choice(len(rows), most, replace=False)]


def robust_limits(points: Array, centers: Array, *, margin: float = 0.05) -> Limits:
    """A frame around the points, without the few that are very far from the rest.

    On each axis, values beyond the middle 98 % by more than its range are outside. (Of few values:
    beyond the quartiles by more than twice their range.) Without points, all centres are inside,
    with a wider margin, since their marks are large.
    """
    found, alone = [], not len(points)
    margin = ALONE if alone else margin
    for values in np.asarray(centers if alone else points, dtype=np.float64).T:
        few = len(values) <= 20
        low, high = np.quantile(values, [0.25, 0.75]) if few else _middle(values)
        reach = np.inf if alone else (high - low) * (2.0 if few else 1.0)
        inside = values[(values >= low - reach) & (values <= high + reach)]
        low, high = float(inside.min()), float(inside.max())
        pad = margin * (high - low) or max(abs(high), 1.0) * margin
        found.append((low - pad, high + pad))
    return found[0], found[1]


def _middle(values: Array) -> Array:
    """The ends of the middle 98 % of each column, never its lowest and its highest value."""
    low = np.quantile(values, 0.01, axis=0, method="higher")
    return np.stack([low, np.quantile(values, 0.99, axis=0, method="lower")])


def coordinates(X: Any, centers: Array, names: tuple[str, ...]) -> tuple[int, int] | None:
    """The columns that look like degrees of latitude and longitude; None if none do."""
    lat = [j for j, name in enumerate(names) if LATITUDE.match(name)]
    lon = [j for j, name in enumerate(names) if LONGITUDE.match(name)]
    if len(lat) != 1 or len(lon) != 1 or lat == lon:
        return None
    rows = centers if X is None or not X.shape[0] else X
    if sparse.issparse(rows):
        return None
    for j, most in ((lat[0], 90.0), (lon[0], 360.0)):
        if not (np.abs(rows[:, j]) <= most).all() or not (np.abs(rows[:, j]) > 0).any():
            return None
    return lat[0], lon[0]


def _map(X: Any, centers: Array, columns: tuple[int, int]) -> Plane:
    pick = columns[::-1]
    points = np.empty((0, 2)) if X is None else _dense(X)[:, pick]
    middle = centers[:, pick]
    if len(points):
        (x0, x1), (y0, y1) = robust_limits(points, middle)
    else:  # a frame around centres alone, wider than their own range
        low, high = middle.min(axis=0), middle.max(axis=0)
        pad = np.maximum(0.35 * (high - low), 2.0)
        (x0, y0), (x1, y1) = (low - pad).tolist(), (high + pad).tolist()
    west = max(points[:, 0].max(initial=0.0), middle[:, 0].max()) <= 180  # not 0 to 360 degrees
    x0, x1 = (max(x0, -180.0), min(x1, 180.0)) if west else (x0, x1)
    y0, y1 = max(y0, -90.0), min(y1, 90.0)
    narrowing = max(float(np.cos(np.radians((y0 + y1) / 2))), 0.2)
    wide = max(x1 - x0, (y1 - y0) / narrowing)
    aspect = float(np.clip((x1 - x0) * narrowing / (y1 - y0), 0.6, 2.6))
    (x0, x1), (y0, y1) = _filled((x0, x1), (y0, y1), narrowing / aspect)
    limits = ((x0, x1), (y0, y1))
    land = land_cells(1 if wide > 60 else 4) if wide > WIDE and west else np.empty((0, 2))
    inside = (land >= (x0, y0)).all(axis=1) & (land <= (x1, y1)).all(axis=1)
    own = centers.shape[1] == 2
    words = "A map of the columns that look like longitude and latitude."
    axes = ("longitude", "latitude")
    return Plane(points, middle, axes, limits, words, True, aspect, own, land[inside])


def _filled(x: tuple[float, float], y: tuple[float, float], ratio: float) -> Limits:
    """Widen one of two ranges until y is `ratio` times x."""
    if (y[1] - y[0]) < ratio * (x[1] - x[0]):
        middle, half = (y[0] + y[1]) / 2, ratio * (x[1] - x[0]) / 2
        return x, (middle - half, middle + half)
    middle, half = (x[0] + x[1]) / 2, (y[1] - y[0]) / ratio / 2
    return (middle - half, middle + half), y


def _one_column(X: Array, centers: Array, name: str) -> Plane:
    """There is no second column: random heights keep the points apart."""
    heights = np.random.default_rng(0).uniform(-1, 1, len(X))
    points = np.column_stack([X[:, 0], heights]) if len(X) else np.empty((0, 2))
    middle = np.column_stack([centers[:, 0], np.zeros(len(centers))])
    x, _ = robust_limits(points, middle)
    how = "There is one column; heights are random, to keep the points apart."
    return Plane(points, middle, (name, ""), (x, (-1.3, 1.3)), how)


def _principal(X: Any, centers: Array) -> Plane:
    """Projects on the two directions in which the clipped rows (or the centres) differ most."""
    rows = centers if X is None or sparse.issparse(X) else _dense(X)
    rows = some_rows(rows, MOST_FOR_DIRECTIONS)
    clipped = np.clip(rows, *_middle(rows)) if len(rows) > 50 else rows
    mean = clipped.mean(axis=0, dtype=np.float64)
    directions, variances = _directions(clipped - mean)
    directions = np.vstack([directions, np.zeros((2, centers.shape[1]))])[:2]
    signs = np.where(directions.sum(axis=1) < 0, -1.0, 1.0)  # the same picture on every machine
    flat = (directions * signs[:, None]).T
    points = np.empty((0, 2)) if X is None else np.asarray(X @ flat) - mean @ flat
    middle = (centers - mean) @ flat
    part = float(variances[:2].sum()) / max(float(variances.sum()), np.finfo(float).tiny)
    what = "centres" if X is None or sparse.issparse(X) else "rows"
    how = (
        f"The two directions in which the {what} differ most (principal components), with "
        f"{_per_cent(part)} of the variance."
    )
    axes = ("principal direction 1", "principal direction 2")
    return Plane(points, middle, axes, robust_limits(points, middle), how)


def _per_cent(part: float) -> str:
    """A part from 0 to 1; 0% and 100% only if it is nothing or all, up to rounding errors."""
    if 0.995 <= part < 1 - 1e-9:
        return "more than 99%"
    return "less than 1%" if 1e-9 < part < 0.005 else f"{part:.0%}"


def _directions(rows: Array) -> tuple[Array, Array]:
    """Principal directions of rows around zero, and the variance along each, largest first."""
    rows = rows / (np.abs(rows).max(initial=0.0) or 1.0)  # squares stay finite
    if rows.shape[1] <= len(rows):
        variances, columns = np.linalg.eigh(rows.T @ rows)
        return columns.T[::-1], np.maximum(variances[::-1], 0.0)
    _, spread, directions = np.linalg.svd(some_rows(rows, 1000), full_matrices=False)
    return directions, spread**2


def _dense(X: Any) -> Array:
    if X is None:
        return np.empty((0, 2))
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


@dataclass(frozen=True, eq=False)
class KnownCities:
    """The bundled cities, largest first; `degrees` are longitudes and latitudes."""

    names: tuple[str, ...]
    degrees: Array
    people: Array


@cache
def known_cities() -> KnownCities:
    """Read the cities that come with the package."""
    path = Path(__file__).parents[1] / "datasets" / "cities.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    names, _, lat, lon, people = zip(*rows, strict=True)
    degrees = np.array([lon, lat], dtype=np.float64).T
    return KnownCities(names, degrees, np.array(people, dtype=np.float64))


@cache
def land_cells(cells: int) -> Array:
    """Longitudes and latitudes of cells with a city, so many cells a degree."""
    degrees = known_cities().degrees
    return (np.unique(np.floor(cells * degrees), axis=0) + 0.5) / cells


def city_near(places: Array, *, nearest: bool = False) -> tuple[str, ...]:
    """For each longitude and latitude, a large city near it, or the nearest; "" if none is near."""
    cities = known_cities()
    x, y = np.radians(cities.degrees).T
    found = []
    for lon, lat in np.radians(np.asarray(places, dtype=np.float64)):
        cosine = np.sin(lat) * np.sin(y) + np.cos(lat) * np.cos(y) * np.cos(x - lon)
        distance = EARTH * np.arccos(np.clip(cosine, -1, 1))
        close = np.flatnonzero(distance <= (-1.0 if nearest else NEAR))
        city = int(close[0]) if len(close) else int(distance.argmin())
        found.append(cities.names[city] if distance[city] <= FAR else "")
    return tuple(found)
