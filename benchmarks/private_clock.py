"""A private fit on the clock: its seconds, those spent in noise, its peak memory; and a limit.

Noise is what `privacy` draws: counts, sums, choices, cells, noisy rows. Rounding rows to their grid
and adding them up is not.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from kvariates.privacy import mechanisms, mixture

NOISY = ("counts", "scalar", "sums", "choose", "cells_above")


@dataclass
class Clock:
    """Seconds in noise so far, in the outermost of the functions that draw it."""

    seconds: float = 0.0
    inside: bool = False

    def timed(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(draw)
        def on_the_clock(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return draw(*args, **kwargs)
            self.inside, begin = True, time.perf_counter()
            try:
                return draw(*args, **kwargs)
            finally:
                self.inside = False
                self.seconds += time.perf_counter() - begin

        return on_the_clock


@contextmanager
def noise_clock() -> Iterator[Clock]:
    """Every draw of noise on one clock. Methods look these names up when they call them."""
    clock, before = Clock(), {name: getattr(mechanisms, name) for name in NOISY}
    rows = mixture.NoisyRows.__call__
    for name, draw in before.items():
        setattr(mechanisms, name, clock.timed(draw))
    mixture.NoisyRows.__call__ = clock.timed(rows)  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        for name, draw in before.items():
            setattr(mechanisms, name, draw)
        mixture.NoisyRows.__call__ = rows  # type: ignore[method-assign]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """TimeoutError after so long, as Ctrl-C would come."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"over {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Timed:
    seconds: float
    in_noise: float  # of them


def timed(model: Any, X: Any, limit: float) -> Timed:
    """Fit, and how long it took. TimeoutError over the limit."""
    with noise_clock() as clock, within(limit):
        begin = time.perf_counter()
        model.fit(X)
        return Timed(time.perf_counter() - begin, clock.seconds)


def forget_peak() -> None:
    """The high-water mark of memory starts again from what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_gb() -> float:
    """The most memory held since, the data included. getrusage would tell of the parent process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e9
