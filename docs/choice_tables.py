"""Writes the tables of choices as reStructuredText, for the API pages."""

from __future__ import annotations

import re
from typing import Any

from kvariates.balancing.group_objectives import GROUP_OBJECTIVES
from kvariates.data.metrics import METRICS
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.objective import OBJECTIVES
from kvariates.private_methods.methods import PRIVATE_KMEDIAN_METHODS, PRIVATE_METHODS
from kvariates.refining.refinements import REFINEMENTS
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.seeding.seedings import HOST_SEEDINGS, PEER_SEEDINGS
from kvariates.summaries.merge_reduce import SYNOPSES
from kvariates.tables import Choices

CHOICE_TABLES: dict[str, Choices[Any]] = {
    "Seedings: ``KMeans(init=...)``": HOST_SEEDINGS,
    "Refinements: ``KMeans(algorithm=...)``": REFINEMENTS,
    "Objectives: ``KMeans(metric=...)``": OBJECTIVES,
    "Distortions: ``KMeans(distortion=...)``": DISTORTIONS,
    "Metrics: ``KMedian(metric=...)``": METRICS,
    "Seedings of medoids: ``KMedian(init=...)``": MEDOID_SEEDINGS,
    "Private methods: ``PrivateKMeans(method=...)``": PRIVATE_METHODS,
    "Private methods of k-median: ``PrivateKMedian(method=...)``": PRIVATE_KMEDIAN_METHODS,
    "Summaries of a stream: ``StreamingKMeans(synopsis=...)``": SYNOPSES,
    "Objectives of groups: ``AntiClustering(objective=...)``": GROUP_OBJECTIVES,
    "Seedings over peers: ``dask.KMeans(init=...)``": PEER_SEEDINGS,
}


def restructured_text() -> str:
    """All tables, with name, help and guarantee of each entry."""
    return "\n".join(_list_table(title, table) for title, table in CHOICE_TABLES.items())


def _list_table(title: str, table: Choices[Any]) -> str:
    lines = [f".. list-table:: {title}", "   :header-rows: 1", "   :widths: 18 52 30", ""]
    rows = [("name", "what it does", "guarantee")]
    for name, entry in table.items():
        promise = entry.theorem or entry.lost or ""
        rows.append((f'``"{name}"``', _escaped(entry.help), _escaped(promise)))
    for row in rows:
        lines += [f"   {' ' if i else '*'} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """The text without markup; the name of a proof becomes a link to its page."""
    if text.endswith(".md"):
        return f":doc:`proofs/{text.removesuffix('.md')}`"
    return re.sub(r"([\\*`|_])", r"\\\1", text)
