"""The number of rows: public under replace-one, a noisy count under add-remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvariates.privacy.cost import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import total_query
from kvariates.private_methods.task import PrivateTask


@dataclass(frozen=True)
class RowCount:
    """A number of rows, at least 1, that may decide anything; and the rest of the budget."""

    n: int
    costs: list[Cost]


def row_count(
    task: PrivateTask, share: float, accountant: Accountant, shares: Sequence[float] = (1.0,)
) -> RowCount:
    """The number of rows. A noisy one, for `share` of the budget, if the exact one is secret.

    The rest of the budget is split by `shares`.
    """
    if task.adjacency == "replace-one":
        return RowCount(max(1, len(task.rows)), task.costs(shares))
    whole = sum(shares)
    first, *costs = task.costs([share, *((1.0 - share) * part / whole for part in shares)])
    query = total_query(len(task.rows), "add-remove", "number of rows")
    return RowCount(max(1, accountant.release(query, first).value), costs)
