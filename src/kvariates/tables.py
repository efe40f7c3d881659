"""Tables of choices: what a parameter accepts by name, and all that is known about each choice.

A table is the only list of its names. Parameter checks, error messages, `guarantee_`, the command
line, the API documentation and the contract tests are made from it. To add a choice, write its
function and add one entry.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One choice.

    run : the function or object that does the work.
    help : one sentence for the documentation and the command line.
    needs : what it needs; a choice works where all of it is offered.
    theorem : the theorem it carries, or None.
    lost : why it carries none, in one sentence; None if it carries one.
    """

    run: T
    help: str
    needs: frozenset[str] = frozenset()
    theorem: str | None = None
    lost: str | None = None


class Choices(Mapping[str, Entry[T]]):
    """Entries by name. `parameter` is the parameter that takes the names."""

    parameter: str

    def offered(self, offers: frozenset[str]) -> list[str]:
        """The names of the entries that need no more than what is offered."""
        return [name for name, entry in self.items() if entry.needs <= offers]

    def check(self, name: str, offers: frozenset[str], what: str) -> None:
        """Raise ValueError if the entry needs more than `what` offers."""
        if name not in self.offered(offers):
            names = sorted(self.offered(offers))
            raise ValueError(
                f"{self.parameter}={name!r} does not work with {what}; use one of {names}."
            )

    @property
    def names(self) -> str:
        """All names, quoted, for a docstring."""
        return ", ".join(f'"{name}"' for name in self)

    def bullets(self, indent: str) -> str:
        """A list with one line of help for each entry, for a docstring."""
        return "\n".join(
            textwrap.fill(
                f'- "{name}": {entry.help}', 100,
                initial_indent=indent, subsequent_indent=indent + "  ",
            )
            for name, entry in self.items()
        )  # fmt: skip


class Table(dict[str, Entry[T]], Choices[T]):
    """All choices of a parameter."""

    def __init__(self, parameter: str, entries: Mapping[str, Entry[T]]) -> None:
        super().__init__(entries)
        self.parameter = parameter

    def without(self, needs: frozenset[str]) -> PartOfTable[T]:
        """The entries that need none of these, also those that are added later."""
        return PartOfTable(self, needs)


class PartOfTable(Choices[T]):
    """The entries of a table that need none of `needs`."""

    def __init__(self, table: Table[T], needs: frozenset[str]) -> None:
        self.table, self.needs, self.parameter = table, needs, table.parameter

    def __getitem__(self, name: str) -> Entry[T]:
        if self.table[name].needs & self.needs:
            raise KeyError(name)
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, entry in self.table.items() if not entry.needs & self.needs)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def documented(**tables: Choices[Any]) -> Callable[[D], D]:
    """Fill ``<names of KEY>`` and lines ``<list of KEY>`` in a docstring from the table KEY."""

    def fill(thing: D) -> D:
        text = thing.__doc__ or ""
        for key, table in tables.items():
            text = text.replace(f"<names of {key}>", table.names)
            for indent in re.findall(rf"(?m)^( *)<list of {key}>$", text):
                text = text.replace(f"{indent}<list of {key}>", table.bullets(indent))
        thing.__doc__ = text
        return thing

    return fill
