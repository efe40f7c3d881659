"""What a map shows of the world: cells with a city, and a large city near a place (GeoNames)."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from .colors import Array
from .cost_words import EARTH

NEAR, FAR = 250.0, 1500.0  # km: the largest city within the first, the nearest within the second


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
