"""Deep audits: all releases and private methods with many runs, and planted mistakes.

`python -m experiments.audit` prints four tables. It fails if a claim breaks or a mistake is missed.

| table | rows | columns |
|---|---|---|
| mechanisms | `tests/privacy/mechanism_cases.py` | the claim, the certified bound, the event |
| methods | `PRIVATE_METHODS` on the scenes of `method_cases.py` | as above |
| mistakes in methods | `tests/privacy/broken_methods.py` | as above |
| mistakes | `tests/privacy/numpy_mechanisms.py` | bound without and with it, runs needed |

"Runs needed" are the fewest, doubling from 125, that catch the mistake for each of ten seeds.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import table

from kvariates.privacy.auditing import Audit, audit

SEEDS = 10
FEWEST = 125
MOST = 2**20
COLUMNS = ("claim", "certified", "by", "runs", "time")
MISTAKE_COLUMNS = ("certified without", "with it", "by", "runs needed")

Row = tuple[list[str], bool]  # the cells, and whether the result is as expected


def cases(name: str) -> Any:
    """A module of tests/privacy."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    return importlib.import_module(f"privacy.{name}")


def caught(case: Any, runs: int, seed: int) -> bool:
    """Whether this many runs show the mistake."""
    try:
        return not attack(case, case.planted(np.random.default_rng(seed)), runs).passed
    except ValueError:  # too few runs to show anything
        return False


def attack(case: Any, mechanism: Any, runs: int) -> Audit:
    """An audit of the case's claim on its neighbours."""
    return audit(mechanism, case.neighbours, batch=True, runs=runs, **case.claim)


def runs_needed(case: Any) -> int:
    """The fewest runs, doubling, that show the mistake for every seed."""
    runs = FEWEST
    while runs < MOST and not all(caught(case, runs, seed) for seed in range(SEEDS)):
        runs *= 2
    return runs


def mechanism(name: str, factor: int) -> Row:
    """A release of the library."""
    case, start = cases("mechanism_cases").CASES[name], time.perf_counter()
    options = case.options | {"runs": factor * case.runs}
    found = audit(case.mechanism, case.neighbours, **options)
    return _line(name, found, start), found.passed


def method(name: str, factor: int) -> Row:
    """A private method, with a tenth of `factor` deep runs."""
    private, start = cases("method_cases"), time.perf_counter()
    case, runs = private.DEEP[name], factor * private.DEEP_RUNS // 10
    runs = max(runs, private.QUICK_RUNS)
    found = audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)
    return _line(name, found, start), found.passed


def method_mistake(name: str, _factor: int) -> Row:
    """A mistake planted in a method."""
    mistake, start = cases("broken_methods").MISTAKES[name], time.perf_counter()
    case = mistake.case
    with mistake.planted():
        found = audit(case, case.neighbours, view=case.view, runs=mistake.runs, **case.claim)
    return _line(name, found, start), not found.passed


def mistake(name: str, factor: int) -> Row:
    """A small mechanism, with and without a planted mistake."""
    case = cases("numpy_mechanisms").CASES[name]
    right, wrong = (
        attack(case, make(np.random.default_rng(0)), factor * case.runs)
        for make in (case.right, case.planted)
    )
    bounds = [f"{found.lower_bound:.3f}" for found in (right, wrong)]
    row = [name, str(right.claim), *bounds, str(wrong.event), str(runs_needed(case))]
    return row, right.passed and not wrong.passed


def _line(name: str, found: Audit, start: float) -> list[str]:
    bound, seconds = f"{found.lower_bound:.4g}", f"{time.perf_counter() - start:.0f} s"
    return [name, str(found.claim), bound, str(found.event), str(found.runs), seconds]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m experiments.audit", description=__doc__)
    parser.add_argument("--factor", type=int, default=10, help="times the runs of the tests")
    factor = parser.parse_args(arguments).factor
    all_well = True
    # Processes are started, not forked: a forked process has no threads for noise.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for one, names, head in (
            (mechanism, cases("mechanism_cases").CASES, ["mechanism", *COLUMNS]),
            (method, cases("method_cases").DEEP, ["method", *COLUMNS]),
            (method_mistake, cases("broken_methods").MISTAKES, ["mistake in a method", *COLUMNS]),
            (mistake, cases("numpy_mechanisms").CASES, ["mistake", "claim", *MISTAKE_COLUMNS]),
        ):
            rows = []
            for row, well in pool.map(one, names, repeat(factor)):
                print(f"{row[0]}: {'as expected' if well else 'WRONG'}", file=sys.stderr)
                rows.append(row)
                all_well &= well
            print(table(head, rows), end="\n\n", flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
