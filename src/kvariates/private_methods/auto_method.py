"""Which method: a rule by public numbers, and by a number of rows that is public or paid for.

| budget | features | epsilon n / (k d) | method |
|---|---|---|---|
| delta > 0 | any | any | `tree` |
| pure epsilon | up to three | below 3000 | `grid` |
| pure epsilon | more | below 20 | `lloyd` |
| pure epsilon | any | above | `tree` |

With pure epsilon the noise of sums of d features is sqrt(d) times as wide, and every level and step
has its share: with few rows the tree drowns first. A grid of cells has one release, of counts;
NoisyLloyd's few sums hold out a little longer. (A grid buys a better number of rows for itself.)
`docs/private.md` has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvariates.privacy.ledger import Loss
from kvariates.private_methods.noisy_grid import GridMethod
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.private_methods.noisy_tree import TreeMethod
from kvariates.private_methods.row_count import public_size
from kvariates.private_methods.task import Accountant, PrivateResult, PrivateTask

COUNTING = 0.01  # share of the budget for the number of rows, where the rule needs it
FEW = 3  # features up to which a grid is taken
ENOUGH_FEW, ENOUGH = 3000.0, 20.0  # epsilon n / (k d)


@dataclass(frozen=True)
class AutoMethod:
    """The method that did best, by a rule that looks at no data it did not pay for."""

    def __call__(self, task: PrivateTask) -> PrivateResult:
        if not task.pure:
            return TreeMethod()(task)
        d, accountant = task.domain.d, Accountant()
        size = public_size(task, COUNTING, accountant)
        rest = replace(task, loss=Loss(size.rest[0]["epsilon"], 0.0))
        enough, otherwise = (ENOUGH_FEW, GridMethod()) if d <= FEW else (ENOUGH, NoisyLloyd())
        many = task.loss.epsilon * size.n >= enough * task.k * d
        made = (TreeMethod() if many else otherwise)(rest)
        return PrivateResult(made.centers, (*accountant.charges, *made.charges))
