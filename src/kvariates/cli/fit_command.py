"""The work of `kvariates fit`: reads a file, clusters its rows in memory or as a stream, writes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.screen import ReadingProgress, fit_with_bar, phase
from kvariates.data.blocks import SourceBlocks, assign_blocks
from kvariates.data.exact_sums import exact_total
from kvariates.data.rows import Floats, Rows
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.streaming_kmeans import StreamingKMeans
from kvariates.report import fit as report
from kvariates.sources import DataTable, StandardizedBlocks, blocks, read, standardize


@dataclass(frozen=True)
class FitRequest:
    """What `fit` was asked to do. `choices`: the parameters of KMeans."""

    data: Path
    columns: list[str] | None
    weights: str | None
    standardize: bool
    choices: dict[str, Any]


def fit_in_memory(request: FitRequest, folder: Path, progress: Progress) -> report.FitRun:
    """Read the whole file, cluster its rows and write the files."""
    choices, data = request.choices, request.data
    with phase(progress, f"reading {data.name}"):
        table, w = _read(data, request.columns, request.weights)
        X, how = standardize(table.X, w) if request.standardize else (table.X, None)
    with phase(progress, f"clustering {len(X):,} rows") as bar:
        model = KMeans(**choices)
        seconds = fit_with_bar(model, X, w, bar)
    with phase(progress, "drawing and writing"):
        labels, k = model.labels_, choices["n_clusters"]
        centers = model.cluster_centers_ if how is None else how.undo(model.cluster_centers_)
        run = report.FitRun(
            report.FittedTable(
                data, table.names, table.left_out, len(X), w is not None, how is not None, False
            ),
            choices, centers, np.bincount(labels, minlength=k),
            report.cluster_masses(labels, w, k), model.inertia_, model.n_iter_, seconds,
        )  # fmt: skip
        shown = report.ShownRows(X, labels, model.cluster_centers_)
        if model._objective.unit:
            shown = replace(shown, X=X / np.linalg.norm(X, axis=1, keepdims=True))
        elif X.shape[1] <= 2:  # in the units of the table
            shown = report.ShownRows(table.X, labels, centers)
        report.write_labels([labels], folder / "labels.csv")
        report.write_fit(run, shown, folder)
    return run


def fit_stream(request: FitRequest, folder: Path, progress: Progress) -> report.FitRun:
    """Two passes: one for the centres, one for the labels and the cost; one more to standardize."""
    choices, reading = _stream_choices(request.choices), ReadingProgress(progress)
    file = blocks(request.data, columns=request.columns, weights=request.weights, progress=reading)
    reading.total = file.n_bytes
    source: SourceBlocks = file
    scale = None
    if request.standardize:
        with reading.phase(f"measuring {request.data.name}"):
            source = standardized = StandardizedBlocks(file)
            scale = standardized.scale
    begin = time.perf_counter()
    with reading.phase(f"clustering {request.data.name}"):
        model = StreamingKMeans(**choices).fit(source)
        synopses, centers = model.synopses_, model.cluster_centers_
    seconds = time.perf_counter() - begin
    shown_labels = Rows.of(synopses).nearest(np.ascontiguousarray(centers, dtype=np.float64))
    totals = report.ClusterTotals(len(centers))
    with reading.phase("writing labels"):
        report.write_labels(_labels(source, centers, totals), folder / "labels.csv")
    if scale is not None:
        synopses, centers = scale.undo(synopses), scale.undo(centers)
    names = source.names or tuple(f"x{j}" for j in range(centers.shape[1]))
    table = report.FittedTable(
        request.data, names, file.left_out, model.n_rows_seen_,
        request.weights is not None, scale is not None, True,
    )  # fmt: skip
    run = report.FitRun(
        table, choices, centers, totals.sizes, totals.masses, totals.cost, model.n_iter_, seconds
    )
    with phase(progress, "drawing"):
        shown = report.ShownRows(synopses, shown_labels, centers)
        report.write_fit(run, shown, folder)
    return run


def _stream_choices(choices: dict[str, Any]) -> dict[str, Any]:
    """The parameters of StreamingKMeans; ValueError for those that it does not have."""
    for name, usual in (("metric", "euclidean"), ("algorithm", "auto")):
        if choices[name] != usual:
            raise ValueError(f"--{name} {choices[name]} does not work on a stream; use --no-stream")
    refuse_limits(choices, "does not work on a stream; use --no-stream")
    kept = {name: choices[name] for name in ("n_clusters", "init", "random_state")}
    return kept | {"n_init": 1 if choices["n_init"] == "auto" else choices["n_init"]}


def refuse_limits(choices: dict[str, Any], why: str) -> None:
    """ValueError if limits on the sizes of clusters are given."""
    for name in ("size_min", "size_max"):
        if name in choices:
            raise ValueError(f"--{name.replace('_', '-')} {choices[name]:g} {why}")


def _labels(source: SourceBlocks, centers: Floats, totals: report.ClusterTotals) -> Iterator[Any]:
    """The labels of each block, which is added to the totals."""
    for part in assign_blocks(source, np.ascontiguousarray(centers, dtype=np.float64)):
        masses = report.cluster_masses(part.labels, part.weight, totals.k)
        totals.add(part.labels, masses, exact_total(part.cost, part.weight))
        yield part.labels


def _read(
    data: Path, columns: list[str] | None, weights: str | None
) -> tuple[DataTable, Floats | None]:
    table = read(data, columns)
    if weights is None:
        return table, None
    return table.without(weights), read(data, [weights]).X[:, 0]


def too_large(data: Path) -> bool:
    """Whether a table would fill more than a third of the memory."""
    if not data.exists() or data.stat().st_size < _memory() / 100 or data.suffix == ".npz":
        return False
    source = blocks(data)
    size = source.n_bytes or 0
    if source.n_rows is not None and source.names is not None:
        size = max(size, 8 * source.n_rows * len(source.names))
    return size > _memory() / 3


def _memory() -> float:
    """Bytes of memory that this process may use."""
    most = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    words = limit.read_text().strip() if limit.exists() else ""
    return min(most, float(words)) if words.isdigit() else most
