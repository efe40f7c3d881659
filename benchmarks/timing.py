"""Measures time in rounds: in each round every task runs once; the median counts.

Interleaving spreads a slow minute of the machine over all tasks. The order rotates, so that no task
always runs after the same other one (with its caches, and its idle threads still spinning). The use
of the machine by other processes is measured, too, so that a disturbed run can be recognised.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Result = TypeVar("Result")

PAUSE = 0.02  # seconds between two runs: idle OpenMP and BLAS threads stop spinning in it


@dataclass(frozen=True)
class Timing:
    """The times of one task, and the number of cores that other processes used meanwhile."""

    seconds: tuple[float, ...]
    others: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Patience:
    """The number of rounds: at least `least`, then more while they fit into `budget` seconds.

    If a round takes longer than `slow` seconds, one round fewer than `least` is enough.
    """

    least: int = 3
    most: int = 15
    budget: float = 3.0
    slow: float = 10.0

    def enough(self, rounds: int, spent: float) -> bool:
        if rounds == 0 or rounds >= self.most:
            return rounds > 0
        a_round = spent / rounds
        least = self.least - 1 if a_round > self.slow else self.least
        return rounds >= least and spent + a_round > self.budget


@dataclass(frozen=True)
class Race(Generic[Result]):
    """The timings, and the last result of each task."""

    timings: dict[str, Timing]
    results: dict[str, Result]


def race(tasks: Mapping[str, Callable[[int], Result]], patience: Patience) -> Race[Result]:
    """Run every task (given the round's number) in interleaved rounds."""
    names, rounds = list(tasks), 0
    seconds: dict[str, list[float]] = {name: [] for name in names}
    foreign = dict.fromkeys(names, 0.0)
    results: dict[str, Result] = {}
    while names and not patience.enough(rounds, sum(map(sum, seconds.values()))):
        turn = rounds % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            time.sleep(PAUSE)
            foreign_before, begin = foreign_seconds(), time.perf_counter()
            results[name] = tasks[name](rounds)
            seconds[name].append(time.perf_counter() - begin)
            foreign[name] += foreign_seconds() - foreign_before
        rounds += 1
    timings = {
        name: Timing(tuple(taken), max(0.0, foreign[name] / sum(taken)))
        for name, taken in seconds.items()
    }
    return Race(timings, results)


def foreign_seconds() -> float:
    """Processor seconds used by all other processes so far; 0 if this is not Linux."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, soft_irq, steal = map(
        int, stat.read_text().split("\n", 1)[0].split()[1:9]
    )
    ticks = user + nice + system + irq + soft_irq + steal
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()
