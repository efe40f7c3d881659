"""The only source of private noise: OpenDP's exact samplers, and random bytes of the system.

| what | where its bits come from |
|---|---|
| noise (`Calibrated`) | OpenDP: OpenSSL's generator, seeded by the operating system |
| draws, keys, empty cells | `os.urandom`: the operating system, at every call |

Neither can be seeded by a caller. OpenDP's measurements have privacy maps; `calibrated` finds the
smallest scale, up to rounding, for which the map says that the cost is not exceeded.

`ForkGuard` refuses noise in a copy of a process that would repeat the noise of the original: the
state of OpenSSL's generator is in memory, and it takes new bytes only when it sees another process
id. A child in a PID namespace has the same id, and a grandchild may be given one again. A page of
memory that the kernel clears in every child (Linux, MADV_WIPEONFORK) notices all copies; elsewhere
Python's own fork does. A restored snapshot is not noticed: see `docs/threat_model.md`.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from os import urandom
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kvariates.extras import MissingPackageError, needed
from kvariates.numerics.draws import I64
from kvariates.privacy.secret import PublicError

WIPE_ON_FORK = 18  # MADV_WIPEONFORK of Linux
REPEATS = (
    "This process is a copy of another one with the same process id, and its noise would repeat "
    "the other's: start a new process instead of a fork in a PID namespace."
)


class ForkGuard:
    """Notices copies of this process. `check` before every draw."""

    def __init__(self) -> None:
        self._page, self._drawn = _cleared_in_children(), set[int]()
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def check(self) -> None:
        """PublicError if the noise of this process would repeat that of another."""
        if self._page[0]:
            return
        with self._lock:
            self._mark()

    def _mark(self) -> None:
        if self._page[0]:  # by another thread, while this one waited
            return
        # The ids with which noise was drawn in this process or in one that it is a copy of.
        if os.getpid() in self._drawn:
            raise PublicError(REPEATS)
        self._drawn.add(os.getpid())
        self._page[0] = 1

    def _in_child(self) -> None:
        self._page[0], self._lock = 0, threading.Lock()


def _cleared_in_children() -> mmap.mmap | bytearray:
    """Memory with a mark that is 0 at first; cleared by the kernel in children, if it can."""
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=flags)
        page.madvise(WIPE_ON_FORK)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return bytearray(1)
    return page


GUARD = ForkGuard()


Law = Literal["laplace", "gaussian", "permute-and-flip", "exponential"]

FIRST_RIGHT = (0, 14, 2)  # version of OpenDP whose Gaussian noise has its law
LARGEST = 2**62
FEW = 2**8  # fewer numbers are drawn without threads
PIECE = 2**12  # numbers a thread draws at a time, in about a twentieth of a second
CHOICES = ("permute-and-flip", "exponential")


@dataclass(frozen=True)
class Calibrated:
    """A mechanism on integers. By OpenDP's map it has this cost at this sensitivity."""

    law: Law
    scale: float
    cost: float
    measurement: Any
    sensitivity: float = math.inf

    def __call__(self, values: Sequence[int] | I64) -> Any:
        GUARD.check()
        if self.law in CHOICES or len(values) < FEW:
            return self.measurement(values)
        # Noise is independent from number to number, so it can be drawn in pieces. OpenDP releases
        # the interpreter's lock while it draws.
        size = min(PIECE, max(FEW // 2, -(-len(values) // _cores())))
        pieces = [values[i : i + size] for i in range(0, len(values), size)]
        try:
            drawn = [_pool().submit(self.measurement, piece) for piece in pieces]
        except RuntimeError:  # the interpreter shuts down and starts no thread any more
            return self.measurement(values)
        return [value for piece in drawn for value in piece.result()]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), thread_name_prefix="noise")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no threads


def _cores() -> int:
    """The number of cores that this process may use, if the system tells it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def check_installed() -> None:
    """MissingPackageError without OpenDP: before a budget is spent, or a private row is read.

    The Gaussian noise of versions before `FIRST_RIGHT` has another law.
    """
    needed("opendp", "private", "Noise for a private fit")
    found = version("opendp")
    if tuple(map(int, re.findall(r"\d+", found)[:3])) < FIRST_RIGHT:
        raise MissingPackageError(
            f"Noise for a private fit needs opendp 0.14.2 or newer, and {found} is installed: "
            "pip install -U opendp",
            name="opendp",
        )


@lru_cache(maxsize=4096)
def measurement(law: Law, scale: float) -> Any:
    """OpenDP's measurement for a vector of integers."""
    # OpenDP's prelude would import polars, pandas and scikit-learn, which takes three seconds.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
    from opendp.measures import max_divergence, zero_concentrated_divergence
    from opendp.metrics import l1_distance, l2_distance, linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if law == "laplace":
        return make_laplace(integers, l1_distance(T="i64"), scale=scale)
    if law == "gaussian":
        return make_gaussian(integers, l2_distance(T="f64"), scale=scale)
    measure = max_divergence() if law == "permute-and-flip" else zero_concentrated_divergence()
    return make_noisy_max(integers, linf_distance(T="i64", monotonic=True), measure, scale=scale)


@lru_cache(maxsize=4096)
def calibrated(law: Law, sensitivity: float, cost: float, start: float) -> Calibrated:
    """The mechanism with the first scale from `start` on whose cost is at most `cost`."""
    scale, step = start, 1
    for _ in range(60):
        if not 0 < scale < math.inf:
            break
        made = measurement(law, scale)
        loss = made.map(sensitivity)
        if loss <= cost:
            return Calibrated(law, scale, loss, made, sensitivity)
        scale, step = scale + step * math.ulp(scale), 2 * step
    raise ValueError(f"No {law} noise has the cost {cost!r} at the sensitivity {sensitivity!r}.")


def random_bits(how_many: int) -> int:
    """An integer of so many fair bits (a multiple of eight), from the operating system."""
    return int.from_bytes(urandom(how_many // 8), "big")


def random_words(how_many: int) -> NDArray[np.uint64]:
    """Words of 64 fair bits, from the operating system."""
    return np.frombuffer(urandom(8 * how_many), dtype=np.uint64)


def below(total: int) -> int:
    """A uniform integer in 0..total - 1, by rejection."""
    if total < 1:
        raise ValueError(f"below needs a total of at least 1; got {total}.")
    bits = (total - 1).bit_length()
    size = max(8, -(-bits // 8) * 8)
    while (value := random_bits(size) >> (size - bits)) >= total:
        pass
    return value


# proof: mixture.md
def draw(weights: I64) -> int:
    """An index, with probability proportional to its weight; uniform if all weights are 0.

    Pre: weights >= 0, and their sum is below 2^62. Sums of integers are exact, and so are the
    probabilities. (Floats cannot be scaled to a total without rounding, and the state of a
    generator can be guessed.)
    """
    sums = np.cumsum(weights, dtype=np.int64)
    total = int(sums[-1])
    if total == 0:
        return below(len(sums))
    return int(np.searchsorted(sums, below(total), side="right"))


def subset(n: int, size: int) -> I64:
    """`size` of n row numbers, ascending; all sets of so many are exactly equally likely.

    They have the smallest of n random keys. Keys are drawn again if it depends on the order of the
    rows which of two equal ones is chosen. Pre: 0 < size < n.
    """
    while True:
        keys = random_words(n)
        order = np.argsort(keys)
        if keys[order[size - 1]] < keys[order[size]]:
            return np.sort(order[:size])
