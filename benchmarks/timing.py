"""How a time is taken: rounds in which everybody runs once, in turning order; then the median.

Interleaving makes a slow minute of the machine slow for all; the turn keeps anybody from always
running behind the same one (with its caches, and its idle threads still spinning).
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Result = TypeVar("Result")

PAUSE = 0.02  # seconds between two runs: idle OpenMP and BLAS threads stop spinning in it


@dataclass(frozen=True)
class Timing:
    """The times of one contestant on one task."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Patience:
    """How many rounds: at least `least`, then more while they stay within `budget` seconds.

    A task whose first round takes longer than `slow` seconds is run one round less than `least`.
    """

    least: int = 3
    most: int = 15
    budget: float = 3.0
    slow: float = 20.0

    def enough(self, rounds: int, spent: float) -> bool:
        if rounds >= self.most:
            return True
        least = self.least - 1 if rounds and spent / rounds > self.slow else self.least
        return rounds >= max(least, 1) and spent + spent / max(rounds, 1) > self.budget


@dataclass
class Race(Generic[Result]):
    """What came of it: the timings, and the last result of each contestant."""

    timings: dict[str, Timing] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)


def race(tasks: Mapping[str, Callable[[int], Result]], patience: Patience) -> Race[Result]:
    """Run every task (given the round's number) in interleaved rounds."""
    outcome: Race[Result] = Race()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names, rounds = list(tasks), 0
    while names and not patience.enough(rounds, sum(map(sum, seconds.values()))):
        turn = rounds % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            time.sleep(PAUSE)
            begin = time.perf_counter()
            result = tasks[name](rounds)
            seconds[name].append(time.perf_counter() - begin)
            outcome.results[name] = result
        rounds += 1
    outcome.timings = {name: Timing(tuple(taken)) for name, taken in seconds.items()}
    return outcome
