"""The page of the demo, report.html: a section for each problem, with what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from kvariates.demo.cities import Array, Cities, Region
from kvariates.demo.facilities import RANDOM_CHOICES, FacilityPlan, Town
from kvariates.demo.fold_trials import FOLDS, REPEATS, FoldTrials
from kvariates.demo.private_cities import EPSILONS, PrivateCities
from kvariates.estimators.kmeans import KMeans
from kvariates.report.curves import Line, lines
from kvariates.report.figures import Bar, Fact, bars, facts, picture, share_bar
from kvariates.report.page import Section, number, page_html, paragraph, table, text
from kvariates.report.plane import robust_limits
from kvariates.report.private_page import release_costs
from kvariates.report.roadmap import Roads, road_map
from kvariates.report.scatter_figure import Scatter, scatter
from kvariates.report.small_maps import SmallMap, small_maps


@dataclass(frozen=True, eq=False)
class OpenCities:
    """The regions without privacy: the data, the fitted model, and the map as PNG."""

    cities: Cities
    model: KMeans
    regions: list[Region]
    seconds: float
    picture: bytes


@dataclass(frozen=True, eq=False)
class Results:
    """All four problems, solved."""

    open: OpenCities
    private: PrivateCities
    town: Town
    plan: FacilityPlan
    folds: FoldTrials
    seconds: float


def demo_html(results: Results) -> str:
    """The whole page as HTML."""
    runs = results.private.price.ratios.shape[1]
    lead = (
        f"Four problems, solved on this computer in {results.seconds:.0f} seconds with data that "
        "come with kvariates. Every number here was measured in this run. Private fits draw new "
        f"noise every time, so theirs ({runs} fits for each budget) differ from run to run."
    )
    sections = [
        cities_section(results.open),
        private_section(results.open.cities, results.private),
        facilities_section(results.town, results.plan),
        folds_section(results.folds),
    ]
    return page_html("What kvariates can do", lead, sections)


def cities_section(found: OpenCities) -> Section:
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
        + _promise(promise)
        + _code(
            'KMeans(12, metric="cosine", n_init=10, random_state=0)'
            ".fit(places, sample_weight=people)"
        )
    )  # fmt: skip
    return Section("cities", "The world's cities, in the open", html)


def private_section(cities: Cities, found: PrivateCities) -> Section:
    """The price of privacy, maps, and where the budget went."""
    price = found.price
    runs, mean = price.ratios.shape[1], price.mean
    low, high = price.ratios.min(axis=1), price.ratios.max(axis=1)
    words = (
        f"The same {len(cities.names):,} cities, but now one city is a secret row: the centres "
        "tell almost nothing about whether any one city is in the data. The smaller the budget ε, "
        "the stronger the promise and the larger the noise. Rows may be anywhere on the globe: "
        "that domain is public. Private fits have no weights, so a city counts once here, however "
        "many people live in it."
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
    shown = picture(
        small_maps(cities.places, _maps(found)), "image/png",
        "Four maps: regions without privacy and for three budgets",
        f"The fit of median cost among {runs} for each budget. Colours follow the centres that are "
        "nearest to those without privacy.",
    )  # fmt: skip
    listed = table(
        ("ε", "cost, mean", "lowest", "highest"),
        (
            (f"{e:g}", *(f"{r:.3f} times" for r in ratios))
            for e, *ratios in zip(price.epsilons, mean, low, high, strict=True)
        ),
    )
    cells = [
        Fact(f"price at ε = {e:g}", f"{100 * (m - 1):+.1f} %")
        for e, m in zip(price.epsilons, mean, strict=True)
    ]
    html = facts(cells) + paragraph(words) + shown + chart + paragraph(measured, "note") + listed
    code = _code(
        "best = KMeans(12, n_init=10, random_state=0).fit(places)\n"
        "privacy.price(\n"
        "    lambda epsilon: PrivateKMeans(12, epsilon=epsilon, radius=1.0),\n"
        f"    places, {list(EPSILONS)}, against=best.inertia_, runs={runs},\n)"
    )
    return Section("private", "The same, privately", html + _ledger(found) + code)


def _maps(found: PrivateCities) -> list[SmallMap]:
    """Without privacy, then from the largest budget to the smallest; matched centre to centre."""
    first = _unit(found.open_centers)
    maps = [SmallMap("without privacy", "", first)]
    for i in np.argsort(-np.array(found.price.epsilons)):
        centers = _unit(found.models[i].cluster_centers_)
        match = linear_sum_assignment(-(first @ centers.T))[1]
        words = f"cost {found.ratios[i]:.2f} times that without privacy"
        maps.append(SmallMap(f"ε = {found.price.epsilons[i]:g}", words, centers[match]))
    return maps


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1))


def _ledger(found: PrivateCities) -> str:
    ledger = found.models[len(found.models) // 2].ledger_
    unit = "rho" if ledger.concentrated else "epsilon"
    costs = release_costs(ledger)
    parts = [Bar(kind, cost, f"{unit} {number(cost, 3)}") for kind, cost in costs.items()]
    head = f"Where the budget of one fit with ε = {ledger.claim.epsilon:g} went"
    return (
        f"<h3>{text(head)}</h3>{share_bar(parts)}"
        f"<details><summary>The ledger of this fit, as a page</summary>"
        f'<pre class="wrap">{text_lines(ledger.report())}</pre></details>'
    )


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
        + _promise(
            f"{plan.certificate.explain()}\nA cost here is the sum of the ways of all people, in "
            "metres."
        )
        + _code(
            f'KMedian({k}, metric="graph", certify=True, random_state=0)'
            ".fit(streets, demand=people)"
        )
    )  # fmt: skip
    return Section("facilities", "Facilities on streets, with a certificate", html)


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


def folds_section(found: FoldTrials) -> Section:
    """Both kinds of folds, compared."""
    words = (
        f"The {found.rows:,} small areas of Porto Alegre again: {FOLDS} folds for the "
        "cross-validation of a linear regression that predicts the jobs of an area. Anti-"
        "clustering makes folds that are as alike as possible, so a score depends less on how the "
        "rows happened to be divided."
    )
    pairs = zip(
        found.columns, found.difference.mean(axis=0), found.random_difference.mean(axis=0),
        strict=True,
    )  # fmt: skip
    listed = table(
        ("column", "folds by anti-clustering", "folds at random", "times smaller"),
        ((name, f"{a:.4f}", f"{b:.4f}", f"{b / a:,.0f}") for name, a, b in pairs),
    )
    spreads = [float(errors.std(ddof=1)) for errors in (found.errors, found.random_errors)]
    means = [float(errors.mean()) for errors in (found.errors, found.random_errors)]
    far = [float(found.difference.mean()), float(found.random_difference.mean())]
    names = ("folds by anti-clustering", "folds at random")
    chart = bars([
        Bar(name, spread, f"{spread:.5f}") for name, spread in zip(names, spreads, strict=True)
    ])  # fmt: skip
    measured = (
        f"Measured, {REPEATS} times with other seeds for both kinds: in the table, the largest "
        "difference of a fold's mean from the mean of all rows, in standard deviations (jobs, "
        "people, schools and health centres as logarithms); on average over the columns, the means "
        f"are {_ratio(far)} times closer. Bars: the standard deviation, over the "
        "repeats, of the cross-validated error (a part of the variance); the mean error is "
        f"{means[0]:.4f} and {means[1]:.4f}. Folds that are alike make this one number more "
        "stable. They do not make the regression better: its error looks a little smaller because "
        "training rows resemble test rows. And the spread between the folds of one repeat says "
        "less about new data."
    )
    html = (
        facts([
            Fact("rows", f"{found.rows:,}"),
            Fact("folds", f"{FOLDS}"),
            Fact("means of the folds", f"{_ratio(far)} times closer"),
            Fact("spread of the score", f"{_ratio(spreads)} times smaller"),
        ])
        + paragraph(words)
        + listed
        + "<h3>How much the cross-validated error varies</h3>"
        + chart
        + paragraph(measured, "note")
        + _code(f"cross_val_score(model, X, y, cv=AntiClusterKFold({FOLDS}, random_state=0))")
    )  # fmt: skip
    return Section("folds", "Folds that are alike", html)


def _ratio(spreads: Sequence[float]) -> str:
    return number(spreads[1] / max(spreads[0], 1e-300), 2)


def _two(one: str, other: str) -> str:
    return f'<div class="two"><div>{one}</div><div>{other}</div></div>'


def _promise(words: str) -> str:
    return f'<div class="promise">{"".join(paragraph(line) for line in words.splitlines())}</div>'


def _code(words: str) -> str:
    return f"<pre>{text_lines(words)}</pre>"


def text_lines(words: str) -> str:
    """A text of several lines, each made safe."""
    return "\n".join(text(line) for line in words.splitlines())
