"""The work of `kvariates fit` on one computer: the rows in memory, or a stream of blocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import check_name
from kvariates.cli.fit_command import FitRequest, Fitted
from kvariates.cli.reading import (
    beside_names,
    read_table,
    say_formulas,
    say_left_out,
    say_remarks,
    scaled_rows,
    shown_name,
)
from kvariates.cli.screen import ReadingProgress, fit_with_bar, phase, said_warnings
from kvariates.data.blocks import SourceBlocks, assign_blocks
from kvariates.data.exact_sums import exact_total
from kvariates.data.metrics import METRICS
from kvariates.data.rows import Floats, nearest_centers
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.fitted_centers import CoordinateBlocks
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.streaming_kmeans import StreamingKMeans
from kvariates.k_selection import Choice
from kvariates.objectives.objective import OBJECTIVES, Objective, objective_for
from kvariates.refining.refinements import REFINEMENTS
from kvariates.report.page import as_options
from kvariates.report.run import ClusterTotals, ShownRows, cluster_masses
from kvariates.report.sections import how_sure
from kvariates.seeding.seedings import HOST_SEEDINGS
from kvariates.sources import Blocks, DataTable, StandardizedBlocks, blocks, input_file
from kvariates.sources.parquet_writer import write_label_parts, write_labels

STREAMED = "so it is read as a stream"
NOT_STREAMED = (".npz", ".mtx")  # files of these endings are small, or sparse
MOST_CHOSEN = 20  # clusters that -k auto tries
MOST_SHOWN = 2 * 10**7  # numbers of a sparse matrix that the report gets
WHY = "does not work on a stream; use --no-stream"


def fit_means(stream: bool | None, request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Read the file into the memory if it fits. A compressed file can be larger than it looks."""
    data, is_file = request.data, str(request.data) != "-"
    if stream and not is_file:
        raise ValueError("--stream reads a file twice; standard input can be read only once")
    if stream is None and is_file and data.is_dir():
        request.notes.add(f"{shown_name(data)} is a folder, {STREAMED}")
        stream = True
    may_stream = stream is None and is_file and data.is_file() and data.suffix not in NOT_STREAMED
    if not stream:
        try:
            if not (may_stream and _is_large(request)):
                return fit_in_memory(request, folder, progress)
        except input_file.TooLargeError as error:
            if not may_stream:
                raise ValueError(f"{error}; --stream reads a table in blocks") from None
        request.notes.add(f"{data.name} is large compared with the memory, {STREAMED}")
    return fit_stream(request, folder, progress)


def _is_large(request: FitRequest) -> bool:
    """Whether a table would fill a third of the memory. Nothing is read of a small file."""
    if input_file.input_file(request.data).size < input_file.memory() / 100:
        return False
    source = blocks(request.data, text=request.reading.text)
    size = source.n_bytes or 0
    if source.n_rows is not None and source.names is not None:
        size = max(size, 8 * source.n_rows * len(source.names))
    return size > input_file.memory() / 3


def check_metric(request: FitRequest) -> None:
    """Raise ValueError if the metric is none of k-means."""
    metric = request.choices.get("metric")
    hint = f"; --objective median has {metric!r}" if metric in METRICS else ""
    check_name("metric", metric, OBJECTIVES, hint)


def _check_names(request: FitRequest) -> None:
    check_metric(request)
    check_name("init", request.choices.get("init"), HOST_SEEDINGS)
    check_name("algorithm", request.choices.get("algorithm"), REFINEMENTS)


def fit_in_memory(request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Read the whole file, and cluster its rows."""
    _check_names(request)
    with phase(progress, f"reading {request.data.name}"):
        data = read_table(request.reading)
        table, w = data.table, data.table.weight
        scaled = request.scaling != "none" or request.metric != "euclidean"
        say_remarks(table, scaled, request.reading)
        X, scale = scaled_rows(table.X, w, request.scaling)
    k, choice = request.k, None
    if k is None:
        with phase(progress, f"trying 1 to {min(MOST_CHOSEN, X.shape[0])} clusters"):
            choice = _choice(request, X, w)
        k = choice.k
    with phase(progress, f"clustering {X.shape[0]:,} rows") as bar:
        model = KMeans(k, **request.choices)
        model._keep_costs = True
        seconds = fit_with_bar(model, bar, request.notes, X, sample_weight=w)
    if choice is not None and choice.clear and model.inertia_ > choice.inertia[k - choice.ks[0]]:
        # The search has confirmed its own clusters, and this fit has found others.
        request.notes.add(
            "the fit cost more than the clusters that -k auto found, so it began again from them"
        )
        with phase(progress, "clustering again from there") as bar:
            model.set_params(init=choice.centers, n_init=1)
            seconds += fit_with_bar(model, bar, request.notes, X, sample_weight=w)
    del model._keep_costs
    labels, centers = model.labels_, model.cluster_centers_
    write_labels(folder / "labels.parquet", labels, data.beside, table.kept)
    run = request.run(
        model,
        table=request.table(
            table.names, table.left_out, X.shape[0], kept=table.kept,
            weights=request.reading.weights or "",
        ),
        centers=centers if scale is None else scale.undo(centers),
        sizes=np.bincount(labels, minlength=k), masses=cluster_masses(labels, w, k),
        seconds=seconds, costs=model._costs, choice=choice,
    )  # fmt: skip
    return Fitted(run, _shown(table.X, X, model, run.centers, w), model, scale, table.means)


def _choice(request: FitRequest, X: Any, w: Any, by: str = "") -> Choice:
    """The number of clusters that `choose_k` suggests. `by`: what X is, if not the rows."""
    with said_warnings(request.notes):
        choice = choose_k(
            X, (1, min(MOST_CHOSEN, X.shape[0])), sample_weight=w, metric=request.metric,
            random_state=request.choices["random_state"],
        )  # fmt: skip
    request.notes.add(f"k = {choice.k}{by}: {as_options(choice.reason)} {how_sure(choice)}")
    return choice


def _shown(raw: Any, X: Any, model: KMeans, centers: Any, weights: Any) -> ShownRows:
    """The rows for the report: in the units of the file if they have one or two columns."""
    labels, is_sparse = model.labels_, not isinstance(X, np.ndarray)
    if is_sparse:
        step = max(1, -(-X.shape[0] * X.shape[1] // MOST_SHOWN))
        X, labels = X[::step].toarray(), labels[::step]
        raw, weights = X, None if weights is None else weights[::step]
    if model.metric == "cosine":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif X.shape[1] <= 2:
        return ShownRows(raw, labels, centers, weights, sparse=is_sparse)
    return ShownRows(X, labels, model.cluster_centers_, weights, raw, sparse=is_sparse)


def fit_stream(request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Two passes: one for the centres, one for the labels and the cost.

    To standardize takes one more, and so does -k auto.
    """
    choices, reading = _stream_choices(request), ReadingProgress(progress)
    objective = objective_for(request.metric, None, None, None)
    file = _opened(request, reading)
    beside = beside_names(request.reading, file.all_names)
    source: SourceBlocks = file
    scale = None
    if request.scaling == "standard":
        with reading.phase(f"measuring {request.data.name}"):
            source = standardized = StandardizedBlocks(file)
            scale = standardized.scale
    k, choice = request.k, None
    if k is None:
        with reading.phase(f"summarizing {request.data.name}"):
            seed: Any = choices["random_state"]
            made = StreamingKMeans(MOST_CHOSEN, metric=request.metric, random_state=seed)
            made.fit(source)
        by = f", by {len(made.synopses_):,} synopses of the rows"
        choice = _choice(request, made.synopses_, made.synopsis_weights_, by)
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
    if scale is not None:
        centers = scale.undo(centers)
        synopses = synopses if objective.unit else scale.undo(synopses)
    if n := file.rows_dropped:
        rows, their = ("row", "its") if n == 1 else ("rows", "their")
        request.notes.add(f"{n:,} {rows} with a missing value left out; {their} label is missing")
    for line in file.remarks_after:
        request.notes.add(f"{request.data.name}: {line}")
    run = request.run(
        model, table=request.table(names, file.left_out, model.n_rows_seen_, streamed=True),
        centers=centers, sizes=totals.sizes, masses=totals.masses, inertia=totals.cost,
        seconds=seconds, choice=choice,
    )  # fmt: skip
    shown_centers = model.cluster_centers_ if objective.unit else centers
    shown = ShownRows(synopses, shown_labels, shown_centers, model.synopsis_weights_)
    return Fitted(run, shown, model, scale)


def _stream_choices(request: FitRequest) -> dict[str, Any]:
    """The parameters of StreamingKMeans; ValueError for those that it does not have."""
    _check_names(request)
    request.refuse(
        WHY, "algorithm", "size_min", "size_max", "certify", but=("auto", "standard", "drop"),
        scale=", or --scale standard", missing=", or --missing drop",
    )  # fmt: skip
    return {name: value for name, value in request.choices.items() if name != "algorithm"}


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
    file.left_out = file.left_out if left_out is None else left_out
    progress.total = file.n_bytes
    for line in file.remarks:
        request.notes.add(f"{read.data.name}: {line}")
    say_left_out(request.notes, file.left_out, file.doubtful)
    say_formulas(request.notes, file.names or (), {})
    X = next(iter(file)).X
    names = file.names or tuple(f"x{j}" for j in range(X.shape[1]))
    say_remarks(DataTable(X, names, read.data), request.scaling != "none", read)
    if not file.all_names and (read.identifier is not None or read.keep):
        raise ValueError(f"{read.data}: columns have no names, so --id and --keep do not work")
    return file


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
