"""The metrics of k-median by name: the space each one makes of X, and what X must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import CallableMetric, DistanceMatrix, MetricSpace, Vectors
from kvariates.data.rows import unit_rows
from kvariates.guarantees import LOST
from kvariates.tables import Entry, Table

Metric = str | Callable[[Any, Any], float]
MakeSpace = Callable[[Any, Any], MetricSpace]
"""Takes X and the points at which costs are measured; None means X itself."""

# What X must be. Each entry needs one of these.
ROWS, DISTANCES, EDGES, OBJECTS = map(
    frozenset, (["rows"], ["distances"], ["edge lengths"], ["objects"])
)
SWAPS = "A local optimum of swaps costs at most 5 times the optimum (Arya et al. 2004)."


def _vectors(metric: str) -> MakeSpace:
    return lambda X, at: Vectors(X, metric, at)


def _cosine(X: Any, at: Any) -> MetricSpace:
    return Vectors(unit_rows(X), "cosine", None if at is None else unit_rows(at))


METRICS: Table[MakeSpace] = Table(
    "metric",
    {
        "euclidean": Entry(_vectors("euclidean"), "Rows under L2.", ROWS, SWAPS),
        "manhattan": Entry(_vectors("manhattan"), "Rows under L1.", ROWS, SWAPS),
        "cosine": Entry(_cosine, "Rows under 1 - cos(x, y).", ROWS, lost=LOST["not a metric"]),
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


def metric_entry(metric: Metric) -> Entry[MakeSpace]:
    """The entry of a name, or one made for a callable."""
    if not callable(metric):
        return METRICS[metric]
    return Entry(lambda X, at: CallableMetric(X, metric, at), "A callable.", OBJECTS, SWAPS)
