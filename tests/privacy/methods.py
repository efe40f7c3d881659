"""Every private method as a mechanism to audit, from rows to all that it has a charge for.

    method x adjacency x budget (pure, or with a delta) x scene (rows, and the row in question)

The attacker sees what is published and, since the ledger has a line for it, every noisy value on
the way there: a method that hides most of them would else look safer than its claim.
Methods are those of METHODS, whatever they are: a new one is audited without being named here.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np

from kvariates.privacy.auditing import near
from kvariates.privacy.ledger import Ledger, Loss, rho_for
from kvariates.privacy.neighbours import Neighbours, neighbours
from kvariates.privacy.noise_source import Calibrated
from kvariates.private_methods.methods import METHODS
from kvariates.private_methods.noisy_kvariates import Conditional
from kvariates.private_methods.task import Accountant, Domain, PrivateResult, PrivateTask

SIDES = ("add-remove", "replace-one")
LOSSES = {"pure": Loss(1.0, 0.0), "with delta": Loss(1.0, 0.01)}


@dataclass(frozen=True, eq=False)
class Scene:
    """Rows and the row in question, in a box or in a ball of radius 1; and how many centres."""

    kind: str
    n: int
    d: int
    k: int
    ball: bool = False

    def neighbours(self, side: str) -> Neighbours:
        norm = "l2" if self.ball else "linf"
        return neighbours(self.kind, self.n, self.d, side, norm=norm)

    @cached_property
    def domain(self) -> Domain:
        if self.ball:
            return Domain.around(np.zeros(self.d), 1.0)
        return Domain.box(-np.ones(self.d), np.ones(self.d))


SCENES = {
    "alone": Scene("empty", 1, 1, 1),  # where a pick of a row, or the mean of rows, shows most
    "lone": Scene("lone", 6, 2, 2),
    "corner": Scene("corner", 6, 2, 1),
    "ball": Scene("between", 7, 2, 3, ball=True),
    "first": Scene("first", 12, 3, 2),
    "crowd": Scene("lone", 300, 1, 2),  # enough rows for counts to stand out of their noise
    "many": Scene("lone", 300, 6, 2),  # so many features that second moments are asked for
}


@dataclass(frozen=True, eq=False)
class Seen:
    """What an attacker sees, and what noise was drawn: (law, cost) of every draw."""

    released: PrivateResult
    values: list[Any]
    drawn: list[tuple[str, float]]


def watched(method, task):
    """A run of the method, with the values it keeps accountant for and the noise it draws."""
    values, drawn, keep, draw = [], [], Accountant.record, Calibrated.__call__

    def kept(accountant, release):
        values.append(release[0])
        return keep(accountant, release)

    def noised(made, numbers):
        if len(numbers) and made.cost < math.inf:  # not of cells that are empty, by number
            drawn.append((made.law, made.cost))
        return draw(made, numbers)

    with patch.object(Accountant, "record", kept), patch.object(Calibrated, "__call__", noised):
        return Seen(method(task), values, drawn)


@dataclass(frozen=True, eq=False)
class Case:
    """A method on a scene."""

    method: Any
    side: str
    loss: Loss
    scene: Scene

    def __call__(self, X):
        domain = self.domain(X)
        task = PrivateTask(domain.rows(X), domain, self.scene.k, self.side, self.loss)
        return watched(self.method, task)

    def domain(self, X):
        return self.scene.domain

    @cached_property
    def neighbours(self):
        return self.scene.neighbours(self.side)

    @property
    def claim(self):
        """What was asked for; in zCDP if that is what the method spends."""
        charges = self(np.zeros((3, self.scene.d))).released.charges
        if Ledger(self.side, charges, self.loss).concentrated:
            return {"rho": rho_for(*self.loss)}
        return {"epsilon": self.loss.epsilon}

    def view(self, seen):
        """The centre nearest to the row in question; noisy values; and every field of a result."""
        released = seen.released
        numbers = [[charge.scale, charge.cost] for charge in released.charges]
        return [self._near(released.centers), seen.values, numbers, vars(released)]

    @cached_property
    def _near(self):
        return near([self.neighbours.first[0 if self.scene.kind == "first" else -1]])


# A method whose claim rests on something is audited where that holds, which a test looks into.
ASSERTED = {"kvariates-conditional": (Conditional(delta_w=0.6), Scene("between", 9, 2, 2))}


def spread(rows, k, squared_diameter):
    """The least delta_w for which Definition 7 of Nock et al. holds."""
    least = math.inf
    for out in range(len(rows)):
        for chosen in itertools.combinations(range(len(rows)), max(k - 1, 1)):
            apart = np.delete(rows, out, axis=0)[:, None] - rows[list(chosen)]
            least = min(least, (apart**2).sum(axis=2).min(axis=1).sum())
    return squared_diameter / least if least else math.inf


def cases(scenes, budget, sides=SIDES, methods=METHODS):
    """Every method on these scenes, by name."""
    loss = LOSSES[budget]
    out = {
        f"{name}, {side}, {budget}, {scene}": Case(method, side, loss, SCENES[scene])
        for name, method in methods.items()
        for side in sides
        for scene in scenes
        if name not in ASSERTED
    }
    for name, (method, scene) in ASSERTED.items() if methods is METHODS else ():
        out |= {f"{name}, {side}, {budget}": Case(method, side, loss, scene) for side in sides}
    return out


# Runs are chosen beforehand, by what they can show of claims of epsilon = 1 (certified by half of
# them, error 1e-6). Quick audits look for what is published without noise: 320 runs show 2.3 for
# an event that always happens on one data set and never on the other, and 1.2 if it happens every
# second time. Deep ones look for half the noise, too: 4000 runs show 1.5 +- 0.07 there.
QUICK_RUNS, DEEP_RUNS = 320, 4000
TREE = {"tree": METHODS["tree"]}
QUICK = (
    cases(["alone"], "pure")
    | cases(["crowd"], "with delta", ["add-remove"])
    | cases(["many"], "with delta", ["add-remove"], TREE)
)
DEEP = (
    cases(["alone", "lone", "ball", "crowd"], "pure")
    | cases(["first", "crowd"], "with delta")
    | cases(["many"], "with delta", methods=TREE)
)
for again in [name for name in DEEP if name.startswith("auto,") and "with delta" in name]:
    del DEEP[again]  # the tree by another name
