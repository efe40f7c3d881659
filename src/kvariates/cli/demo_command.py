"""`kvariates demo`: four problems with bundled data. First the map, then one page about all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.progress import Progress

from kvariates.cli.app import Notes, Terminated, printable, say
from kvariates.cli.output_folder import check_free, moved_into_place
from kvariates.cli.screen import fit_with_bar, phase, print_table
from kvariates.demo import cities as world
from kvariates.demo.cities import (
    CityClusters,
    PrivateCities,
    cities_section,
    fit_privately,
    private_section,
)
from kvariates.demo.town import (
    FacilityPlan,
    FoldTrials,
    Town,
    compare_folds,
    compared,
    facilities_section,
    folds_section,
    load_town,
    plan_facilities,
)
from kvariates.report.page import page_html

FILES = ("regions.csv", "picture.png", "report.html")


@dataclass(frozen=True, eq=False)
class Results:
    """All four problems, solved."""

    clusters: CityClusters
    private: PrivateCities
    town: Town
    plan: FacilityPlan
    folds: FoldTrials
    seconds: float


@dataclass(frozen=True, eq=False)
class DemoRun:
    """What the demo prints."""

    regions: list[world.Region]
    lines: tuple[tuple[str, str], ...]  # a problem, and what was found
    seconds: float


def run_demo(
    out: Path, progress: Progress, runs: int | None = None, *, force: bool = False
) -> DemoRun:
    """Solve the four problems; write regions.csv and picture.png, and later report.html.

    `runs`: private fits for each budget.
    """
    check_free([out / name for name in FILES], force)
    start = time.perf_counter()
    with moved_into_place(out) as folder:
        found = draw_regions(folder, progress)
    try:
        with moved_into_place(out) as folder:
            results = solve_others(found, start, progress, runs)
            with phase(progress, "writing the page"):
                page = demo_html(results)
                (folder / "report.html").write_text(page, encoding="utf-8")
    except (KeyboardInterrupt, Terminated) as signal:
        say("interrupted; regions.csv and picture.png are complete, report.html was not written")
        raise typer.Exit(130 if isinstance(signal, KeyboardInterrupt) else 143) from None
    return DemoRun(found.regions, _found(results), time.perf_counter() - start)


def solve_others(
    found: CityClusters, start: float, progress: Progress, runs: int | None
) -> Results:
    """The three problems after the map. `start`: of the demo, by time.perf_counter()."""
    with phase(progress, "the same with differential privacy") as bar:
        private = fit_privately(
            found.cities, runs,
            lambda part: progress.update(bar.task, total=1, completed=part),
        )  # fmt: skip
    with phase(progress, "facilities on a road network"):
        town = load_town()
        plan = plan_facilities(town)
    with phase(progress, "folds that are alike"):
        folds = compare_folds(town)
    seconds = time.perf_counter() - start
    return Results(found, private, town, plan, folds, seconds)


def draw_regions(folder: Path, progress: Progress) -> CityClusters:
    """Cluster the cities and write the two files of the regions."""
    with phase(progress, "reading the world's cities"):
        cities = world.load_cities()
    with phase(progress, f"clustering {len(cities.names):,} cities") as bar:
        model = world.region_model()
        seconds = fit_with_bar(model, bar, Notes(), cities.places, sample_weight=cities.people)
    with phase(progress, "drawing the map"):
        regions = world.name_regions(cities, model.labels_, model.cluster_centers_)
        world.write_regions(cities, regions, model.labels_, model.cluster_centers_, folder)
        picture = (folder / "picture.png").read_bytes()
    return CityClusters(cities, model, regions, seconds, picture)


def _found(results: Results) -> tuple[tuple[str, str], ...]:
    price, plan, folds = results.private.price, results.plan, results.folds
    budgets = zip(price.epsilons, price.mean, strict=True)
    varies = compared((folds.errors.std(), folds.random_errors.std()), "less", "more")
    return (
        ("the same, privately", "; ".join(f"ε {e:g}: {m:.3f} times the cost" for e, m in budgets)),
        ("facilities", f"{plan.mean:,.0f} m of way on average, {plan.certificate}"),
        ("folds", f"the cross-validated error varies {varies}"),
    )


def show_demo(run: DemoRun, out: Path) -> None:
    """Print what was found."""
    show_regions(run.regions)
    print_table(["problem", "result"], run.lines)
    words = f"four problems in {run.seconds:.1f} s; wrote {', '.join(FILES)} to {out}"
    typer.echo(printable(words))
    typer.echo(f"open {out / 'report.html'} in a browser")


def demo_html(results: Results) -> str:
    """The whole page as HTML."""
    runs = results.private.price.ratios.shape[1]
    lead = (
        f"Four problems, solved on this computer in {results.seconds:.0f} seconds with data that "
        "come with kvariates. Every number here was measured in this run. Private fits draw new "
        f"noise every time, so theirs ({runs} fits for each budget) differ from run to run."
    )
    sections = [
        cities_section(results.clusters),
        private_section(results.clusters.cities, results.private),
        facilities_section(results.town, results.plan),
        folds_section(results.folds),
    ]
    return page_html("What kvariates can do", lead, sections)


def show_regions(regions: list[world.Region]) -> None:
    """Print the regions of the demo, the largest first."""
    ordered = sorted(regions, key=lambda r: -r.people)
    print_table(["region", ">people", ">share", ">cities", "largest cities"], map(_cells, ordered))


def _cells(r: world.Region) -> tuple[str, ...]:
    people = f"{r.people / 1e6:,.0f} M"
    return r.name, people, f"{r.share:.1%}", f"{r.cities:,}", ", ".join(r.largest)
