"""`python -m benchmarks.command [PYTHON]`: the time of the command from the shell, and its targets.

The best of several runs of each command, from the start of the process to its end. PYTHON is the
interpreter of the environment to measure, this one by default: packages that only other extras need
make `import sklearn` and `import skops` slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, COLUMNS = 100_000, 10
FIT = ("fit", "X.csv", "-k", "8", "--seed", "0", "-o", "out", "--force")
TARGETS = {("--help",): 0.3, ("fit", "--help"): 0.5, FIT: 3.0}  # seconds
RUNS = 5


def write_rows(folder: Path, rows: int = ROWS) -> None:
    """Eight clusters in ten columns, as a text table with names."""
    rng = np.random.default_rng(0)
    middles = 4 * rng.normal(size=(8, COLUMNS))
    X = middles[rng.integers(8, size=rows)] + rng.normal(size=(rows, COLUMNS))
    names = ",".join(f"column{j}" for j in range(COLUMNS))
    np.savetxt(folder / "X.csv", X, fmt="%.6f", delimiter=",", header=names, comments="")


def seconds_of(words: tuple[str, ...], folder: Path, python: str = sys.executable) -> float:
    """The time of one run of the command."""
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # as an installed package is
    begin = time.perf_counter()
    subprocess.run([python, "-m", "kvariates", *words], cwd=folder, check=True, env=compiled,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return time.perf_counter() - begin


def main() -> None:
    """Print the seconds of each command beside its target."""
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name))
        for words, target in TARGETS.items():
            best = min(seconds_of(words, Path(name), python) for _ in range(RUNS))
            verdict = "met" if best < target else "missed"
            print(f"{best:6.2f} s, target {target:g} s {verdict}: kvariates {' '.join(words)}")


if __name__ == "__main__":
    main()
