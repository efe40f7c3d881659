"""What `kvariates fit` was asked to do."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kvariates.cli.app import Notes
from kvariates.cli.reading import ReadRequest
from kvariates.sources.input_file import PathOrUrl

DEMAND = (
    "a private file with the point of each person, a line each (the rows of DATA, the points, are "
    "public)"
)
NOT_REPEATED = ("-q", "--quiet", "--json", "--force")  # --force is given last
USUAL = {"metric": "euclidean", "algorithm": "auto"}  # what KMeans uses if no value is given
BOUNDS_HELP = '"lo,hi" for all columns, "a=0:10,b=0:1", or a file of lines column,low,high'


@dataclass(frozen=True)
class PrivateBudget:
    """The budget of a private fit, and what is private.

    Attributes
    ----------
    epsilon, delta : float
    bounds : mapping
        For k-means, whose rows are private: the bounds of the columns by name ("": of all).
    demand : Path or None
        For k-median, whose points are public: the file of the private demand.
    """

    epsilon: float
    delta: float
    bounds: Mapping[str, Bounds]
    demand: Path | None = None


@dataclass(frozen=True)
class FitRequest:
    """A fit.

    Attributes
    ----------
    reading : ReadRequest
    k : int or None
        The number of clusters; None: it is chosen.
    choices : dict
        The parameters of the estimator that were given.
    objective : {"means", "median"}
    scaling : {"none", "standard", "minmax", "robust"}
    budget : PrivateBudget or None
    labels : bool
        Whether a private fit writes labels.
    nodes : Path or None
        The file with the coordinates of the nodes of a graph, for the drawing.
    words : tuple of str
        The command line.
    quiet : bool
    """

    reading: ReadRequest
    k: int | None
    choices: dict[str, Any]
    objective: str = "means"
    scaling: str = "none"
    budget: PrivateBudget | None = None
    labels: bool = False
    nodes: Path | None = None
    words: tuple[str, ...] = ()
    quiet: bool = False

    @property
    def data(self) -> PathOrUrl:
        return self.reading.data

    @property
    def notes(self) -> Notes:
        return self.reading.notes

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

    def without_usual(self) -> FitRequest:
        """The same request without the parameters of KMeans that have their usual value."""
        kept = {n: value for n, value in self.choices.items() if USUAL.get(n) != value}
        return replace(self, choices=kept)

    def refuse(self, why: str, *names: str) -> None:
        """Raise ValueError if one of these parameters was given."""
        for name in names:
            if name in self.choices:
                value = self.choices[name]
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                shown = "" if value is True else f" {shown}"
                raise ValueError(f"--{name.replace('_', '-')}{shown} {why}")


def private_budget(
    epsilon: float | None, delta: float | None, bounds: str | None, demand: Path | None,
    objective: str,
) -> PrivateBudget | None:  # fmt: skip
    """The budget of these options. ValueError if some of them are missing."""
    if epsilon is None:
        for name, value in (("delta", delta), ("bounds", bounds), ("demand", demand)):
            if value is not None:
                raise ValueError(f"--{name} is for private fits; give --epsilon, too")
        return None
    if objective == "median":
        if bounds is not None:
            raise ValueError("--bounds is for --objective means; the points of a median are public")
        if demand is None:
            raise ValueError(f"--epsilon with --objective median needs --demand FILE: {DEMAND}")
        return PrivateBudget(epsilon, delta or 0.0, {}, demand)
    if demand is not None:
        raise ValueError("--demand is for --objective median; for means the rows are private")
    if bounds is None:
        raise ValueError(
            f"--epsilon needs --bounds: {BOUNDS_HELP}; the possible values, not those of the data, "
            "whose minimum and maximum reveal single rows"
        )
    return PrivateBudget(epsilon, delta or 0.0, parse_bounds(bounds))


@dataclass(frozen=True)
class Bounds:
    """The lower and the upper bound of a column. `place`: in a file, if they come from one."""

    low: float
    high: float
    place: str = ""

    def named(self, name: str) -> str:
        """The name of the column for messages; of a file, only where it is."""
        return f"named in {self.place}" if self.place else repr(name)


class _Entry(NamedTuple):
    """The bounds of a column, as they are written."""

    name: str
    ends: tuple[str, str]
    place: str = ""

    def refuse(self, what: str, shown: str) -> NoReturn:
        """ValueError that says `what` about a line of a file, or `shown` about words."""
        raise ValueError(f"{self.place}: {what}" if self.place else f"--bounds: {shown}")


def parse_bounds(words: str) -> dict[str, Bounds]:
    """Bounds by column; the key "" is for all columns."""
    if _is_file(words):
        return _checked(_of_file(Path(words)))
    pair = re.fullmatch(r"\s*([^,:=]+)\s*[,:]\s*([^,:=]+)\s*", words)
    if pair:
        return _checked([_Entry("", (pair[1], pair[2]))])
    found = []
    for part in words.split(","):
        item = re.fullmatch(r"\s*(.+?)\s*=\s*([^:]+):([^:]+)", part)
        if not item:
            raise ValueError(f"--bounds {words}: is neither a file nor bounds; give {BOUNDS_HELP}")
        found.append(_Entry(item[1], (item[2], item[3])))
    return _checked(found)


def _is_file(words: str) -> bool:
    try:
        return Path(words).is_file()
    except OSError:  # too long for the name of a file
        return False


def _checked(entries: Iterable[_Entry]) -> dict[str, Bounds]:
    found: dict[str, Bounds] = {}
    for entry in entries:
        low, high = (_number(end, entry) for end in entry.ends)
        _check_range(low, high, entry)
        if entry.name in found:
            entry.refuse("the column has bounds already", f"{entry.name!r} has bounds twice")
        found[entry.name] = Bounds(low, high, entry.place)
    return found


def _number(cell: str, entry: _Entry) -> float:
    try:
        return float(cell)
    except ValueError:
        entry.refuse("a bound is not a number", f"{cell!r} is not a number")


def _check_range(low: float, high: float, entry: _Entry) -> None:
    """ValueError unless PrivateKMeans takes these bounds."""
    from kvariates.estimators.private_input import LARGEST, SMALLEST

    of = f" of {entry.name}" if entry.name else ""
    if not max(abs(low), abs(high)) <= LARGEST:
        within = f"must be numbers within +-{LARGEST:g}; use other units"
        entry.refuse(f"bounds {within}", f"the bounds{of} {within}")
    if not low < high:
        words = f"the lower bound{of} ({low:g}) is not below {high:g}"
        entry.refuse("the lower bound is not below the upper one", words)
    if not SMALLEST <= high - low <= LARGEST:
        apart = f"must be {SMALLEST:g} to {LARGEST:g} apart; use other units"
        entry.refuse(f"bounds {apart}", f"the bounds{of} {apart}")


def _of_file(path: Path) -> list[_Entry]:
    """The bounds of a file of lines column,low,high."""
    try:
        return list(_line_entries(path, path.read_text(encoding="utf-8-sig")))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path}: cannot be read as bounds; give {BOUNDS_HELP}") from None


def _line_entries(path: Path, text: str) -> Iterator[_Entry]:
    reader = csv.reader(io.StringIO(text), delimiter=";" if ";" in text else ",")
    rows = [(reader.line_num, row) for row in reader if row]
    if rows and not any(_is_number(cell) for cell in rows[0][1][1:]):
        rows = rows[1:]  # a line of names
    if not rows:
        raise ValueError(f"{path}: bounds are lines column,low,high")
    for line, row in rows:
        if len(row) != 3:
            raise ValueError(f"{path}, line {line}: bounds are lines column,low,high")
        yield _Entry(row[0].strip(), (row[1], row[2]), f"{path}, line {line}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
