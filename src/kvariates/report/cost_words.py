"""The cost of a fit in words: what it adds up, its unit, and how it changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from .fit_run import FitRun
from .page import number

EARTH = 6371.0088  # km: the mean radius, which is the length of a radian on the globe
DISTANCES = {  # of k-means, by metric
    "euclidean": "squared distances of the {rows} to their centres",
    "cosine": "1 - cos of the angles between the {rows} and their centres",
}
NOT_DISTANCES = (
    "The columns look like latitude and longitude. Degrees are not distances: a degree of "
    "longitude is 111 km at the equator and 56 km at 60 degrees north. {how} measures true "
    "distances."
)


def about_cost(run: FitRun) -> list[str]:
    """What the cost is: a sentence or two; none if it is not known."""
    if run.inertia is None or run.private or run.parameters.get("distortion") is not None:
        return []
    metric = run.parameters.get("metric", "euclidean")
    medoids = hasattr(run.model, "medoid_indices_")
    what = f"distances of the {run.unit} to their medoids" if medoids else DISTANCES.get(metric)
    if what is None:
        return []
    known = run.of_shell or run.table.weighted or hasattr(run.model, "cluster_demand_")
    if not known:
        what = f"(weighted) {what}"  # whether a k-means in Python had weights
    words = f"The cost is the sum of the {what.format(rows=run.unit)}"
    words += ", each times its weight" * run.table.weighted
    words += ", in scaled units" * (run.table.scaled and metric != "haversine")
    words += f", after {', '.join(run.table.steps)}" if run.table.steps else ""
    return [f"{words}.{_in_km(run) if metric == 'haversine' else ''}"]


def about_other_rows(run: FitRun) -> list[str]:
    """What is said if the sizes on the page are not those of the fit; empty if they are."""
    labels: Any = getattr(run.model, "labels_", None)
    in_batches = hasattr(run.model, "partial_fit")  # its labels are those of the last batch
    if run.sizes is None or in_batches or run.of_shell or run.private:
        return []
    if not isinstance(labels, np.ndarray):  # Dask would compute them
        return []
    if np.array_equal(np.bincount(labels[labels >= 0], minlength=run.k), run.sizes):
        return []
    words = f"These are not the {run.unit} of the fit, which had {len(labels):,}: sizes and"
    words += " averages are those of X; the cost and what is proved are about the fit."
    return [words]


def _in_km(run: FitRun) -> str:
    """The mean distance on the globe; distances are added in radians."""
    total = float(run.masses.sum()) if run.masses is not None else 0.0
    if run.inertia is None or not total > 0:
        return f" It is in radians; a radian is {EARTH} km."
    mean = f"{'weighted ' * run.table.weighted}mean distance"
    far = number(EARTH * run.inertia / total)
    return f" It is in radians; a radian is {EARTH} km. The {mean} is {far} km."


def cost_change(first: float, last: float) -> str:
    """How the cost changed from the first iteration to the last."""
    if last == first:
        return f"After the first iteration the cost was {number(first, 6)}, and it did not change."
    part = abs(last - first) / first if first > 0 else 0.0
    size = f"{part:.1%}" if part >= 0.001 else "less than 0.1%"
    how = "less" if last < first else "more"
    digits = next((d for d in range(5, 16) if number(first, d) != number(last, d)), 16)
    return (
        f"From {number(first, digits)} after the first iteration to {number(last, digits)} after "
        f"the last: {size} {how}."
    )


def degrees_note(run: FitRun, degrees: bool) -> list[str]:
    """What a k-means of degrees does not measure, and what does; empty for other fits."""
    plain = run.parameters.get("metric", "euclidean") == "euclidean"
    if not degrees or run.private or hasattr(run.model, "medoid_indices_") or not plain:
        return []
    python = 'kvariates.KMedian(metric="haversine")'
    how = "--objective median --metric haversine" if run.of_shell else python
    return [NOT_DISTANCES.format(how=how)]
