"""Every private method of k-median as a mechanism to audit, as in `method_cases.py`.

    method x adjacency x budget x scene (a demand on points of a line, and the entry in question)

The methods are all of PRIVATE_KMEDIAN_METHODS. Public draws are the same in every run, and the
attacker sees all releases.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from api import (
    PRIVATE_KMEDIAN_METHODS,
    DemandCandidates,
    DemandHst,
    DemandLocalSearch,
    Ledger,
    Loss,
    PrivateResult,
    Vectors,
    rho_for,
    run_method,
)
from api import private_swaps_module as private_swaps
from privacy.demands import task_of
from privacy.exact_noise import ADJACENCIES
from privacy.mechanism_cases import noise_halved
from privacy.method_cases import LOSSES, watch_releases
from privacy.neighbours import Neighbours

POINTS = np.concatenate([np.linspace(0.0, 1.0, 6), [8.0, 9.0, 40.0]])[:, None]
FAR = len(POINTS) - 1
DEMANDS = {"alone": [], "lone": [0, 1, 2, 3, 4, 5, 6, 7], "crowd": [0, 6] * 150}
SWAPS = 2


@dataclass(frozen=True, eq=False)
class SeenDemand:
    """The result, and the released values by label."""

    result: PrivateResult
    values: dict[str, Any]


@dataclass(frozen=True, eq=False)
class DemandCase:
    """A method on a demand; the entry in question is the last one."""

    method: Any
    adjacency: str
    loss: Loss
    others: list[int]

    def __call__(self, demand):
        values, space = {}, Vectors(POINTS, "euclidean")
        budget = {"epsilon": self.loss.epsilon, "delta": self.loss.delta}
        task = task_of(space, demand, 2, self.adjacency, **budget)
        with watch_releases(values):
            return SeenDemand(run_method(self.method, task), values)

    @property
    def neighbours(self):
        first = np.array([*self.others, FAR])
        moved = self.others if self.adjacency == "add-remove" else [*self.others, 0]
        return Neighbours(first, np.array(moved, dtype=np.int64))

    @property
    def claim(self):
        """The budget, in zCDP if the method spends that."""
        charges = self(np.array([0])).result.charges
        if Ledger(self.adjacency, charges, self.loss).concentrated:
            return {"rho": rho_for(*self.loss)}
        return {"epsilon": self.loss.epsilon}

    def view(self, seen):
        """All releases and charges, and the result, each by its name."""
        result = seen.result
        charges = {charge.label: [charge.scale, charge.cost] for charge in result.charges}
        others = {name: value for name, value in vars(result).items() if name != "charges"}
        others |= {} if result.counts is None else vars(result.counts)
        del others["counts"], others["errors"]
        return {"released": seen.values, "charges": charges, "result": others}


def few_swaps(method):
    """With few swaps, so that one of them is worth an attack."""
    swaps = getattr(method, "n_swaps", None)
    return replace(method, n_swaps=SWAPS) if swaps is not None and swaps > SWAPS else method


METHODS = {
    name: few_swaps(entry.run)
    for name, entry in PRIVATE_KMEDIAN_METHODS.items()
    if name != "auto"  # that is another one of them
} | {"candidates, all parts": DemandCandidates(swaps=1, trials=2, levels=1)}


def demand_cases(scenes, budget, adjacencies=ADJACENCIES):
    """Every method on these demands, by name."""
    return {
        f"{name}, {side}, {budget}, {scene}": DemandCase(
            method, side, LOSSES[budget], DEMANDS[scene]
        )
        for name, method in METHODS.items()
        for side in adjacencies
        for scene in scenes
    }


QUICK = demand_cases(["alone"], "pure", ["replace-one"]) | demand_cases(
    ["lone"], "with delta", ["add-remove"]
)
DEEP = demand_cases(["alone", "lone", "crowd"], "pure") | demand_cases(["crowd"], "with delta")


@dataclass(frozen=True, eq=False)
class DemandMistake:
    """A case, a context with the mistake, and the number of runs that show it."""

    case: DemandCase
    runs: int
    planted: Any = nullcontext


def cap_forgotten():
    """The score of a swap counts as if no distance were above a twentieth of the largest one."""
    true = private_swaps.PrivateChooser

    def forgotten(task, largest, *others):
        return true(task, largest / 20, *others)

    return patch.object(private_swaps, "PrivateChooser", forgotten)


_mistake = partial(DemandCase, adjacency="add-remove", loss=LOSSES["pure"])
MISTAKES = {
    "noise of counts halved": DemandMistake(
        _mistake(DemandHst(levels=1, n_swaps=0), others=[]), 4000, noise_halved
    ),
    "largest distance too small": DemandMistake(
        _mistake(DemandLocalSearch(n_swaps=1), others=[0] * 3), 1000, cap_forgotten
    ),
}
