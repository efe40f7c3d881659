"""The world's cities with differential privacy: what three budgets cost.

Each city is a row, and the number of its people is left out: a private fit has no weights. The
domain is the globe, which is known without the data. The cities are not secret, so the cost can be
measured; with secret rows, every fit would spend its budget.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from kvariates.demo.cities import REGIONS, Array, Cities
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.privacy import ledger_report
from kvariates.privacy.price import Price, price
from kvariates.report.figures import Fact, Line, facts, lines, picture
from kvariates.report.maps import SmallMap, small_maps
from kvariates.report.page import Section, paragraph, preformatted, table, text
from kvariates.report.private_page import spending, times_as_likely

EPSILONS = (0.01, 0.1, 1.0)
DELTA = 1e-6  # far below one over the number of cities
RUNS = 10


@dataclass(frozen=True, eq=False)
class PrivateCities:
    """Fits for each budget, and the price of privacy."""

    plain_centers: Array  # of k-means without privacy
    models: tuple[PrivateKMeans, ...]  # one for each epsilon: the one of median cost
    ratios: Array  # of the costs of these models to the cost without privacy
    price: Price


def fit_privately(
    cities: Cities, runs: int | None = None, done: Callable[[float], Any] = lambda _: None
) -> PrivateCities:
    """Fit `runs` times for each budget. `done` is told the part that is complete."""
    runs = runs or RUNS
    X, made = cities.places, list[PrivateKMeans]()

    def make(epsilon: float) -> PrivateKMeans:
        done(len(made) / (runs * len(EPSILONS)))
        made.append(PrivateKMeans(REGIONS, epsilon=epsilon, delta=DELTA, radius=1.0))
        return made[-1]

    best = KMeans(REGIONS, n_init=10, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of small budgets: the page shows their cost
        found = price(make, X, EPSILONS, against=best.inertia_, runs=runs)
    middle = np.argsort(found.ratios, axis=1, kind="stable")[:, (runs - 1) // 2]
    chosen = tuple(made[runs * i + int(run)] for i, run in enumerate(middle))
    ratios = found.ratios[np.arange(len(middle)), middle]
    return PrivateCities(best.cluster_centers_, chosen, ratios, found)


def private_section(cities: Cities, found: PrivateCities) -> Section:
    """The price of privacy, maps, and where the budget went."""
    price = found.price
    k, runs, mean = len(found.plain_centers), price.ratios.shape[1], price.mean
    low, high = price.ratios.min(axis=1), price.ratios.max(axis=1)
    words = (
        f"The same {len(cities.names):,} cities, but now one city is a secret row. With budget ε, "
        "the probability of any result is at most exp(ε) times that without this city, plus δ = "
        f"{DELTA:g} ({_factors(found)}). The "
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
    shown = picture(
        small_maps(cities.places, matched_maps(found)), "image/png",
        f"Maps of regions: without privacy, and for {len(price.epsilons)} budgets",
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
    code = preformatted(
        f"best = KMeans({k}, n_init=10, random_state=0).fit(places)\n"
        "privacy.price(\n"
        f"    lambda epsilon: PrivateKMeans({k}, epsilon=epsilon, delta={DELTA:g}, radius=1.0),\n"
        f"    places, {list(price.epsilons)}, against=best.inertia_, runs={runs},\n)"
    )
    return Section("private", "The same, privately", html + _ledger(found) + code)


def _factors(found: PrivateCities) -> str:
    """How much likelier one city can make a result, for each budget."""
    pairs = ((f"{e:g}", times_as_likely(e)) for e in found.price.epsilons)
    return ", ".join(f"ε = {epsilon}: {times} times" for epsilon, times in pairs)


def matched_maps(found: PrivateCities) -> list[SmallMap]:
    """Without privacy, then from the largest budget to the smallest; matched centre to centre."""
    first = _unit(found.plain_centers)
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
    head = f"Where the budget of one fit with ε = {ledger.claim.epsilon:g} went"
    names = ("x", "y", "z")
    return (
        f"<h3>{text(head)}</h3>{spending(ledger)}"
        f"<details><summary>The ledger of this fit, as a page</summary>"
        f"{preformatted(ledger_report.page(ledger, names), 'wrap')}</details>"
    )
