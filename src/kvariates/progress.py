"""What a long computation tells while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One step: what it was, its number, and the cost or bound so far, if there is one."""

    what: str
    number: int
    value: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.what} {self.number}"
        value = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:.6g}"
        return f"{self.what} {self.number}: {value}"


Report = Callable[[Progress], bool]
"""Called after a step. It returns True to ask for an early end; certificates and
integer programs go on all the same."""
