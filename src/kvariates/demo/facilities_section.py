"""The section of the page about facilities on streets."""

from __future__ import annotations

import numpy as np

from kvariates.demo.facilities import RANDOM_CHOICES, FacilityPlan, Town
from kvariates.report.figures import Bar, Fact, bars, facts, picture
from kvariates.report.page import Section, paragraph, preformatted, promise_box
from kvariates.report.plane import robust_limits
from kvariates.report.proof_pages import with_page_numbers
from kvariates.report.roadmap import Roads, road_map
from kvariates.report.scatter_figure import Scatter, scatter


def facilities_section(town: Town, plan: FacilityPlan) -> Section:
    """The street map, other choices, and the certificate."""
    k, people = len(plan.nodes), town.table["population"]
    words = (
        f"{people.sum():,.0f} people live in {np.count_nonzero(people):,} small areas of central "
        f"Porto Alegre. Which {k} of {len(town.places):,} crossings should get a facility, so that "
        "the ways of all people along the streets are as short as possible?"
    )
    random = plan.random_means
    choices = bars([
        Bar(f"chosen by KMedian, {k} medoids", plan.mean, f"{plan.mean:,.1f} m"),
        Bar("no choice can be below", plan.bound, f"{plan.bound:,.1f} m (proved)"),
        Bar("k-means in straight lines", plan.straight_mean, f"{plan.straight_mean:,.1f} m"),
        Bar(f"at random, {RANDOM_CHOICES} times, the mean", float(random.mean()),
            f"{random.mean():,.0f} m ({random.min():,.0f} to {random.max():,.0f})"),
    ])  # fmt: skip
    measured = (
        "Measured: the mean way of a person along the streets to the nearest facility. People "
        "start at the crossing nearest to the middle of their area, and streets are taken in both "
        "directions. The centres of k-means were moved to the nearest crossing; random crossings "
        "were drawn in proportion to the people who start there."
    )
    html = (
        facts([
            Fact("crossings", f"{len(town.places):,}"),
            Fact("streets", f"{town.metres.sum() / 1000:,.0f} km"),
            Fact("mean way", f"{plan.mean:,.0f} m"),
            Fact("certificate", str(plan.certificate)),
        ])
        + paragraph(words)
        + _two(_street_picture(town, plan), scatter(_street_map(town, plan)))
        + choices
        + paragraph(measured, "note")
        + promise_box(
            f"{with_page_numbers(plan.certificate.explain())}\n"
            "A cost here is the sum of the ways of all people, in metres."
        )
        + preformatted(
            f'KMedian({k}, metric="graph", certify=True, random_state=0)'
            ".fit(streets, demand=people)"
        )
    )  # fmt: skip
    return Section("facilities", "Facilities on streets, with a certificate", html)


def _two(one: str, other: str) -> str:
    return f'<div class="two"><div>{one}</div><div>{other}</div></div>'


def _street_picture(town: Town, plan: FacilityPlan) -> str:
    title = f"{len(plan.nodes)} facilities, {town.metres.sum() / 1000:,.0f} km of streets"
    credit = "© OpenStreetMap contributors, ODbL"
    roads = Roads(
        town.places, town.streets, plan.labels, plan.nodes, title, f"Porto Alegre · {credit}"
    )
    caption = f"Each street has the colour of its facility. Streets {credit}."
    return picture(road_map(roads), "image/png", title, caption)


def _street_map(town: Town, plan: FacilityPlan) -> Scatter:
    people = town.table["population"]
    lived = np.flatnonzero(people > 0)
    nodes = town.area_node[lived]
    labels, ways = plan.labels[nodes], plan.ways[nodes]
    k = len(plan.nodes)
    served = np.bincount(labels, people[lived], k)
    way = np.bincount(labels, people[lived] * ways, k) / np.maximum(served, 1)
    limits = robust_limits(town.places, town.places[plan.nodes], margin=0.02)
    (x0, x1), (y0, y1) = limits
    narrowing = float(np.cos(np.radians((y0 + y1) / 2)))
    return Scatter(
        town.areas[lived], labels, town.places[plan.nodes], ("", ""), limits,
        names=tuple(f"facility {i}" for i in range(k)),
        sizes=tuple(f"{a:,.0f} · {b:,.0f} m" for a, b in zip(served, way, strict=True)),
        values=np.column_stack([people[lived], ways]),
        columns=("people", "metres to the facility"),
        masses=people[lived],
        edges=town.places[town.streets].reshape(-1, 4),
        aspect=(x1 - x0) * narrowing / (y1 - y0),
        caption="Where people live: the mark of an area grows with its people. The legend has the "
        "people of each facility and their mean way in metres. Areas: IPEA, from r5r.",
    )  # fmt: skip
