"""How many rows: public under replace-one, a noisy count under add-remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvariates.privacy import mechanisms
from kvariates.private_methods.task import Accountant, Cost, PrivateTask


@dataclass(frozen=True)
class Size:
    """A number of rows to decide by, at least 1, and the rest of the budget, in parts."""

    n: int
    rest: list[Cost]


def public_size(
    task: PrivateTask, share: float, accountant: Accountant, parts: Sequence[float] = (1.0,)
) -> Size:
    """The number of rows; a noisy one for this share of the budget where it is secret."""
    if task.adjacency == "replace-one":
        return Size(max(1, len(task.rows)), task.costs(parts))
    whole = sum(parts)
    counting, *rest = task.costs([share, *((1.0 - share) * part / whole for part in parts)])
    noisy = accountant.record(
        mechanisms.scalar(
            len(task.rows), adjacency="add-remove", label="number of rows", **counting
        )
    )
    return Size(max(1, noisy), rest)
