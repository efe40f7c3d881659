"""The metrics of k-median by name: the space each one makes of X, and what X must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy

from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import (
    CallableMetric,
    DistanceMatrix,
    MetricSpace,
    Vectors,
)
from kvariates.data.rows import unit_rows
from kvariates.data.sparse_cosine import SparseCosine
from kvariates.data.sphere import unit_points
from kvariates.guarantees import LOST
from kvariates.tables import Entry, Table

Metric = str | Callable[[Any, Any], float]
MakeSpace = Callable[[Any, Any], MetricSpace]
"""Takes X and the points at which costs are measured; None means X itself."""

# What X must be. Each entry needs one of these.
ROWS, PLACES, DISTANCES, EDGES, OBJECTS = map(
    frozenset, (["rows"], ["places"], ["distances"], ["edge lengths"], ["objects"])
)
WITH_CENTERS = (ROWS, PLACES, OBJECTS)  # a medoid is a row
SPARSE_ROWS = {"cosine"}  # metrics that take CSR matrices of rows
SWAPS = "A local optimum of swaps costs at most 5 times the optimum (Arya et al. 2004)."


def _vectors(metric: str) -> MakeSpace:
    return lambda X, at: Vectors(X, metric, at)


def _cosine(X: Any, at: Any) -> MetricSpace:
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(at):
        rows = [None if rows is None else unit_rows(_csr(rows)) for rows in (X, at)]
        return SparseCosine(*rows)
    return Vectors(unit_rows(X), "cosine", None if at is None else unit_rows(at))


def _csr(rows: Any) -> Any:
    out = scipy.sparse.csr_array(rows)
    if not out.has_canonical_format:
        out = out.copy() if out is rows else out
        out.sum_duplicates()
    return out


def _haversine(X: Any, at: Any) -> MetricSpace:
    return Vectors(unit_points(X), "haversine", None if at is None else unit_points(at))


METRICS: Table[MakeSpace] = Table(
    "metric",
    {
        "euclidean": Entry(_vectors("euclidean"), "Rows under L2.", ROWS, SWAPS),
        "manhattan": Entry(_vectors("manhattan"), "Rows under L1.", ROWS, SWAPS),
        "cosine": Entry(
            _cosine, "Rows under 1 - cos(x, y); dense or CSR.", ROWS, lost=LOST["not a metric"]
        ),
        "haversine": Entry(
            _haversine,
            "Latitude and longitude in radians under great-circle distance, also in radians: times "
            "6371 for kilometres.",
            PLACES,
            SWAPS,
        ),
        "precomputed": Entry(
            lambda D, _: DistanceMatrix(D), "X is a square matrix of distances.", DISTANCES, SWAPS
        ),
        "graph": Entry(
            lambda lengths, _: Graph(lengths),
            "X is a sparse symmetric matrix of edge lengths, and distances are those of shortest "
            "paths, never all of them at once.",
            EDGES,
            SWAPS,
        ),
    },
)

OTHER_NAMES = {"l1": "manhattan", "cityblock": "manhattan", "l2": "euclidean"}  # scikit-learn's


def check_name(metric: Metric) -> None:
    """ValueError if it is a name that a metric has elsewhere."""
    if isinstance(metric, str) and metric in OTHER_NAMES:
        raise ValueError(f"metric={metric!r} is {OTHER_NAMES[metric]!r} here.")


def metric_entry(metric: Metric) -> Entry[MakeSpace]:
    """The entry of a name, or one made for a callable."""
    if not callable(metric):
        return METRICS[metric]
    return Entry(lambda X, at: CallableMetric(X, metric, at), "A callable.", OBJECTS, SWAPS)
