"""The one place randomness comes from: OpenDP's exact samplers, and the system's random bytes.

Neither can be seeded. OpenDP's measurements come with their privacy maps; `calibrated` finds the
smallest scale, up to rounding, for which the map itself says that the cost is not exceeded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Law = Literal["laplace", "gaussian", "permute-and-flip", "exponential"]

LARGEST = 2**62
FEW, PIECE = 2**8, 2**12  # numbers: not worth a thread; a twentieth of a second of noise
CHOICES = ("permute-and-flip", "exponential")

_repeatable: ContextVar[np.random.Generator | None] = ContextVar("_repeatable", default=None)


@dataclass(frozen=True)
class Calibrated:
    """A mechanism on integers whose cost, by OpenDP's own map, is `cost`."""

    law: Law
    scale: float
    cost: float
    measurement: Any

    def __call__(self, values: Sequence[int] | I64) -> Any:
        rng = _repeatable.get()
        if rng is not None:
            return _REHEARSED[self.law](rng, values, self)
        if self.law in CHOICES or len(values) < FEW:
            return self.measurement(values)
        # Every number has its own noise, so pieces have the law of the whole; OpenDP lets go of
        # the interpreter while it draws.
        size = min(PIECE, max(FEW // 2, -(-len(values) // _cores())))
        pieces = [values[i : i + size] for i in range(0, len(values), size)]
        try:
            drawn = [_pool().submit(self.measurement, piece) for piece in pieces]
        except RuntimeError:  # the interpreter is shutting down: no thread starts any more
            return self.measurement(values)
        return [value for piece in drawn for value in piece.result()]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), thread_name_prefix="noise")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has no threads


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=4096)
def measurement(law: Law, scale: float) -> Any:
    """OpenDP's measurement for a vector of integers."""
    # The package's prelude would import polars, pandas and scikit-learn: three seconds.
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
    """The mechanism at the first scale from `start` on that costs `cost` at most."""
    scale, step = start, 1
    for _ in range(60):
        if not 0 < scale < math.inf:
            break
        made = measurement(law, scale)
        loss = made.map(sensitivity)
        if loss <= cost:
            return Calibrated(law, scale, loss, made)
        scale, step = scale + step * math.ulp(scale), 2 * step
    raise ValueError(f"No {law} noise has the cost {cost!r} at the sensitivity {sensitivity!r}.")


def random_bits(how_many: int) -> int:
    """An integer of that many fair bits (a multiple of eight), from the operating system."""
    rng = _repeatable.get()
    raw = os.urandom(how_many // 8) if rng is None else rng.bytes(how_many // 8)
    return int.from_bytes(raw, "big")


def random_words(how_many: int) -> NDArray[np.uint64]:
    """Words of 64 fair bits, from the operating system."""
    rng = _repeatable.get()
    raw = os.urandom(8 * how_many) if rng is None else rng.bytes(8 * how_many)
    return np.frombuffer(raw, dtype=np.uint64)


@contextmanager
def _REPEATABLE_NOISE_FOR_TESTS_ONLY(  # noqa: N802
    seed: int, *, i_know_that_this_protects_nobody: Literal[True]
) -> Iterator[None]:
    """Noise of about the right law from a seeded generator, inside a test and nowhere else."""
    if "PYTEST_CURRENT_TEST" not in os.environ or i_know_that_this_protects_nobody is not True:
        raise RuntimeError("Repeatable noise protects nobody; it is for the project's own tests.")
    token = _repeatable.set(np.random.default_rng(seed))
    try:
        yield
    finally:
        _repeatable.reset(token)


def _rehearsed_laplace(rng: np.random.Generator, values: Sequence[int], made: Calibrated) -> Any:
    p = -math.expm1(-1 / made.scale)
    noise = rng.geometric(p, len(values)) - rng.geometric(p, len(values))
    return (np.asarray(values, dtype=np.int64) + noise).tolist()


def _rehearsed_gaussian(rng: np.random.Generator, values: Sequence[int], made: Calibrated) -> Any:
    noise = np.rint(rng.normal(0.0, made.scale, len(values))).astype(np.int64)
    return (np.asarray(values, dtype=np.int64) + noise).tolist()


def _rehearsed_flip(rng: np.random.Generator, values: Sequence[int], made: Calibrated) -> Any:
    return int(np.argmax(np.asarray(values) + rng.exponential(made.scale, len(values))))


def _rehearsed_gumbel(rng: np.random.Generator, values: Sequence[int], made: Calibrated) -> Any:
    return int(np.argmax(np.asarray(values) + rng.gumbel(0.0, made.scale, len(values))))


_REHEARSED: dict[Law, Any] = {
    "laplace": _rehearsed_laplace,
    "gaussian": _rehearsed_gaussian,
    "permute-and-flip": _rehearsed_flip,
    "exponential": _rehearsed_gumbel,
}
