"""The speed of the machine, measured in the same run.

FLOP/s: the best of several square matrix products by numpy's BLAS on all its threads.
bytes/s: the best of several dot products of a 1 GiB array with itself, which reads it once.
A share of them can exceed 100 % if work is skipped, or if the data fit into the cache.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    flops: dict[str, float]  # per second, by dtype
    bytes: float  # per second


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(quick: bool = False) -> Machine:
    return Machine(
        _processor(),
        cores(),
        {dtype: _flops(dtype, 1024 if quick else 3072) for dtype in ("float32", "float64")},
        _stream(2**26 if quick else 2**30),
    )


def _best(task: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        task()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def _flops(dtype: str, size: int) -> float:
    A = np.random.default_rng(0).random((size, size)).astype(dtype)
    out = np.empty_like(A)
    return 2 * size**3 / _best(lambda: np.matmul(A, A, out=out))


def _stream(size: int) -> float:
    """One thread for each core and part of the array, because BLAS does not split a dot product."""
    x = np.ones(size // 4, np.float32)
    parts = np.array_split(x, cores())
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cores()) as pool:
        return x.nbytes / _best(lambda: list(pool.map(np.dot, parts, parts)))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
