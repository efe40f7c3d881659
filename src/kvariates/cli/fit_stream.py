"""The work of `kvariates fit --stream`: a table that is read in blocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import remark
from kvariates.cli.fit_command import check_names, parameters_of
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import ReadingProgress, phase
from kvariates.data.blocks import SourceBlocks, assign_blocks
from kvariates.data.exact_sums import exact_total
from kvariates.data.rows import Floats, Rows
from kvariates.estimators.streaming_kmeans import StreamingKMeans
from kvariates.report import fit as report
from kvariates.sources import Blocks, StandardizedBlocks, blocks, input_file
from kvariates.sources.parquet_writer import write_label_parts

WHY = "does not work on a stream; use --no-stream"


def fit_stream(request: FitRequest, folder: Path, progress: Progress) -> report.FitRun:
    """Two passes: one for the centres, one for the labels and the cost; one more to standardize."""
    choices, reading = _stream_choices(request), ReadingProgress(progress)
    file = _opened(request, reading)
    source: SourceBlocks = file
    scale = None
    if request.scaling == "standard":
        with reading.phase(f"measuring {request.data.name}"):
            source = standardized = StandardizedBlocks(file)
            scale = standardized.scale
    begin = time.perf_counter()
    with reading.phase(f"clustering {request.data.name}"):
        model = StreamingKMeans(request.k or 1, **choices).fit(source)
        synopses, centers = model.synopses_, model.cluster_centers_
    seconds = time.perf_counter() - begin
    shown_labels = Rows.of(synopses).nearest(np.ascontiguousarray(centers, dtype=np.float64))
    totals = report.ClusterTotals(len(centers))
    with reading.phase("writing labels"):
        write_label_parts(folder / "labels.parquet", _labels(source, centers, totals))
    names = source.names or tuple(f"x{j}" for j in range(centers.shape[1]))
    save_model(model, names, scale, folder / "model.skops")
    if scale is not None:
        synopses, centers = scale.undo(synopses), scale.undo(centers)
    table = report.FittedTable(
        request.data, names, file.left_out, model.n_rows_seen_,
        request.reading.weights is not None, scale is not None, True,
    )  # fmt: skip
    run = report.FitRun(
        table, parameters_of(model, request), centers, totals.sizes, totals.masses, totals.cost,
        model.n_iter_, seconds, model, request.command,
    )  # fmt: skip
    shown = report.ShownRows(synopses, shown_labels, centers, model.synopsis_weights_)
    with phase(progress, "writing"):
        report.write_fit(run, shown, folder)
    _say_dropped(request, file)
    return run


def _opened(request: FitRequest, progress: ReadingProgress) -> Blocks:
    read = request.reading
    file = blocks(
        read.data, columns=read.columns, weights=read.weights, missing=read.missing,
        progress=progress, text=read.text,
    )  # fmt: skip
    progress.total = file.n_bytes
    if not request.quiet:
        if file.remarks:
            remark(f"{read.data.name}: {file.remarks}")
        if file.left_out:
            remark(f"left out, not numeric: {', '.join(file.left_out)}")
    return file


def _say_dropped(request: FitRequest, file: Blocks) -> None:
    if file.rows_dropped and not request.quiet:
        remark(f"{file.rows_dropped:,} rows with a missing value left out, and they have no label")


def _stream_choices(request: FitRequest) -> dict[str, Any]:
    """The parameters of StreamingKMeans; ValueError for those that it does not have."""
    check_names(request)
    choices, reading = dict(request.choices), request.reading
    for name, usual in (("metric", "euclidean"), ("algorithm", "auto")):
        if choices.pop(name, usual) != usual:
            request.refuse(WHY, name)
    request.refuse(WHY, "size_min", "size_max", "certify")
    if request.k is None:
        raise ValueError(f"-k auto {WHY}")
    if request.scaling not in ("none", "standard"):
        raise ValueError(f"--scale {request.scaling} {WHY}, or --scale standard")
    for name, given in (("--id", reading.identifier), ("--keep", reading.keep or None)):
        if given is not None:
            raise ValueError(f"{name} {WHY}")
    if reading.missing == "mean":
        raise ValueError(f"--missing mean {WHY}, or --missing drop")
    return choices


def _labels(source: SourceBlocks, centers: Floats, totals: report.ClusterTotals) -> Iterator[Any]:
    """The labels of each block, which is added to the totals."""
    for part in assign_blocks(source, np.ascontiguousarray(centers, dtype=np.float64)):
        masses = report.cluster_masses(part.labels, part.weight, totals.k)
        totals.add(part.labels, masses, exact_total(part.cost, part.weight))
        yield part.labels


def too_large(request: FitRequest) -> bool:
    """Whether a table would fill more than a third of the memory. Pre: the file exists."""
    data = request.data
    if data.suffix in (".npz", ".mtx"):
        return False
    source = blocks(data, text=request.reading.text)
    size = source.n_bytes or 0
    if source.n_rows is not None and source.names is not None:
        size = max(size, 8 * source.n_rows * len(source.names))
    return size > input_file.memory() / 3
