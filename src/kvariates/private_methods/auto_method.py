"""Chooses a method by public numbers, and by a number of rows that is public or noisy.

| budget | features | epsilon n / (k d) | method |
|---|---|---|---|
| delta > 0 | any | any | `tree` |
| pure epsilon | up to three | below 3000 | `grid` |
| pure epsilon | more | below 20 | `lloyd` |
| pure epsilon | any | above | `tree` |

With pure epsilon the noise of sums of d features is sqrt(d) times as wide, and every level and step
needs a share of epsilon. So with few rows the noise is too large for the tree. A grid has a single
release of counts, and `lloyd` has few sums. (A grid releases a better number of rows for itself.)
`docs/private.md` has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvariates.privacy.budget import Loss
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.noisy_grid import GridMethod
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.private_methods.noisy_tree import TreeMethod
from kvariates.private_methods.row_count import row_count
from kvariates.private_methods.task import PrivateResult, PrivateTask

COUNT_SHARE = 0.01  # of the budget, if the number of rows is secret
FEW = 3  # features up to which a grid is used
ENOUGH_FEW, ENOUGH = 3000.0, 20.0  # epsilon n / (k d) from which the tree is used


@dataclass(frozen=True)
class AutoMethod:
    """The method that was best in tests, by a rule that looks at no data but a noisy count."""

    def __call__(self, task: PrivateTask) -> PrivateResult:
        if not task.pure:
            return TreeMethod()(task)
        d, accountant = task.domain.d, Accountant()
        count = row_count(task, COUNT_SHARE, accountant)
        rest = replace(task, loss=Loss(count.costs[0].value, 0.0))
        enough, otherwise = (ENOUGH_FEW, GridMethod()) if d <= FEW else (ENOUGH, NoisyLloyd())
        many = task.loss.epsilon * count.n >= enough * task.k * d
        result = (TreeMethod() if many else otherwise)(rest)
        return PrivateResult(result.centers, (*accountant.charges, *result.charges))
