"""The work of `kvariates fit --stream`: a table that is read in blocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.fit_command import MOST_CHOSEN, check_names, parameters_of
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.reading import beside_names, say_formulas, say_left_out, say_remarks
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import ReadingProgress, phase, said_warnings
from kvariates.data.blocks import SourceBlocks, assign_blocks
from kvariates.data.exact_sums import exact_total
from kvariates.data.rows import Floats, nearest_centers
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.fit_record import fit_record_of
from kvariates.estimators.fitted_centers import CoordinateBlocks
from kvariates.estimators.streaming_kmeans import StreamingKMeans
from kvariates.k_selection import Choice
from kvariates.objectives.objective import Objective, objective_for
from kvariates.report.fit_page import write_fit
from kvariates.report.page import as_options
from kvariates.report.run import ClusterTotals, FitRun, FittedTable, ShownRows, cluster_masses
from kvariates.report.sections import how_sure
from kvariates.sources import Blocks, DataTable, StandardizedBlocks, blocks, input_file
from kvariates.sources.parquet_writer import write_label_parts

WHY = "does not work on a stream; use --no-stream"


def fit_stream(request: FitRequest, folder: Path, progress: Progress) -> FitRun:
    """Two passes: one for the centres, one for the labels and the cost.

    To standardize takes one more, and so does -k auto.
    """
    choices, reading = _stream_choices(request), ReadingProgress(progress)
    objective = objective_for(choices.get("metric", "euclidean"), None, None, None)
    file = _opened(request, reading)
    beside = _beside(request, file)
    source: SourceBlocks = file
    scale = None
    if request.scaling == "standard":
        with reading.phase(f"measuring {request.data.name}"):
            source = standardized = StandardizedBlocks(file)
            scale = standardized.scale
    k, choice = request.k, None
    if k is None:
        choice = _choice(request, source, reading)
        k = choice.k
    begin = time.perf_counter()
    with reading.phase(f"clustering {request.data.name}"):
        model = StreamingKMeans(k, **choices).fit(source)
        synopses, centers = model.synopses_, model.cluster_centers_
    seconds = time.perf_counter() - begin
    shown_labels = nearest_centers(synopses, centers)
    totals = ClusterTotals(len(centers))
    with reading.phase("writing labels"):
        parts = _labels(source, objective, centers, totals)
        write_label_parts(folder / "labels.parquet", parts, file.columns(beside) if beside else ())
    names = source.names or tuple(f"x{j}" for j in range(centers.shape[1]))
    save_model(model, names, scale, folder / "model.skops")
    if scale is not None:
        centers = scale.undo(centers)
        synopses = synopses if objective.unit else scale.undo(synopses)
    table = FittedTable(
        request.data, names, file.left_out, model.n_rows_seen_,
        request.reading.weights is not None, scale is not None, True,
    )  # fmt: skip
    _say_dropped(request, file)
    run = FitRun(
        table, parameters_of(model, request), centers, totals.sizes, totals.masses, totals.cost,
        model.n_iter_, seconds, fit_record_of(model), request.command, notes=request.notes.lines,
        choice=choice,
    )  # fmt: skip
    shown_centers = model.cluster_centers_ if objective.unit else centers
    shown = ShownRows(synopses, shown_labels, shown_centers, model.synopsis_weights_)
    with phase(progress, "writing"):
        write_fit(run, shown, folder)
    return run


def _opened(request: FitRequest, progress: ReadingProgress) -> Blocks:
    read = request.reading
    columns, left_out = read.columns, None
    if columns is None and read.identifier is not None:
        first = blocks(read.data, weights=read.weights, text=read.text)
        columns = [name for name in first.names or () if name != read.identifier]
        left_out = tuple(name for name in first.left_out if name != read.identifier)
    file = blocks(
        read.data, columns=columns, weights=read.weights, missing=read.missing,
        progress=progress, text=read.text,
    )  # fmt: skip
    if left_out is not None:
        file.left_out = left_out
    progress.total = file.n_bytes
    for line in file.reader.remarks:
        request.notes.add(f"{read.data.name}: {line}")
    say_left_out(request.notes, file.left_out, file.reader.doubtful)
    say_formulas(request.notes, file.names or (), {})
    X = next(iter(file)).X
    names = file.names or tuple(f"x{j}" for j in range(X.shape[1]))
    table = DataTable(X, names, read.data)
    say_remarks(table, request.scaling != "none", read)
    return file


def _say_dropped(request: FitRequest, file: Blocks) -> None:
    if n := file.rows_dropped:
        rows, their = ("row", "its") if n == 1 else ("rows", "their")
        request.notes.add(f"{n:,} {rows} with a missing value left out; {their} label is missing")
    for line in file.reader.remarks_after:
        request.notes.add(f"{request.data.name}: {line}")


def _beside(request: FitRequest, file: Blocks) -> list[str]:
    """The columns that are copied beside the labels."""
    reading = request.reading
    if not file.all_names and (reading.identifier is not None or reading.keep):
        raise ValueError(f"{reading.data}: columns have no names, so --id and --keep do not work")
    return beside_names(reading, file.all_names)


def _choice(request: FitRequest, source: SourceBlocks, reading: ReadingProgress) -> Choice:
    """The number of clusters that `choose_k` suggests for weighted synopses of the rows."""
    seed = request.choices["random_state"]
    metric: Any = request.choices.get("metric", "euclidean")
    with reading.phase(f"summarizing {request.data.name}"):
        made = StreamingKMeans(MOST_CHOSEN, metric=metric, random_state=seed).fit(source)
        points, weights = made.synopses_, made.synopsis_weights_
    most = min(MOST_CHOSEN, len(points))
    with said_warnings(request.notes):
        choice = choose_k(
            points, (1, most), sample_weight=weights, metric=metric, random_state=seed
        )
    why = f"{as_options(choice.reason)} {how_sure(choice)}"
    request.notes.add(f"k = {choice.k}, by {len(points):,} synopses of the rows: {why}")
    return choice


def _stream_choices(request: FitRequest) -> dict[str, Any]:
    """The parameters of StreamingKMeans; ValueError for those that it does not have."""
    check_names(request)
    request = request.without_usual()
    request.refuse(WHY, "algorithm", "size_min", "size_max", "certify")
    if request.scaling not in ("none", "standard"):
        raise ValueError(f"--scale {request.scaling} {WHY}, or --scale standard")
    if request.reading.missing == "mean":
        raise ValueError(f"--missing mean {WHY}, or --missing drop")
    return dict(request.choices)


def _labels(
    source: SourceBlocks, objective: Objective, centers: Floats, totals: ClusterTotals
) -> Iterator[Any]:
    """The labels of all rows in parts, masked where a row was left out. Adds to the totals."""
    end = 0  # of the rows that have been labelled or left out
    found, wide = CoordinateBlocks(source, objective), np.ascontiguousarray(centers, np.float64)
    for part in assign_blocks(found, wide, objective.nearest, objective.costs):
        masses = cluster_masses(part.labels, part.weight, totals.k)
        totals.add(part.labels, masses, exact_total(part.cost, part.weight))
        if part.numbers is None:
            yield part.labels
            continue
        start, end = end, int(part.numbers[-1]) + 1
        labels = _no_labels(end - start)
        labels[part.numbers - start] = part.labels
        yield labels
    if end:  # rows that were left out may be the last ones
        yield _no_labels(int(totals.sizes.sum()) + source.rows_dropped - end)


def _no_labels(n: int) -> Any:
    return np.ma.array(np.zeros(n, np.int32), mask=True)


def too_large(request: FitRequest) -> bool:
    """Whether a table would fill more than a third of the memory. Pre: the file exists."""
    source = blocks(request.data, text=request.reading.text)
    size = source.n_bytes or 0
    if source.n_rows is not None and source.names is not None:
        size = max(size, 8 * source.n_rows * len(source.names))
    return size > input_file.memory() / 3
