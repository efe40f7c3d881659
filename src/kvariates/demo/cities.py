"""The world's cities in twelve regions, by spherical k-means: the regions, their names and a map.

A city is a unit vector, weighted by its population. A region is named after a large city near its
centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvariates.estimators.kmeans import KMeans
from kvariates.report.files import write_rows
from kvariates.report.map_places import known_cities

Array = npt.NDArray[Any]
REGIONS = 12


@dataclass(frozen=True, eq=False)
class Cities:
    """The bundled cities, largest first; `places` are unit vectors of shape (n, 3)."""

    names: list[str]
    people: Array
    places: Array


@dataclass(frozen=True)
class Region:
    """A cluster of cities; `city` is the row of the city that it is named after."""

    city: int
    name: str
    people: int
    share: float
    cities: int
    largest: tuple[str, ...]


def load_cities() -> Cities:
    """Read the cities that come with the package (GeoNames, CC BY 4.0)."""
    known = known_cities()
    x, y = np.radians(known.degrees).T
    places = np.column_stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)])
    return Cities(list(known.names), known.people, places)


def region_model() -> KMeans:
    """The estimator of the regions, not fitted."""
    return KMeans(n_clusters=REGIONS, metric="cosine", n_init=10, random_state=0)


def name_regions(cities: Cities, labels: Array, centers: Array) -> list[Region]:
    """Describe each cluster, in the order of the labels.

    Half of the people of a region live in the cities nearest to its centre. The largest of these
    cities gives the name.
    """
    return [_region(cities, np.flatnonzero(labels == j), c) for j, c in enumerate(centers)]


def _region(cities: Cities, rows: Array, center: Array) -> Region:
    by_distance = rows[np.argsort(-(cities.places[rows] @ center), kind="stable")]
    nearer = np.cumsum(cities.people[by_distance]) - cities.people[by_distance]
    near = by_distance[nearer < 0.5 * cities.people[rows].sum()]
    city = int(near[cities.people[near].argmax()])
    largest = tuple(cities.names[i] for i in rows[:3])  # rows are sorted by population
    people = int(cities.people[rows].sum())
    share = people / float(cities.people.sum())
    return Region(city, cities.names[city], people, share, len(rows), largest)


def write_regions(
    cities: Cities, regions: list[Region], labels: Array, centers: Array, folder: Path
) -> None:
    """Write regions.csv and picture.png into a directory."""
    from kvariates.report.worldmap import WorldMap, draw_map

    header = ["region", "people", "share", "cities", "largest"]
    rows = [(r.name, r.people, r.share, r.cities, "; ".join(r.largest)) for r in regions]
    write_rows(folder / "regions.csv", header, rows)
    shown = WorldMap(
        cities.places,
        labels,
        cities.people,
        centers,
        {r.city: f"{r.name}\n{r.people / 1e6:,.0f} M" for r in regions},
        title=f"{len(regions)} regions of the urban world",
        subtitle=f"{len(cities.names):,} cities, {cities.people.sum() / 1e9:.2f} billion people, "
        "clustered on the sphere · data: GeoNames, CC BY 4.0",
    )
    draw_map(shown, folder / "picture.png")
