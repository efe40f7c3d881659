"""What `kvariates fit` was asked to do."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvariates.cli.reading import ReadRequest

Interval = tuple[float, float]
DEMAND = (
    "a private file with the point of each person, a line each (the rows of DATA, the points, are "
    "public)"
)
NOT_REPEATED = ("-q", "--quiet", "--json", "--force")  # --force is given last
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
    bounds: Mapping[str, Interval]
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
    def data(self) -> Path:
        return self.reading.data

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
            "whose minimum and maximum tell about single rows"
        )
    return PrivateBudget(epsilon, delta or 0.0, parse_bounds(bounds))


def parse_bounds(words: str) -> dict[str, Interval]:
    """Bounds by column; the key "" is for all columns."""
    path = Path(words)
    if len(words) < 1000 and path.is_file():
        return _checked(_file_bounds(path))
    pair = re.fullmatch(r"\s*([^,:=]+)\s*[,:]\s*([^,:=]+)\s*", words)
    if pair:
        return _checked({"": (_number(pair[1]), _number(pair[2]))})
    found = {}
    for part in words.split(","):
        item = re.fullmatch(r"\s*(.+?)\s*=\s*([^:]+):([^:]+)", part)
        if not item:
            raise ValueError(f"--bounds {words}: is neither a file nor bounds; give {BOUNDS_HELP}")
        found[item[1]] = (_number(item[2]), _number(item[3]))
    return _checked(found)


def _number(words: Any) -> float:
    try:
        return float(words)
    except (TypeError, ValueError):
        raise ValueError(f"--bounds: {words!r} is not a number") from None


def _checked(bounds: dict[str, Interval]) -> dict[str, Interval]:
    for name, (low, high) in bounds.items():
        if not low < high:
            of = f" of {name}" if name else ""
            raise ValueError(f"--bounds: the lower bound{of} ({low:g}) is not below {high:g}")
    return bounds


def _file_bounds(path: Path) -> dict[str, Interval]:
    """The bounds of a JSON file {"a": [0, 10]}, or of lines column,low,high."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        content = json.loads(text) if text.lstrip().startswith(("{", "[")) else None
    except ValueError:
        raise ValueError(f"{path}: cannot be read as bounds; give {BOUNDS_HELP}") from None
    if content is not None:
        pairs = content if isinstance(content, dict) else {"": content}
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs.values()):
            raise ValueError(f'{path}: bounds are written as {{"column": [low, high]}}')
        return {name: (_number(low), _number(high)) for name, (low, high) in pairs.items()}
    delimiter = ";" if ";" in text else ","
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    if rows and not any(_is_number(cell) for cell in rows[0][1:]):
        rows = rows[1:]  # a line of names
    if not rows or any(len(row) != 3 for row in rows):
        raise ValueError(f"{path}: bounds are lines column,low,high")
    return {name.strip(): (_number(low), _number(high)) for name, low, high in rows}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
