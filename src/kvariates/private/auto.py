"""Which method: a rule by public numbers, and by a number of rows that is public or paid for.

| budget | features | rows | method |
|---|---|---|---|
| delta > 0 | any | any | `tree` |
| pure epsilon | up to three | any | `grid` |
| pure epsilon | more | epsilon n < 100 k d | `lloyd` |
| pure epsilon | more | more | `tree` |

With pure epsilon the noise of sums of d features is sqrt(d) times as wide: the tree's many sums
drown first, Lloyd's few hold out a little longer. `docs/private.md` has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvariates.privacy.ledger import Loss
from kvariates.private.grid import Grid
from kvariates.private.lloyd import Lloyd
from kvariates.private.size import public_size
from kvariates.private.task import Receipts, Released, Task
from kvariates.private.tree import Tree

COUNTING = 0.01  # share of the budget for the number of rows, where the rule needs it
ENOUGH = 100.0  # epsilon n / (k d)


@dataclass(frozen=True)
class Auto:
    """The method that did best, by a rule that looks at no data it did not pay for."""

    def __call__(self, task: Task) -> Released:
        d = task.domain.d
        if not task.pure:
            return Tree()(task)
        if d <= 3:
            return Grid()(task)
        receipts = Receipts()
        size = public_size(task, COUNTING, receipts)
        rest = replace(task, loss=Loss(size.rest[0]["epsilon"], 0.0))
        few = task.loss.epsilon * size.n < ENOUGH * task.k * d
        made = (Lloyd() if few else Tree())(rest)
        return Released(made.centers, (*receipts.charges, *made.charges))
