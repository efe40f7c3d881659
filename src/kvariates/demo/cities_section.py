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
