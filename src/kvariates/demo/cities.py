"""The world's cities in twelve regions, by spherical k-means: the regions, their names and a map.

A city is a unit vector, weighted by its population. A region is named after a large city near its
centre.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.file_writing import write_rows
from kvariates.palette import Array
from kvariates.privacy.ledger import ledger_page
from kvariates.privacy.price import Price, price
from kvariates.report.figures import Line, facts, lines, picture
from kvariates.report.page import Section, paragraph, preformatted, promise_box, table, text
from kvariates.report.plane import known_cities
from kvariates.report.sections import spending, times_as_likely

REGIONS = 12
EPSILONS = (0.01, 0.1, 1.0)
DELTA = 1e-6  # far below one over the number of cities
RUNS = 10


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


def name_regions(cities: Cities, labels: Array, centers: Array) -> list[Region]:
    """Describe each cluster, in the order of the labels.

    Half of the people of a region live in the cities nearest to its centre. The largest of these
    cities gives the name.
    """
    found = []
    for j, center in enumerate(centers):
        rows = np.flatnonzero(labels == j)  # sorted by population
        by_distance = rows[np.argsort(-(cities.places[rows] @ center), kind="stable")]
        nearer = np.cumsum(cities.people[by_distance]) - cities.people[by_distance]
        people = int(cities.people[rows].sum())
        near = by_distance[nearer < 0.5 * people]
        city = int(near[cities.people[near].argmax()])
        largest, share = tuple(cities.names[i] for i in rows[:3]), people / cities.people.sum()
        found.append(Region(city, cities.names[city], people, float(share), len(rows), largest))
    return found


def write_regions(
    cities: Cities, regions: list[Region], labels: Array, centers: Array, folder: Path
) -> None:
    """Write regions.csv and picture.png into a directory."""
    from kvariates.report.pictures import WorldMap, draw_map

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

    def rows(self) -> list[tuple[str, ...]]:
        """A row of words for each region, the largest first."""
        return [
            (r.name, f"{r.people / 1e6:,.0f} M", f"{r.share:.1%}", f"{r.cities:,}",
             ", ".join(r.largest))
            for r in sorted(self.regions, key=lambda region: -region.people)
        ]  # fmt: skip


def cities_section(found: CityClusters) -> Section:
    """The map and the regions."""
    people = float(found.cities.people.sum())
    listed = table(("region", "people", "share", "cities", "largest cities"), found.rows())
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
        facts({
            "cities": f"{len(found.cities.names):,}",
            "people in them": f"{people / 1e9:.2f} billion",
            "regions": f"{k}",
            f"the fit, {starts} starts": f"{found.seconds:.2f} s",
        })
        + paragraph(words)
        + picture(found.picture, f"Map of {k} regions of the urban world", caption)
        + listed
        + promise_box(promise)
        + preformatted(
            f'KMeans({k}, metric="cosine", n_init={starts}, random_state=0)'
            ".fit(places, sample_weight=people)"
        )
    )  # fmt: skip
    return Section("cities", "The world's cities, without privacy", html)


@dataclass(frozen=True, eq=False)
class PrivateCities:
    """Fits for each budget, and the price of privacy."""

    plain_centers: Array  # of k-means without privacy
    models: tuple[PrivateKMeans, ...]  # the first for each epsilon
    price: Price


def fit_privately(cities: Cities, done: Callable[[float], Any]) -> PrivateCities:
    """Fit RUNS times for each budget. `done` is told the part that is complete."""
    X, made = cities.places, list[PrivateKMeans]()

    def make(epsilon: float) -> PrivateKMeans:
        done(len(made) / (RUNS * len(EPSILONS)))
        made.append(PrivateKMeans(REGIONS, epsilon=epsilon, delta=DELTA, radius=1.0))
        return made[-1]

    best = KMeans(REGIONS, n_init=10, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of small budgets: the page shows their cost
        found = price(make, X, EPSILONS, against=best.inertia_, runs=RUNS)
    models = tuple(made[RUNS * i] for i in range(len(EPSILONS)))
    return PrivateCities(best.cluster_centers_, models, found)


def private_section(cities: Cities, found: PrivateCities) -> Section:
    """The price of privacy, and where the budget went."""
    price = found.price
    k, runs, mean = len(found.plain_centers), price.ratios.shape[1], price.mean
    low, high = price.ratios.min(axis=1), price.ratios.max(axis=1)
    factors = ", ".join(f"ε = {e:g}: {times_as_likely(e)} times" for e in price.epsilons)
    words = (
        f"The same {len(cities.names):,} cities, but now one city is a secret row. With budget ε, "
        "the probability of any result is at most exp(ε) times that without this city, plus δ = "
        f"{DELTA:g} ({factors}). The "
        "smaller the budget, the stronger the promise and the larger the noise. Rows may be "
        "anywhere on the globe: that domain is public. Private fits have no weights, so a city "
        "counts once here, however many people live in it."
    )
    measured = (
        "Measured: the sum of squared distances of all cities to their nearest centre, beside that "
        f"of k-means without privacy. Each budget was spent {runs} times, which is allowed only "
        "because these cities are public. Dots are means, bars go from the lowest to the highest."
    )
    more = [(100 * (ratios - 1)).tolist() for ratios in (mean, low, high)]
    curve = Line("extra cost", price.epsilons, *more)
    above = bool((low > 1).all())  # of private fits, by luck: one can be better
    chart = lines([curve], "budget ε", "extra cost, in per cent", log_x=True, log_y=above)
    listed = table(
        ("ε", "cost, mean", "lowest", "highest"),
        (
            (f"{e:g}", *(f"{r:.3f} times" for r in ratios))
            for e, *ratios in zip(price.epsilons, mean, low, high, strict=True)
        ),
    )
    cells = {
        f"price at ε = {e:g}": f"{100 * (m - 1):+.1f} %"
        for e, m in zip(price.epsilons, mean, strict=True)
    }
    html = facts(cells) + paragraph(words) + chart + paragraph(measured, "note") + listed
    code = preformatted(
        f"best = KMeans({k}, n_init=10, random_state=0).fit(places)\n"
        "privacy.price(\n"
        f"    lambda epsilon: PrivateKMeans({k}, epsilon=epsilon, delta={DELTA:g}, radius=1.0),\n"
        f"    places, {list(price.epsilons)}, against=best.inertia_, runs={runs},\n)"
    )
    return Section("private", "The same, privately", html + _ledger(found) + code)


def _ledger(found: PrivateCities) -> str:
    ledger = found.models[len(found.models) // 2].ledger_
    head = f"Where the budget of one fit with ε = {ledger.claim.epsilon:g} went"
    names = ("x", "y", "z")
    return (
        f"<h3>{text(head)}</h3>{spending(ledger)}"
        f"<details><summary>The ledger of this fit, as a page</summary>"
        f"{preformatted(ledger_page(ledger, names), 'wrap')}</details>"
    )
