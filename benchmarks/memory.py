"""The memory of a fit in addition to its data: the growth of the resident set of a process.

A child process reads X from a file and fits a few rows, which loads the libraries and starts the
threads. It resets the peak of its resident set, fits X by k-means++ and 20 iterations, and prints
how much the peak grew.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.contestants import MAKERS, OURS, Contestant, help_faiss
from benchmarks.workloads import ROOT, Data, Workload, bytes_of

A_ROW, SHARE = 64, 0.25  # the target: this many bytes a row and this share of X


@dataclass(frozen=True)
class Memory:
    """Bytes in addition to X that the fit of each library needed."""

    workload: str
    data: int
    allowed: int
    extra: dict[str, int]
    is_sparse: bool = False


def measure(work: Workload, X: Data, contestants: list[Contestant]) -> Memory:
    """Ours on every workload; the others, whose seeding is slow, on uniform data only."""
    there = [
        who.name
        for who in contestants
        if who.takes(work) and (who.name == OURS or work.data == "uniform")
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = _save(X, Path(folder))
        extra = {name: extra_of(name, file, work.k) for name in there}
    size = bytes_of(X)
    return Memory(work.name, size, int(SHARE * size) + A_ROW * work.n, extra, work.is_sparse)


def _save(X: Data, folder: Path) -> Path:
    """Write .npy files, which are read without a second copy."""
    if not sparse.issparse(X):
        np.save(folder / "X.npy", X)
        return folder / "X.npy"
    for part in ("data", "indices", "indptr"):
        np.save(folder / f"{part}.npy", getattr(X, part))
    (folder / "shape.json").write_text(json.dumps(X.shape))
    return folder


def _load(file: Path) -> Data:
    if file.is_file():
        return np.load(file)
    parts = [np.load(file / f"{part}.npy") for part in ("data", "indices", "indptr")]
    return sparse.csr_array(tuple(parts), shape=json.loads((file / "shape.json").read_text()))


def extra_of(contestant: str, file: Path, k: int) -> int:
    """Bytes that a fit of the rows in this file needs in addition to them."""
    command = [sys.executable, "-m", "benchmarks.memory", contestant, str(file), str(k)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"memory of {contestant}: {reason[0]}")
    return int(done.stdout.split()[-1])


def _resident() -> int:
    status = Path("/proc/self/statm").read_text().split()
    return int(status[1]) * resource.getpagesize()


def _high_water() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status: memory is measured on Linux only")


def _child(contestant: str, file: Path, k: int) -> int:
    help_faiss()
    who = MAKERS[contestant]()
    X = _load(file)
    who.fit(X[: 4 * k].copy(), k)
    Path("/proc/self/clear_refs").write_text("5")  # 5: resets the peak
    before = _resident()
    model = who.fit(X, k)
    after = _high_water()
    del model  # not earlier: the fitted model is part of the memory
    return after - before


if __name__ == "__main__":
    print(_child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
