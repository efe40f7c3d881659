"""The page of the demo, report.html: a section for each problem, with what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from kvariates.demo.cities_section import CityClusters, cities_section
from kvariates.demo.facilities import FacilityPlan, Town
from kvariates.demo.facilities_section import facilities_section
from kvariates.demo.fold_trials import FoldTrials
from kvariates.demo.folds_section import folds_section
from kvariates.demo.private_cities import PrivateCities
from kvariates.demo.private_section import private_section
from kvariates.report.page import page_html

__all__ = ["CityClusters", "Results", "demo_html"]


@dataclass(frozen=True, eq=False)
class Results:
    """All four problems, solved."""

    clusters: CityClusters
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
        cities_section(results.clusters),
        private_section(results.clusters.cities, results.private),
        facilities_section(results.town, results.plan),
        folds_section(results.folds),
    ]
    return page_html("What kvariates can do", lead, sections)
