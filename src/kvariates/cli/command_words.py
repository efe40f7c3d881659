"""Errors of the library in the words of the command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvariates.sources import MissingValuesError

DROP = "--missing drop leaves such rows out"
REMEDY = f"{DROP}, --missing mean fills in the mean of the column"
OPTIONS = {"n_clusters": "-k", "n_groups": "-g"}
LINKS = re.compile(r"\b(group_sizes|must_link|cannot_link)\b")
TOO_FEW = re.compile(r"n_samples=(\d+) should be >= (n_clusters|n_groups)=(\d+)\.?")


def _option(found: re.Match[str]) -> str:
    return f"--{found[0].replace('_', '-')}"


@contextmanager
def command_words(data: Path, unit: str = "rows") -> Iterator[None]:
    """Name the options in place of parameters, and the file."""
    try:
        yield
    except MissingValuesError as error:
        raise ValueError(f"{error.where}; {DROP}") from None
    except ValueError as error:
        if (few := TOO_FEW.fullmatch(str(error))) is None:
            raise ValueError(LINKS.sub(_option, str(error))) from error
        n, name, asked = int(few[1]), few[2], few[3]
        words = f"{OPTIONS[name]} {asked} is above the {n:,} {unit} of {data}"
        raise ValueError(words) from None
