"""The summaries of a stream, by the names of ``StreamingKMeans(synopsis=...)``."""

from __future__ import annotations

from collections.abc import Callable

from kvariates.summaries.coreset import coreset, kmeans_sharp, lightweight
from kvariates.summaries.merge_reduce import MergeReduce
from kvariates.summaries.reservoir import Reservoir
from kvariates.summaries.weighted_points import Reduction, StreamSummary, SummaryOptions
from kvariates.tables import Entry, Table

MakeSummary = Callable[[SummaryOptions], StreamSummary]

UNBIASED = "Theorem 2"  # on the synopses; see `guarantees.streamed_seeding`


def tree_of(reduction: Reduction) -> MakeSummary:
    """Merge and reduce with this reduction."""
    return lambda options: MergeReduce(options, reduction)


SYNOPSES: Table[MakeSummary] = Table(
    "synopsis",
    {
        "coreset": Entry(
            tree_of(coreset),
            "Rows drawn by their share in the cost of a rough solution; the lowest cost.",
            theorem=UNBIASED,
        ),
        "lightweight": Entry(
            tree_of(lightweight),
            "Rows drawn by their distance to the mean; faster than a coreset for many clusters.",
            theorem=UNBIASED,
        ),
        "reservoir": Entry(
            Reservoir,
            "A uniform sample of the rows; the fastest, but it can miss a small far cluster.",
            lost="if rows differ in weight, the weights of a sample are a little biased.",
        ),
        "k-means#": Entry(
            tree_of(kmeans_sharp),
            "3 ln k rows in each of k rounds, drawn by D^2, in every part of the stream (Ailon et "
            "al. 2009).",
            lost="the weights of its synopses are biased: rows count for the nearest synopsis of "
            "their part of the stream.",
        ),
    },
)
