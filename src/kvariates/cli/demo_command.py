"""`kvariates demo`: four problems with bundled data. First the map, then one page about all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import Progress

from kvariates.cli.app import Terminated, printable, say
from kvariates.cli.output_folder import check_free, moved_into_place
from kvariates.cli.screen import fit_with_bar, phase, print_table, show_regions
from kvariates.demo import cities as world
from kvariates.extras import needed

if TYPE_CHECKING:
    from kvariates.demo import demo_page

FILES = ("regions.csv", "picture.png", "report.html")


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
    for package, extra in (("matplotlib", "plot"), ("opendp", "private")):
        needed(package, extra, "kvariates demo")
    check_free([out / name for name in FILES], force)
    start = time.perf_counter()
    with moved_into_place(out) as folder:
        found = draw_regions(folder, progress)
    try:
        with moved_into_place(out) as folder:
            results = solve_others(found, start, progress, runs)
            with phase(progress, "writing the page"):
                page = _page(results)
                (folder / "report.html").write_text(page, encoding="utf-8")
    except (KeyboardInterrupt, Terminated) as signal:
        say("interrupted; regions.csv and picture.png are complete, report.html was not written")
        raise typer.Exit(130 if isinstance(signal, KeyboardInterrupt) else 143) from None
    return DemoRun(found.regions, _found(results), time.perf_counter() - start)


def solve_others(
    found: demo_page.CityClusters, start: float, progress: Progress, runs: int | None
) -> demo_page.Results:
    """The three problems after the map. `start`: of the demo, by time.perf_counter()."""
    from kvariates.demo import demo_page, facilities, fold_trials, private_cities

    with phase(progress, "the same with differential privacy") as bar:
        private = private_cities.fit_privately(
            found.cities, runs or private_cities.RUNS,
            lambda part: progress.update(bar.task, total=1, completed=part),
        )  # fmt: skip
    with phase(progress, "facilities on a road network"):
        town = facilities.load_town()
        plan = facilities.plan_facilities(town)
    with phase(progress, "folds that are alike"):
        folds = fold_trials.compare_folds(town)
    seconds = time.perf_counter() - start
    return demo_page.Results(found, private, town, plan, folds, seconds)


def _page(results: demo_page.Results) -> str:
    from kvariates.demo.demo_page import demo_html

    return demo_html(results)


def draw_regions(folder: Path, progress: Progress) -> demo_page.CityClusters:
    """Cluster the cities and write the two files of the regions."""
    with phase(progress, "reading the world's cities"):
        cities = world.load_cities()
    with phase(progress, f"clustering {len(cities.names):,} cities") as bar:
        model = world.region_model()
        seconds = fit_with_bar(model, bar, cities.places, sample_weight=cities.people)
    with phase(progress, "drawing the map"):
        from kvariates.demo.demo_page import CityClusters

        regions = world.name_regions(cities, model.labels_, model.cluster_centers_)
        world.write_regions(cities, regions, model.labels_, model.cluster_centers_, folder)
        picture = (folder / "picture.png").read_bytes()
    return CityClusters(cities, model, regions, seconds, picture)


def _found(results: demo_page.Results) -> tuple[tuple[str, str], ...]:
    from kvariates.demo.folds_section import compared

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
