"""The demo: four problems with bundled data. First the map, then one page about all.

| file | problems |
|---|---|
| `cities` | the world's cities in twelve regions; the same with differential privacy |
| `town` | facilities on the streets of a city, with a certificate; folds that are alike |
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvariates.demo import cities as world
from kvariates.demo import town as porto_alegre
from kvariates.estimators.kmeans import KMeans
from kvariates.file_writing import check_free, moved_into_place
from kvariates.report.page import page_html

FILES = ("regions.csv", "picture.png", "report.html")
KEPT = "regions.csv and picture.png are complete, report.html was not written"
Phase = Callable[[str], AbstractContextManager[Any]]  # shows that a part of the work is done


@dataclass(frozen=True, eq=False)
class Results:
    """All four problems, solved."""

    clusters: world.CityClusters
    private: world.PrivateCities
    town: porto_alegre.Town
    plan: porto_alegre.FacilityPlan
    folds: porto_alegre.FoldTrials
    seconds: float

    def findings(self) -> list[tuple[str, str]]:
        """What was found after the map, for each problem."""
        price, plan, folds = self.private.price, self.plan, self.folds
        pairs = zip(price.epsilons, price.mean, strict=True)
        budgets = "; ".join(f"ε {e:g}: {m:.3f} times the cost" for e, m in pairs)
        varies = porto_alegre.compared(
            (folds.errors.std(), folds.random_errors.std()), "less", "more"
        )
        return [
            ("the same, privately", budgets),
            ("facilities", f"{plan.mean:,.0f} m of way on average, {plan.certificate}"),
            ("folds", f"the cross-validated error varies {varies}"),
        ]


def run_demo(out: Path, phase: Phase, *, force: bool = False) -> Results:
    """Solve the four problems; write regions.csv and picture.png, and later report.html."""
    check_free([out / name for name in FILES], force)
    start = time.perf_counter()
    with moved_into_place(out) as folder:
        found = draw_regions(folder, phase)
    try:
        with moved_into_place(out) as folder:
            results = solve_others(found, start, phase)
            with phase("writing the page"):
                (folder / "report.html").write_text(demo_html(results), encoding="utf-8")
    except BaseException as error:
        if not isinstance(error, Exception):  # a signal
            error.__notes__ = [KEPT]
        raise
    return results


def draw_regions(folder: Path, phase: Phase) -> world.CityClusters:
    """Cluster the cities and write the two files of the regions."""
    with phase("reading the world's cities"):
        cities = world.load_cities()
    with phase(f"clustering {len(cities.names):,} cities") as bar:
        start = time.perf_counter()
        model = KMeans(world.REGIONS, metric="cosine", n_init=10, random_state=0)
        model.set_callbacks(bar).fit(cities.places, sample_weight=cities.people)
        seconds = time.perf_counter() - start
    with phase("drawing the map"):
        regions = world.name_regions(cities, model.labels_, model.cluster_centers_)
        world.write_regions(cities, regions, model.labels_, model.cluster_centers_, folder)
        picture = (folder / "picture.png").read_bytes()
    return world.CityClusters(cities, model, regions, seconds, picture)


def solve_others(found: world.CityClusters, start: float, phase: Phase) -> Results:
    """The three problems after the map. `start`: of the demo, by time.perf_counter()."""
    with phase("the same with differential privacy") as bar:
        private = world.fit_privately(found.cities, bar.show)
    with phase("facilities on a road network"):
        town = porto_alegre.load_town()
        plan = porto_alegre.plan_facilities(town)
    with phase("folds that are alike"):
        folds = porto_alegre.compare_folds(town)
    return Results(found, private, town, plan, folds, time.perf_counter() - start)


def demo_html(results: Results) -> str:
    """The whole page as HTML."""
    runs = results.private.price.ratios.shape[1]
    lead = (
        f"Four problems, solved on this computer in {results.seconds:.0f} seconds with data that "
        "come with kvariates. Every number here was measured in this run. Private fits draw new "
        f"noise every time, so theirs ({runs} fits for each budget) differ from run to run."
    )
    sections = [
        world.cities_section(results.clusters),
        world.private_section(results.clusters.cities, results.private),
        porto_alegre.facilities_section(results.town, results.plan),
        porto_alegre.folds_section(results.folds),
    ]
    return page_html("What kvariates can do", lead, sections)
