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
from kvariates.report.figures import Fact, facts, picture
from kvariates.report.page import Section, paragraph, preformatted, promise_box, table
from kvariates.report.plane import known_cities
from kvariates.report.result_files import write_rows

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
    from kvariates.report.maps import WorldMap, draw_map

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


@dataclass(frozen=True, eq=False)
class CityClusters:
    """The regions without privacy: the data, the fitted model, and the map as PNG."""

    cities: Cities
    model: KMeans
    regions: list[Region]
    seconds: float
    picture: bytes


def cities_section(found: CityClusters) -> Section:
    """The map and the regions."""
    people = float(found.cities.people.sum())
    rows = sorted(found.regions, key=lambda region: -region.people)
    listed = table(
        ("region", "people", "share", "cities", "largest cities"),
        (
            (r.name, f"{r.people / 1e6:,.0f} M", f"{r.share:.1%}", f"{r.cities:,}",
             ", ".join(r.largest))
            for r in rows
        ),
    )  # fmt: skip
    k, starts = len(found.regions), found.model.n_init
    words = (
        f"Each city is a point on the globe, weighted by its people. Spherical k-means looks for "
        f"{k} centres such that the sum of 1 - cos of the angles between people and their nearest "
        f"centres is small. The best of {starts} starts is kept; the same seed gives the same "
        "regions on any number of threads."
    )
    guarantee = found.model.guarantee_
    lost = found.model.guarantee_lost_
    promise = f"Guarantee: {guarantee}" if guarantee is not None else f"No guarantee: {lost}"
    caption = "Data: GeoNames, CC BY 4.0. A cross is a centre; tints show the nearest centre."
    html = (
        facts([
            Fact("cities", f"{len(found.cities.names):,}"),
            Fact("people in them", f"{people / 1e9:.2f} billion"),
            Fact("regions", f"{k}"),
            Fact(f"the fit, {starts} starts", f"{found.seconds:.2f} s"),
        ])
        + paragraph(words)
        + picture(found.picture, "image/png", f"Map of {k} regions of the urban world", caption)
        + listed
        + promise_box(promise)
        + preformatted(
            f'KMeans({k}, metric="cosine", n_init={starts}, random_state=0)'
            ".fit(places, sample_weight=people)"
        )
    )  # fmt: skip
    return Section("cities", "The world's cities, without privacy", html)
