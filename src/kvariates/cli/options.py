"""The options that commands share, as Typer wants them."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvariates.cli.app import ARGUMENTS

if TYPE_CHECKING:
    from kvariates.cli.reading import ReadRequest


class Objective(StrEnum):
    """What a fit minimises."""

    means = "means"
    median = "median"


class Scaling(StrEnum):
    """How columns are scaled; `sources.scaling` has what each means."""

    none = "none"
    standard = "standard"
    minmax = "minmax"
    robust = "robust"


class Missing(StrEnum):
    """What is done with rows that have a missing value."""

    error = "error"
    drop = "drop"
    mean = "mean"


def _one_k(words: str) -> str:
    if words != "auto" and not (re.fullmatch(r"\d{1,9}", words) and int(words) >= 1):
        raise typer.BadParameter(f"-k must be a number from 1 on, or auto, not {words!r}.")
    return words


def _no_nan(value: float) -> float:
    if math.isnan(value):  # passes the limits
        raise typer.BadParameter("nan is not a number of seconds.")
    return value


def _range_of_k(words: str | None) -> str | None:
    if words is None:
        return None
    found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", words)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"-k must be LOW:HIGH, such as 2:20, not {words!r}.")
    return words


def _sizes(words: str | None) -> str | None:
    if words is not None and not re.fullmatch(r"\d{1,9}(,\d{1,9})*", words):
        raise typer.BadParameter(f"--group-sizes must be numbers such as 90,90,20, not {words!r}.")
    return words


def _place(words: str | Path) -> Path:
    """Where to write: an empty word is not the current folder."""
    if not str(words):
        raise typer.BadParameter("-o names no place; -o . is the current folder.")
    return Path(words)


def _folder(words: str | Path) -> Path:
    if str(words) == "-":
        raise typer.BadParameter("-o names a folder; --json prints the result.")
    return _place(words)


def _file(words: str) -> str:
    """What to read: an empty word, as of a variable that is not set, is not the current folder."""
    if not words:
        raise typer.BadParameter("the name of the file is empty.")
    return words


Data = Annotated[str, typer.Argument(callback=_file, metavar="DATA", help=ARGUMENTS["data"])]
Clusters = Annotated[
    str, typer.Option("-k", "--clusters", callback=_one_k, help="Number of clusters, or auto.")
]
ClusterRange = Annotated[
    str | None,
    typer.Option(
        "-k",
        "--clusters",
        metavar="LOW:HIGH",
        callback=_range_of_k,
        help="Compare LOW to HIGH clusters; if not given, 2 to 20 or to the number of rows.",
    ),
]
Out = Annotated[
    Path,
    typer.Option("-o", "--out", parser=_folder, metavar="PATH", help="Directory for the results."),
]
Columns = Annotated[
    str | None, typer.Option(help="Columns to use, such as a,b,c; all numeric ones if not given.")
]
Weights = Annotated[str | None, typer.Option(help="Column that holds row weights.")]
Identifier = Annotated[
    str | None,
    typer.Option(
        "--id", help="Column that names the rows: copied beside the labels, not clustered."
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Copy all columns beside the labels.")]
Scale = Annotated[
    Scaling,
    typer.Option(
        help="Bring columns to one scale first. standard: mean 0, deviation 1; minmax: 0 to 1; "
        "robust: by median and quartiles. Centres are written in the units of the file."
    ),
]
Standardize = Annotated[bool, typer.Option("--standardize", help="The same as --scale standard.")]
MissingValues = Annotated[
    Missing | None,
    typer.Option(
        help="Rows with a missing value. error: stop; drop: leave them out; mean: fill in the mean."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Of a text table: a character, tab or space. Detected if not given."),
]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of a text table: . or ,")]
Encoding = Annotated[
    str | None, typer.Option(help="Of a text table, such as latin-1. Detected if not given.")
]
Header = Annotated[
    bool | None, typer.Option(help="Whether a text table begins with names. Detected if not given.")
]
NaWords = Annotated[
    list[str] | None,
    typer.Option(
        "--na",
        metavar="TEXT",
        help="Cells of a text table with this text are missing. Can be given several times.",
    ),
]
SkippedLines = Annotated[
    int, typer.Option("--skip", min=0, help="Lines of a text table to leave out before its names.")
]
FitMetric = Annotated[
    str | None,
    typer.Option(
        help='Distance. For "haversine" the file has degrees, latitude first, then longitude; the '
        "command turns them into radians."
    ),
]
Name = Annotated[str | None, typer.Option(help="")]
FitObjective = Annotated[
    Objective,
    typer.Option(
        help="means: squared distances to centres; median: distances to k of the rows (medoids)."
    ),
]
Nodes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="For --metric graph: a table with the coordinates of the nodes, for the drawing in "
        "the report: a column node, and two of numbers, as lon and lat.",
    ),
]
GroupObjective = Annotated[str, typer.Option(help="")]
Seedings = Annotated[str, typer.Option("--init", help="Seedings to compare, such as a,b.")]
Certify = Annotated[
    bool,
    typer.Option("--certify", help="Compute a lower bound on the cost; often takes 10 to 25 s."),
]
Model = Annotated[Path, typer.Argument(help=ARGUMENTS["model"])]
LabelsOut = Annotated[
    Path,
    typer.Option(
        "-o",
        "--out",
        parser=_place,
        metavar="PATH",
        help="File for the labels: .parquet or .csv; - prints them as CSV.",
    ),
]
Method = Annotated[str, typer.Argument(help=ARGUMENTS["method"])]
Claim = Annotated[float, typer.Option("--epsilon", help="The claim to attack.")]
ClaimDelta = Annotated[float, typer.Option("--delta", help="The delta of the claim.")]
Seconds = Annotated[
    float, typer.Option(min=1, max=86400, callback=_no_nan, help="About how long to attack.")
]
Runs = Annotated[
    int | None, typer.Option(min=4, help="Fits on each of two data sets, instead of --seconds.")
]
Starts = Annotated[int | None, typer.Option(min=1, help="Number of starts; the best is kept.")]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**32 - 1, help="Seed; one is drawn if not given.")
]
SizeMin = Annotated[
    float | None, typer.Option(min=0, help="No cluster has fewer rows (or less weight).")
]
SizeMax = Annotated[
    float | None, typer.Option(min=0, help="No cluster has more rows (or more weight).")
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="Fit privately with this budget; smaller is more private. Needs --bounds, or "
        "--demand for a median."
    ),
]
Delta = Annotated[float | None, typer.Option(help="The delta of a private fit; 0 if not given.")]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        help='The possible values of a private fit\'s columns, never taken from the data: "lo,hi" '
        'for all, "a=0:10,b=0:1" by column, or a file of lines column,low,high.'
    ),
]
Demand = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="For a private median: a private file with the point of each person, a line each: "
        "its value in the column of --id, its node, or else its row, counted from 1.",
    ),
]
Labels = Annotated[
    bool, typer.Option("--labels", help="Write the labels of a private fit. They are not private.")
]
Stream = Annotated[
    bool | None,
    typer.Option(
        help="Read the file in blocks, cluster a summary of its rows (StreamingKMeans), and read "
        "it again for the labels. By default this is done for a folder of .parquet files, and if "
        "the table would fill more than a third of the memory."
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Cluster .parquet files on the Dask cluster with this scheduler, such as "
        "tcp://10.0.0.1:8786. Its workers must see the files under the same path.",
    ),
]
Groups = Annotated[int, typer.Option("-g", "--groups", min=1, help="Number of groups.")]
Balance = Annotated[
    str | None,
    typer.Option(help="Columns of categories, such as a,b: all groups get the same shares."),
]
GroupSizes = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        callback=_sizes,
        help="Rows of each group; if not given, as many in each.",
    ),
]
MustLink = Annotated[
    str | None, typer.Option(help="Column: rows with the same value stay in one group.")
]
CannotLink = Annotated[
    str | None, typer.Option(help="Column: rows with the same value get different groups.")
]
Alike = Annotated[bool, typer.Option(help="Give each column mean 0 and deviation 1 first.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files of an earlier run.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]


def names_of(by_comma: str | None) -> list[str] | None:
    """The names of a list a,b,c; a name with a comma stands in double quotes."""
    if by_comma is None:
        return None
    import csv

    cells = next(csv.reader([by_comma], skipinitialspace=True), [])
    return [name.strip() for name in cells]


def gathered(
    data: str,
    columns: str | None,
    missing: str | None,
    text: tuple[Any, ...],
    **others: Any,
) -> ReadRequest:
    """What to read. `text`: the options of `TextOptions` in their order, None if not given."""
    from kvariates.cli.reading import ReadRequest
    from kvariates.sources import TextOptions
    from kvariates.sources.input_file import path_or_url

    delimiter, decimal, encoding, header, na, skip = text
    written = TextOptions(delimiter, decimal, encoding, header, tuple(na or ()), skip)
    how = missing or "error"
    return ReadRequest(
        path_or_url(data), names_of(columns), missing=str(how), text=written, **others
    )
