"""What `kvariates fit` was asked to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvariates.cli.bounds_option import BOUNDS_HELP, Bounds, parse_bounds
from kvariates.cli.reading import ReadRequest

DEMAND = (
    "a private file with the point of each person, a line each (the rows of DATA, the points, are "
    "public)"
)
NOT_REPEATED = ("-q", "--quiet", "--json", "--force")  # --force is given last
USUAL = {"metric": "euclidean", "algorithm": "auto"}  # what KMeans uses if no value is given


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
