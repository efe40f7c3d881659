"""Two problems of Porto Alegre: facilities on its streets, and folds of its small areas.

The streets are a graph of crossings; people live in small areas and start at the crossing nearest
to their area. Ten crossings are chosen so that all ways together are as short as possible, with a
certificate.

Folds of cross-validation by anti-clustering stand beside folds drawn at random. A regression
predicts the jobs of an area from its people, schools, health centres and place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from kvariates.certificates.certificate import Certificate
from kvariates.estimators.anticlustering import AntiClusterKFold
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.kmedian import KMedian
from kvariates.palette import Array
from kvariates.report.figures import Bar, Scatter, bars, facts, scatter
from kvariates.report.page import Section, number, paragraph, preformatted, promise_box, table
from kvariates.report.plane import EARTH, robust_limits

FACILITIES = 10
RANDOM_CHOICES = 20
FOLDS, REPEATS = 5, 20
COLUMNS = ("east", "north", "people", "schools", "health centres", "jobs")


@dataclass(frozen=True, eq=False)
class Town:
    """Streets and areas. Places are (longitude, latitude) in degrees."""

    places: Array  # (n, 2), of the crossings
    streets: Array  # (m, 2), pairs of crossings
    metres: Array  # (m,)
    areas: Array  # (a, 2)
    area_node: Array  # (a,): the crossing where the people of an area start
    table: dict[str, Array]  # of the areas: population, jobs, schools, healthcare

    @property
    def people(self) -> Array:
        """How many people start at each crossing."""
        return np.bincount(self.area_node, self.table["population"], len(self.places))

    @property
    def graph(self) -> sparse.csr_array:
        """Lengths of streets, in both directions."""
        n, (a, b) = len(self.places), self.streets.T
        one_way = sparse.csr_array((self.metres, (a, b)), shape=(n, n))
        return one_way + one_way.T


@dataclass(frozen=True, eq=False)
class FacilityPlan:
    """Ten crossings, and how far people are from them, by street, in metres on average."""

    nodes: Array
    labels: Array  # of the crossings
    certificate: Certificate
    mean: float
    bound: float  # no ten crossings have a smaller mean
    straight_mean: float  # for centres of k-means in straight lines, moved to the nearest crossing
    random_means: Array  # for crossings drawn at random, by the number of people
    ways: Array  # of each crossing to its facility


def load_town() -> Town:
    """Read the streets and areas that come with the package (OpenStreetMap, ODbL; IPEA)."""
    path = Path(__file__).parents[1] / "datasets" / "porto_alegre.npz"
    with np.load(path) as file:
        kept = {name: file[name] for name in file.files}
    columns = ("population", "jobs", "schools", "healthcare")
    return Town(
        np.column_stack([kept["node_lon"], kept["node_lat"]]) / 1e6,
        np.column_stack([kept["edge_from"], kept["edge_to"]]).astype(np.intp),
        kept["edge_decimetres"] / 10,
        np.column_stack([kept["area_lon"], kept["area_lat"]]) / 1e6,
        kept["area_node"].astype(np.intp),
        {name: kept[f"area_{name}"].astype(np.float64) for name in columns},
    )


def plan_facilities(town: Town) -> FacilityPlan:
    """Choose the crossings, prove how good they are, and compare with two simple choices."""
    graph, people, total = town.graph, town.people, float(town.people.sum())
    model = KMedian(FACILITIES, metric="graph", certify=True, random_state=0)
    model.fit(graph, demand=people)

    def ways(nodes: Array) -> Array:
        return np.asarray(dijkstra(graph, indices=nodes, min_only=True))

    def mean(nodes: Array) -> float:
        return float(ways(nodes) @ people) / total

    rng = np.random.default_rng(0)
    drawn = [
        rng.choice(len(people), FACILITIES, replace=False, p=people / total)
        for _ in range(RANDOM_CHOICES)
    ]
    nodes = np.asarray(model.medoid_indices_)
    return FacilityPlan(
        nodes,
        np.asarray(model.labels_),
        model.certificate_,
        mean(nodes),
        model.certificate_.lower_bound / total,
        mean(straight_choice(town)),
        np.array([mean(nodes) for nodes in drawn]),
        ways(nodes),
    )


def straight_choice(town: Town) -> Array:
    """The crossings nearest to the centres of k-means on the plane, weighted by people."""
    plane = in_metres(town.places)
    model = KMeans(FACILITIES, n_init=10, random_state=0).fit(plane, sample_weight=town.people)
    gaps = np.square(plane[:, None] - model.cluster_centers_).sum(axis=2)
    return np.asarray(gaps.argmin(axis=0))


def in_metres(places: Array) -> Array:
    """Longitudes and latitudes of a town on a plane, in metres from their mean."""
    middle = places.mean(axis=0)
    across = np.array([np.cos(np.radians(middle[1])), 1.0])
    return np.asarray(np.radians(places - middle) * across * 1000 * EARTH)


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
        facts({
            "crossings": f"{len(town.places):,}",
            "streets": f"{town.metres.sum() / 1000:,.0f} km",
            "mean way": f"{plan.mean:,.0f} m",
            "certificate": str(plan.certificate),
        })
        + paragraph(words)
        + scatter(_street_map(town, plan))
        + choices
        + paragraph(measured, "note")
        + promise_box(
            f"{plan.certificate.explain()}\n"
            "A cost here is the sum of the ways of all people, in metres."
        )
        + preformatted(
            f'KMedian({k}, metric="graph", certify=True, random_state=0)'
            ".fit(streets, demand=people)"
        )
    )  # fmt: skip
    return Section("facilities", "Facilities on streets, with a certificate", html)


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
        "people of each facility and their mean way in metres. Areas: IPEA, from r5r. "
        "Streets: © OpenStreetMap contributors, ODbL.",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FoldTrials:
    """Folds of both kinds, made REPEATS times; a row for each time.

    `difference`: the largest difference of a fold's mean from the mean of all rows, for each
    column, in standard deviations. `errors`: the mean squared error of the regression over its
    folds, as a part of the variance.
    """

    rows: int
    columns: tuple[str, ...]
    difference: Array  # (repeats, columns), by anti-clustering
    random_difference: Array  # at random
    errors: Array  # (repeats,)
    random_errors: Array


def compare_folds(town: Town) -> FoldTrials:
    """Make folds of both kinds and measure them."""
    logs = [np.log1p(town.table[c]) for c in ("population", "schools", "healthcare", "jobs")]
    X = np.column_stack([in_metres(town.areas), *logs])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    alike, drawn = (
        [_measure(X, make(X, seed)) for seed in range(REPEATS)] for make in (_alike, _drawn)
    )
    (far, errors), (random_far, random_errors) = (
        map(np.array, zip(*found, strict=True)) for found in (alike, drawn)
    )
    return FoldTrials(len(X), COLUMNS, far, random_far, errors, random_errors)


def _alike(X: Array, seed: int) -> Array:
    labels = np.empty(len(X), dtype=np.intp)
    folds = AntiClusterKFold(FOLDS, random_state=seed).split(X[:, :-1], X[:, -1])
    for fold, (_, test) in enumerate(folds):
        labels[test] = fold
    return labels


def _drawn(X: Array, seed: int) -> Array:
    return np.random.default_rng(seed).permutation(len(X)) % FOLDS


def _measure(X: Array, labels: Array) -> tuple[Array, float]:
    """The largest differences of means, and the error of the regression."""
    means = np.array([X[labels == fold].mean(axis=0) for fold in range(FOLDS)])
    design, y = np.column_stack([X[:, :-1], np.ones(len(X))]), X[:, -1]
    error = 0.0
    for fold in range(FOLDS):
        test = labels == fold
        weights = np.linalg.lstsq(design[~test], y[~test], rcond=None)[0]
        error += float(np.mean((design[test] @ weights - y[test]) ** 2)) / FOLDS
    return np.abs(means).max(axis=0), error


def folds_section(found: FoldTrials) -> Section:
    """Both kinds of folds, compared."""
    words = (
        f"The {found.rows:,} small areas of Porto Alegre again: {FOLDS} folds for the "
        "cross-validation of a linear regression that predicts the jobs of an area. Anti-"
        "clustering makes folds that are as alike as possible. The aim is a score that depends "
        "less on how the rows happened to be divided."
    )
    names = ("folds by anti-clustering", "folds at random")
    far = [found.difference.mean(axis=0), found.random_difference.mean(axis=0)]
    listed = table(
        ("column", *names, "beside random"),
        (
            (name, f"{a:.4f}", f"{b:.4f}", compared((a, b), "smaller", "larger"))
            for name, a, b in zip(found.columns, *far, strict=True)
        ),
    )
    spreads = [float(errors.std(ddof=1)) for errors in (found.errors, found.random_errors)]
    means = [float(errors.mean()) for errors in (found.errors, found.random_errors)]
    closer = compared(
        (float(found.difference.mean()), float(found.random_difference.mean())),
        "closer", "farther away",
    )  # fmt: skip
    chart = bars([
        Bar(name, spread, f"{spread:.5f}") for name, spread in zip(names, spreads, strict=True)
    ])  # fmt: skip
    measured = (
        f"Measured, {REPEATS} times with other seeds for both kinds: in the table, the largest "
        "difference of a fold's mean from the mean of all rows, in standard deviations (jobs, "
        "people, schools and health centres as logarithms); on average over the columns, the means "
        f"are {closer}. Bars: the standard deviation, over the "
        "repeats, of the cross-validated error (a part of the variance); the mean error is "
        f"{means[0]:.4f} and {means[1]:.4f}. {_verdict(spreads, means)} The spread between the "
        "folds of one repeat says less about new data."
    )
    html = (
        facts({
            "rows": f"{found.rows:,}",
            "folds": f"{FOLDS}",
            "means of the folds": closer,
            "spread of the score": compared(spreads, "smaller", "larger"),
        })
        + paragraph(words)
        + listed
        + "<h3>How much the cross-validated error varies</h3>"
        + chart
        + paragraph(measured, "note")
        + preformatted(
            f"cross_val_score(model, X, y, cv=AntiClusterKFold({FOLDS}, random_state=0))"
        )
    )  # fmt: skip
    return Section("folds", "Folds that are alike", html)


def compared(pair: Sequence[float], less: str, more: str) -> str:
    """The first number beside the second one, such as "3 times smaller"."""
    low, high = sorted(pair)
    if low == high:
        return "the same"
    return f"{number(high / max(low, 1e-300), 2)} times {less if pair[0] == low else more}"


def _verdict(spreads: Sequence[float], means: Sequence[float]) -> str:
    """What folds that are alike did to the score, by its spread and its mean."""
    did = "made" if spreads[0] < spreads[1] else "did not make"
    words = f"Folds that are alike {did} this one number more stable here."
    if means[0] < means[1]:
        words += (
            " They do not make the regression better: its error looks smaller because training "
            "rows resemble test rows."
        )
    return words
