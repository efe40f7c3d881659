"""Which method: the rule, by public numbers alone.

| | method |
|---|---|
| one or two features and pure epsilon | `grid` |
| everything else | `tree` |

`docs/private.md` has the figures behind it. The number of rows is no part of the rule: under
add-remove it is secret, and the tree pays for it and decides how deep to go.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvariates.private.grid import Grid
from kvariates.private.task import Method, Released, Task
from kvariates.private.tree import Tree


@dataclass(frozen=True)
class Auto:
    """The tree, or where a grid is finer for its price, the grid."""

    def __call__(self, task: Task) -> Released:
        return self.choice(task.domain.d, pure=task.pure)(task)

    def choice(self, d: int, *, pure: bool) -> Method:
        return Grid() if pure and d <= 2 else Tree()
