"""The section of the page about the regions of the world's cities."""

from __future__ import annotations

from dataclasses import dataclass

from kvariates.demo.cities import Cities, Region
from kvariates.estimators.kmeans import KMeans
from kvariates.report.figures import Fact, facts, picture
from kvariates.report.page import Section, paragraph, preformatted, promise_box, table


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
    words = (
        "Each city is a point on the globe, weighted by its people. Spherical k-means puts twelve "
        "centres where the angles between people and centres are smallest. The best of ten starts "
        "is kept; the same seed gives the same regions on any number of threads."
    )
    guarantee = found.model.guarantee_
    lost = found.model.guarantee_lost_
    promise = f"Guarantee: {guarantee}" if guarantee is not None else f"No guarantee: {lost}"
    caption = "Data: GeoNames, CC BY 4.0. A cross is a centre; tints show the nearest centre."
    html = (
        facts([
            Fact("cities", f"{len(found.cities.names):,}"),
            Fact("people in them", f"{people / 1e9:.2f} billion"),
            Fact("regions", f"{len(found.regions)}"),
            Fact("the fit, ten starts", f"{found.seconds:.2f} s"),
        ])
        + paragraph(words)
        + picture(found.picture, "image/png", "Map of twelve regions of the urban world", caption)
        + listed
        + promise_box(promise)
        + preformatted(
            'KMeans(12, metric="cosine", n_init=10, random_state=0)'
            ".fit(places, sample_weight=people)"
        )
    )  # fmt: skip
    return Section("cities", "The world's cities, without privacy", html)
