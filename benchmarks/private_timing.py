"""Times a private fit: its seconds, the seconds spent in drawing noise, its peak memory; a limit.

Noise is drawn by releases and for noisy rows. Rounding rows to a lattice and adding them up is not
part of it.
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
from unittest.mock import patch

from kvariates.privacy import mechanisms
from kvariates.privacy.secret import PublicError


@dataclass
class NoiseTime:
    """Seconds spent in drawing noise so far."""

    seconds: float = 0.0

    def timed(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(draw)
        def timed_draw(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return draw(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        return timed_draw


@contextmanager
def noise_time() -> Iterator[NoiseTime]:
    """Measures every draw of noise inside the context."""
    spent, release, rows = NoiseTime(), mechanisms.release, mechanisms.NoisyRows.__call__
    with (
        patch.object(mechanisms, "release", spent.timed(release)),
        patch.object(mechanisms.NoisyRows, "__call__", spent.timed(rows)),
    ):
        yield spent


class OutOfTimeError(PublicError, TimeoutError):
    """A limit on time was passed. It says nothing about rows, so computations let it pass."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after so long, inside a signal handler."""

    def stop(*_: Any) -> None:
        raise OutOfTimeError(f"over {seconds:g} s")

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
    in_noise: float


def timed(model: Any, X: Any, limit: float) -> Timed:
    """Fit the model and return the time it took. TimeoutError over the limit."""
    with noise_time() as noise, within(limit):
        begin = time.perf_counter()
        model.fit(X)
        return Timed(time.perf_counter() - begin, noise.seconds)


def reset_peak() -> None:
    """Reset the peak of memory to what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_gb() -> float:
    """The peak of memory since. getrusage would report the peak of the parent process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e9
