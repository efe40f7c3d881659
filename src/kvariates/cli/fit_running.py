"""Chooses how a fit is run, writes its files together, and shows the result."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from kvariates.cli.app import remark, say_held
from kvariates.cli.command_words import command_words
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.output_folder import moved_into_place, refuse_inputs
from kvariates.cli.reading import shown_name
from kvariates.cli.screen import progress_display, show_fit, show_json
from kvariates.extras import needed
from kvariates.sources import input_file

STREAMED = "so it is read as a stream"
NOT_STREAMED = (".npz", ".mtx")  # files of these endings are small, or sparse
FILES = ("centers.csv", "labels.parquet", "model.skops", "report.html", "summary.json")


def run_fit(
    request: FitRequest, out: Path, *, stream: bool | None, dask: str | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Fit, write the files to `out` and print the result."""
    needed("skops.io", "cli", "writing model.skops")  # before the work
    work = _work(request, stream, dask)
    files = [name for name in FILES if name != "labels.parquet" or _labels(request)]
    demand = None if request.budget is None else request.budget.demand
    refuse_inputs(out, FILES, [request.data, request.nodes, demand])
    with (
        progress_display(request.quiet) as progress,
        moved_into_place(out, files, force=force) as folder,
        command_words(request.data, _unit(request)),
    ):
        run = work(request, folder, progress)
        written = sorted(path.name for path in folder.iterdir())
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if force and not _labels(request):
        (out / "labels.parquet").unlink(missing_ok=True)  # of an earlier fit
    say_held(quiet=request.quiet)
    if as_json:
        show_json({**summary, "out": str(out), "files": written})
    elif not request.quiet:
        show_fit(run, out, written)


def _unit(request: FitRequest) -> str:
    """What is clustered."""
    return "nodes" if request.choices.get("metric") == "graph" else "rows"


def _labels(request: FitRequest) -> bool:
    """Whether labels are written: of private rows only if they are asked for."""
    budget = request.budget
    return budget is None or budget.demand is not None or request.labels


def _work(request: FitRequest, stream: bool | None, dask: str | None) -> Any:
    """The function that does the fit."""
    if request.nodes is not None and request.choices.get("metric") != "graph":
        raise ValueError("--nodes is for --objective median --metric graph")
    if request.labels and (request.budget is None or request.budget.demand is not None):
        raise ValueError("--labels is for private rows; otherwise labels.parquet is always written")
    if request.budget is not None:
        if stream or dask is not None:
            raise ValueError(f"--{'stream' if stream else 'dask'} does not work with --epsilon")
        if request.budget.demand is not None:
            from kvariates.cli.fit_demand import fit_demand

            return fit_demand
        from kvariates.cli.fit_private import fit_private

        return fit_private
    if request.objective == "median":
        if stream or dask is not None:
            given = "stream" if stream else "dask"
            raise ValueError(f"--{given} does not work with --objective median")
        from kvariates.cli.fit_median import fit_median

        return fit_median
    if dask is not None:
        if stream:
            raise ValueError("--stream does not work with --dask; leave out one of them")
        from kvariates.cli.dask_fitting import fit_on_cluster

        return partial(fit_on_cluster, dask)
    return _means(request, stream)


def _means(request: FitRequest, stream: bool | None) -> Any:
    data = request.data
    if str(data) == "-":
        if stream:
            raise ValueError("--stream reads a file twice; standard input can be read only once")
        return _in_memory
    if stream is None and data.is_dir():
        remark(f"{shown_name(data)} is a folder, {STREAMED}")
        stream = True
    elif stream is None and data.is_file() and data.suffix not in NOT_STREAMED:
        return partial(_in_memory_or_streamed, _is_large(request))
    if stream:
        from kvariates.cli.fit_stream import fit_stream

        return fit_stream
    return _in_memory


def _in_memory(request: FitRequest, folder: Path, progress: Any) -> Any:
    from kvariates.cli.fit_command import fit_in_memory
    from kvariates.sources.input_file import TooLargeError

    try:
        return fit_in_memory(request, folder, progress)
    except TooLargeError as error:
        raise ValueError(f"{error}; --stream reads a table in blocks") from None


def _in_memory_or_streamed(large: bool, request: FitRequest, folder: Path, progress: Any) -> Any:
    """Read the file into the memory if it fits. A compressed file can be larger than it looks."""
    from kvariates.cli.fit_command import fit_in_memory
    from kvariates.sources.input_file import TooLargeError

    if not large:
        try:
            return fit_in_memory(request, folder, progress)
        except TooLargeError:
            pass
    from kvariates.cli.fit_stream import fit_stream

    remark(f"{request.data.name} is large compared with the memory, {STREAMED}")
    return fit_stream(request, folder, progress)


def _is_large(request: FitRequest) -> bool:
    """Whether a file is large compared with the memory. Nothing is read of a small file."""
    if request.data.stat().st_size < input_file.memory() / 100:
        return False
    from kvariates.cli.fit_stream import too_large

    return too_large(request)
