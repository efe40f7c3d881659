"""The options that commands share, as Typer wants them."""

from __future__ import annotations

import csv
import math
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Argument, BadParameter, Option

from kvariates.cli.app import ARGUMENTS, TableOptions, app

if TYPE_CHECKING:
    from kvariates.cli.reading import ReadRequest


Objective = StrEnum("Objective", "means median")  # what a fit minimises
Scaling = StrEnum("Scaling", "none standard minmax robust")  # see `sources.scaling`
Missing = StrEnum("Missing", "error drop mean")  # what is done with rows that lack a value


def _one_k(words: str) -> str:
    if words != "auto" and not (re.fullmatch(r"\d{1,9}", words) and int(words) >= 1):
        raise BadParameter(f"-k must be a number from 1 on, or auto, not {words!r}.")
    return words


def no_nan(value: float) -> float:
    """A number: nan would pass the limits."""
    if math.isnan(value):
        raise BadParameter("nan is not a number of seconds.")
    return value


def range_of_k(words: str | None) -> str | None:
    """Two numbers of clusters, LOW:HIGH."""
    if words is None:
        return None
    found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", words)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise BadParameter(f"-k must be LOW:HIGH, such as 2:20, not {words!r}.")
    return words


def _sizes(words: str | None) -> str | None:
    if words is not None and not re.fullmatch(r"\d{1,9}(,\d{1,9})*", words):
        raise BadParameter(f"--group-sizes must be numbers such as 90,90,20, not {words!r}.")
    return words


def place(words: str | Path) -> Path:
    """Where to write: an empty word is not the current folder."""
    if not str(words):
        raise BadParameter("-o names no place; -o . is the current folder.")
    return Path(words)


def _folder(words: str | Path) -> Path:
    if str(words) == "-":
        raise BadParameter("-o names a folder; --json prints the result.")
    return place(words)


def _file(words: str) -> str:
    """What to read: an empty word, as of a variable that is not set, is not the current folder."""
    if not words:
        raise BadParameter("the name of the file is empty.")
    return words


Data = Annotated[str, Argument(callback=_file, metavar="DATA", help=ARGUMENTS["data"])]
Out = Annotated[
    Path, Option("-o", "--out", parser=_folder, metavar="PATH", help="Directory for the results.")
]
Columns = Annotated[
    str | None, Option(help="Columns to use, such as a,b,c; all numeric ones if not given.")
]
Weights = Annotated[str | None, Option(help="Column that holds row weights.")]
Identifier = Annotated[
    str | None,
    Option("--id", help="Column that names the rows: copied beside the labels, not clustered."),
]
Keep = Annotated[bool, Option("--keep", help="Copy all columns beside the labels.")]
Scale = Annotated[
    Scaling,
    Option(
        help="Bring columns to one scale first. standard: mean 0, deviation 1; minmax: 0 to 1; "
        "robust: by median and quartiles. Centres are written in the units of the file."
    ),
]
Named = Annotated[str | None, Option(help="")]  # its help is made from a table
Seed = Annotated[int | None, Option(min=0, max=2**32 - 1, help="Seed; one is drawn if not given.")]
Force = Annotated[bool, Option("--force", help="Replace files of an earlier run.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print warnings and errors only.")]


@dataclass(frozen=True)
class Written:
    """How a table is written, and what is done with missing values."""

    missing: Missing | None = Option(
        None,
        help="Rows with a missing value. error: stop; drop: leave them out; mean: fill in the "
        "mean.",
    )
    delimiter: str | None = Option(
        None, help="Of a text table: a character, tab or space. Detected if not given."
    )
    decimal: str | None = Option(None, help="Decimal mark of a text table: . or ,")
    encoding: str | None = Option(
        None, help="Of a text table, such as latin-1. Detected if not given."
    )
    header: bool | None = Option(
        None, help="Whether a text table begins with names. Detected if not given."
    )
    na: list[str] | None = Option(
        None,
        metavar="TEXT",
        help="Cells of a text table with this text are missing. Can be given several times.",
    )
    skip: int = Option(0, min=0, help="Lines of a text table to leave out before its names.")

    def request(
        self, data: str, columns: str | None, missing: str = "error", **others: Any
    ) -> ReadRequest:
        """What to read. `missing`: what is done with missing values if no option says so."""
        from kvariates.cli.reading import ReadRequest
        from kvariates.sources import TextOptions
        from kvariates.sources.input_file import path_or_url

        written = vars(self) | {"na": tuple(self.na or ())}
        how, text = str(written.pop("missing") or missing), TextOptions(**written)
        return ReadRequest(path_or_url(data), names_of(columns), missing=how, text=text, **others)


@dataclass(frozen=True)
class Shown:
    """What is printed."""

    as_json: bool = Option(False, "--json", help="Print the result as JSON.")
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class FitArguments:
    """The options of `fit`."""

    data: Data
    k: str = Option(..., "-k", "--clusters", callback=_one_k, help="Number of clusters, or auto.")
    out: Out = Path("kvariates-out")
    objective: Objective = Option(
        Objective.means,
        help="means: squared distances to centres; median: distances to k of the rows (medoids).",
    )
    metric: str | None = Option(
        None,
        help='Distance. For "haversine" the file has degrees, latitude first, then longitude; '
        "the command turns them into radians.",
    )
    init: Named = None
    algorithm: Named = None
    n_init: int | None = Option(None, min=1, help="Number of starts; the best is kept.")
    seed: Seed = None
    columns: Columns = None
    weights: Weights = None
    identifier: Identifier = None
    keep: Keep = False
    nodes: Path | None = Option(
        None,
        metavar="FILE",
        help="For --metric graph: a table with the coordinates of the nodes, for the drawing "
        "in the report: a column node, and two of numbers, as lon and lat.",
    )
    scale: Scale = Scaling.none
    standardize: bool = Option(False, "--standardize", help="The same as --scale standard.")
    size_min: float | None = Option(None, min=0, help="No cluster has fewer rows (or less weight).")
    size_max: float | None = Option(None, min=0, help="No cluster has more rows (or more weight).")
    certify: bool = Option(
        False, "--certify", help="Compute a lower bound on the cost; often takes 10 to 25 s."
    )
    epsilon: float | None = Option(
        None,
        help="Fit privately with this budget; smaller is more private. Needs --bounds, or "
        "--demand for a median.",
    )
    delta: float | None = Option(None, help="The delta of a private fit; 0 if not given.")
    bounds: list[str] | None = Option(
        None,
        help="The possible values of a private fit's columns, never taken from the data: "
        '"lo,hi" for all, "a=0:10,b=0:1" by column, or a file of lines column,low,high.',
    )
    demand: Path | None = Option(
        None,
        metavar="FILE",
        help="For a private median: a private file with the point of each person, a line "
        "each: its value in the column of --id, its node, counted from 0, or its row, from 1.",
    )
    labels: bool = Option(
        False, "--labels", help="Write the labels of a private fit. They are not private."
    )
    stream: bool | None = Option(
        None,
        help="Read the file in blocks, cluster a summary of its rows (StreamingKMeans), and "
        "read it again for the labels. By default this is done for a folder of .parquet "
        "files, and if the table would fill more than a third of the memory.",
    )
    dask: str | None = Option(
        None,
        metavar="ADDRESS",
        help="Cluster .parquet files on the Dask cluster with this scheduler, such as "
        "tcp://10.0.0.1:8786. Its workers must see the files under the same path.",
    )
    written: Written
    force: Force = False
    shown: Shown

    @property
    def private_rows(self) -> bool:
        """Whether the rows are private, and not only the demand of points."""
        return self.epsilon is not None and self.objective == "means"


@dataclass(frozen=True, kw_only=True)
class GroupArguments:
    """The options of `anticluster`."""

    data: Data
    groups: int = Option(..., "-g", "--groups", min=1, help="Number of groups.")
    out: Out = Path("kvariates-groups")
    columns: Columns = None
    identifier: Identifier = None
    balance: str | None = Option(
        None, help="Columns of categories, such as a,b: all groups get the same shares."
    )
    group_sizes: str | None = Option(
        None,
        metavar="N,N,...",
        callback=_sizes,
        help="Rows of each group; if not given, as many in each.",
    )
    must_link: str | None = Option(None, help="Column: rows with the same value stay in one group.")
    cannot_link: str | None = Option(
        None, help="Column: rows with the same value get different groups."
    )
    objective: str = Option("variance", help="")
    standardize: bool = Option(True, help="Give each column mean 0 and deviation 1 first.")
    seed: Seed = None
    written: Written
    force: Force = False
    shown: Shown


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function; the fields of its records are options of their own."""

    def run(**given: Any) -> None:
        function(**_gathered(function, given))

    options = _options(function)
    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return app.command(function.__name__, cls=TableOptions, help=function.__doc__)(run)


def _options(made: Any) -> list[Parameter]:
    """The options of a function, or of a record."""
    found: list[Parameter] = []
    types = get_type_hints(made, include_extras=True)
    for name, parameter in signature(made).parameters.items():
        if is_dataclass(types[name]):
            found += _options(types[name])
        else:
            kind = Parameter.KEYWORD_ONLY
            found.append(parameter.replace(kind=kind, annotation=types[name]))
    return found


def _gathered(made: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function, or of a record, of these options."""
    types: dict[str, type] = get_type_hints(made)
    return {
        name: kind(**_gathered(kind, given)) if is_dataclass(kind := types[name]) else given[name]
        for name in signature(made).parameters
    }


def names_of(by_comma: str | None) -> list[str] | None:
    """The names of a list a,b,c; a name with a comma stands in double quotes."""
    if by_comma is None:
        return None
    cells = next(csv.reader([by_comma], skipinitialspace=True), [])
    return [name.strip() for name in cells]


def drawn(seed: int | None) -> int:
    """The seed that was given, or a new one. It is told, so that the run can be repeated."""
    return secrets.randbits(32) if seed is None else seed
