"""What `fit` was asked to do: chooses how it is run, writes its files, and shows the result."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress

from kvariates.cli.app import Notes
from kvariates.cli.options import FitArguments, drawn
from kvariates.cli.reading import ReadRequest
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import command_words, phase, progress_display, show_fit, show_json
from kvariates.estimators.fit_record import fit_record_of
from kvariates.extras import needed
from kvariates.file_writing import moved_into_place, refuse_inputs
from kvariates.report.fit_page import write_fit
from kvariates.report.run import FitRun, FittedTable, ShownRows
from kvariates.sources import Scale
from kvariates.sources.input_file import PathOrUrl

FILES = ("centers.csv", "labels.parquet", "model.skops", "report.html", "summary.json")
NOT_REPEATED = ("-q", "--quiet", "--json", "--force")  # --force is given last
CHOICES = ("metric", "init", "algorithm", "n_init", "size_min", "size_max", "certify")
KEPT = ("n_clusters", "init", "metric", "algorithm", "n_init", "random_state")
UNSHOWN = ("columns", "weights", "id", "seed")  # options whose values errors do not tell
BOUNDS_HELP = '"lo,hi" for all columns, "a=0:10,b=0:1", or a file of lines column,low,high'
WITH_EPSILON = "does not work with --epsilon"
NO_SEED = ": noise that can be repeated is not private"
DEMAND = (
    "a private file with the point of each person, a line each (the rows of DATA, the points, are "
    "public)"
)


@dataclass(frozen=True)
class FitRequest:
    """A fit: its options, and what follows from them."""

    options: FitArguments
    reading: ReadRequest
    choices: dict[str, Any]  # the parameters of the estimator that were given
    words: tuple[str, ...] = ()  # the command line

    @classmethod
    def of(cls, options: FitArguments, words: tuple[str, ...], notes: Notes) -> FitRequest:
        """What these options ask for. ValueError if some of them exclude each other."""
        given = {name: vars(options)[name] for name in CHOICES} | {"random_state": options.seed}
        if options.epsilon is None:
            given["random_state"] = drawn(options.seed)
        reading = options.written.request(
            options.data, options.columns, "keep" if options.private_rows else "error",
            weights=options.weights, identifier=options.identifier, keep=options.keep, notes=notes,
        )  # fmt: skip
        if options.standardize and options.scale not in ("none", "standard"):
            raise ValueError(
                f"--standardize is --scale standard; leave it out with --scale {options.scale}"
            )
        # Not those that are 0.
        choices = {name: v for name, v in given.items() if v is not None and v is not False}
        return cls(options, reading, choices, words)

    @property
    def data(self) -> PathOrUrl:
        return self.reading.data

    @property
    def notes(self) -> Notes:
        return self.reading.notes

    @property
    def k(self) -> int | None:
        """The number of clusters; None: it is chosen."""
        return None if self.options.k == "auto" else int(self.options.k)

    @property
    def metric(self) -> Any:
        return self.choices.get("metric", "euclidean")

    @property
    def scaling(self) -> str:
        return "standard" if self.options.standardize else self.options.scale.value

    @property
    def budget(self) -> dict[str, Any]:
        """The budget of a private fit."""
        return {"epsilon": self.options.epsilon, "delta": self.options.delta or 0.0}

    @property
    def command(self) -> str:
        """The command line that repeats the run, and replaces its files."""
        words = [word for word in self.words if word not in NOT_REPEATED]
        if not words:
            return ""
        seed, more = self.choices.get("random_state"), ["--force"]
        if seed is not None and not any(re.match("--seed(=|$)", word) for word in words):
            more = ["--seed", str(seed), *more]
        end = words.index("--") if "--" in words else len(words)
        return shlex.join(["kvariates", *words[:end], *more, *words[end:]])

    def refuse(self, why: str, *names: str, but: Sequence[str] = (), **ends: str) -> None:
        """Raise ValueError if one of these options was given, unless its value is in `but`.

        The error is the option, `why`, and what `ends` says about this option.
        """
        options = self.options
        values = vars(options) | {
            "k": "auto" if self.k is None else None, "id": options.identifier,
            "missing": options.written.missing, "scale": self.scaling,
        }  # fmt: skip
        for name in (*names, *ends):
            value = values[name]
            if value is None or value is False or value in ("none", "error", *but):
                continue
            shown = f" {value:g}" if isinstance(value, float) else f" {value}"
            shown = "" if value is True or name in UNSHOWN else shown
            option = "-k" if name == "k" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{option}{shown} {why}{ends.get(name, '')}")

    def parameters(self, model: Any) -> dict[str, Any]:
        """The parameters for the summary: the usual ones, and all that were given."""
        values = model.get_params(deep=False)
        names = dict.fromkeys((*KEPT, *self.choices))
        found = {name: values[name] for name in names if name in values}
        return found | ({"scale": self.scaling} if self.scaling != "none" else {})

    def table(
        self, names: Sequence[str], left_out: Sequence[str], rows: int | None, **more: Any
    ) -> FittedTable:
        """What was read. `more`: other fields."""
        weighted, scaled = self.reading.weights is not None, self.scaling != "none"
        return FittedTable(self.data, tuple(names), tuple(left_out), rows, weighted, scaled, **more)

    def run(self, model: Any, **fields: Any) -> FitRun:
        """The result for the files. Fields that are not given are those of the model."""
        record = fit_record_of(model)
        known: dict[str, Any] = {
            "parameters": self.parameters(model), "inertia": record.inertia,
            "n_iter": record.n_iter, "record": record, "command": self.command,
            "notes": self.notes.lines,
        }  # fmt: skip
        return FitRun(**known | fields)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit, ready to be written, but for its labels."""

    run: FitRun
    shown: ShownRows | None
    model: Any
    scale: Scale | None = None
    means: Any = None  # of missing values that were filled in
    names: tuple[str, ...] = ()  # of the features, if they are not those of the table


def run_fit(request: FitRequest) -> None:
    """Fit, write the files and print the result."""
    needed("skops.io", "cli", "writing model.skops")  # before the work
    options, notes, work = request.options, request.notes, _work(request)
    out, shown = options.out, options.shown
    labelled = options.labels or not options.private_rows  # private rows: only if asked for
    files = [name for name in FILES if labelled or name != "labels.parquet"]
    refuse_inputs(out, FILES, [request.data, options.nodes, options.demand])
    with (
        progress_display(shown.quiet) as progress,
        moved_into_place(out, files, force=options.force) as folder,
        command_words(request.data, "nodes" if request.metric == "graph" else "rows"),
    ):
        fitted = work(request, folder, progress)
        with phase(progress, "writing"):
            names = fitted.names or fitted.run.table.names
            save_model(fitted.model, names, fitted.scale, folder / "model.skops", fitted.means)
            write_fit(fitted.run, fitted.shown, folder)
        written = sorted(path.name for path in folder.iterdir())
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if options.force and not labelled:
        (out / "labels.parquet").unlink(missing_ok=True)  # of an earlier fit
    notes.say()
    if shown.as_json:
        show_json({**summary, "out": str(out), "files": written})
    elif not shown.quiet:
        show_fit(fitted.run, out, written)


def _work(request: FitRequest) -> Callable[[FitRequest, Path, Progress], Fitted]:
    """The function that does the fit. ValueError for options that exclude each other."""
    options, private = request.options, request.options.epsilon is not None
    median, stream, dask = options.objective == "median", options.stream, options.dask
    if options.nodes is not None and request.metric != "graph":
        raise ValueError("--nodes is for --objective median --metric graph")
    if options.labels and not options.private_rows:
        raise ValueError("--labels is for private rows; otherwise labels.parquet is always written")
    if (stream or dask is not None) and (private or median):
        other = "--epsilon" if private else "--objective median"
        raise ValueError(f"--{'stream' if stream else 'dask'} does not work with {other}")
    _check_private(options)
    if median:
        from kvariates.cli.fit_median import fit_demand, fit_median

        return fit_demand if private else fit_median
    if private:
        from kvariates.cli.fit_private import fit_private

        return fit_private
    if dask is not None:
        if stream:
            raise ValueError("--stream does not work with --dask; leave out one of them")
        from kvariates.cli.fit_dask import fit_on_cluster

        return partial(fit_on_cluster, dask)
    from kvariates.cli.fit_means import fit_means

    return partial(fit_means, stream)


def _check_private(options: FitArguments) -> None:
    """Raise ValueError if an option of private fits is missing, or is one too many."""
    bounds, demand, median = options.bounds, options.demand, options.objective == "median"
    if options.epsilon is None:
        for name, value in (("delta", options.delta), ("bounds", bounds), ("demand", demand)):
            if value:
                raise ValueError(f"--{name} is for private fits; give --epsilon, too")
    elif median and bounds:
        raise ValueError("--bounds is for --objective means; the points of a median are public")
    elif median and demand is None:
        raise ValueError(f"--epsilon with --objective median needs --demand FILE: {DEMAND}")
    elif demand is not None and not median:
        raise ValueError("--demand is for --objective median; for means the rows are private")
    elif not median and not bounds:
        raise ValueError(
            f"--epsilon needs --bounds: {BOUNDS_HELP}; the possible values, not those of the data, "
            "whose minimum and maximum reveal single rows"
        )
