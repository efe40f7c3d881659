"""Audits at depth: what ships is attacked with many runs, and planted mistakes say how well.

`python -m experiments.audit` prints four tables, and fails if a claim breaks or a mistake escapes.

| table | rows | columns |
|---|---|---|
| mechanisms | what ships, on worst-case neighbours | the claim, what was certified, the event |
| methods | those of `PRIVATE_METHODS`, on scenes | as above |
| mistakes in methods | those of `tests/privacy/mistakes.py` | what was certified, and by what |
| mistakes | those of `tests/privacy/mutants.py` | certified without and with it, runs needed |

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

Row = tuple[list[str], bool]  # of a table, and whether all is well


def planted(name: str) -> Any:
    """A module beside the tests of privacy."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    return importlib.import_module(f"privacy.{name}")


def caught(case: Any, runs: int, seed: int) -> bool:
    """Whether this many runs show the mistake."""
    try:
        return not attack(case, case.planted(np.random.default_rng(seed)), runs).passed
    except ValueError:  # so few runs that nothing could be shown
        return False


def attack(case: Any, mechanism: Any, runs: int) -> Audit:
    """An audit of the case's claim on its neighbours."""
    return audit(mechanism, case.neighbours, batch=True, runs=runs, **case.claim)


def runs_needed(case: Any) -> int:
    """The fewest runs, doubling, that show the mistake whatever the seed."""
    runs = FEWEST
    while runs < MOST and not all(caught(case, runs, seed) for seed in range(SEEDS)):
        runs *= 2
    return runs


def mechanism(name: str, factor: int) -> Row:
    """What ships."""
    case, start = planted("shipped").CASES[name], time.perf_counter()
    options = case.options | {"runs": factor * case.runs}
    found = audit(case.mechanism, case.neighbours, **options)
    return _line(name, found, start), found.passed


def method(name: str, factor: int) -> Row:
    """A private method. A tenth of `factor` deep runs."""
    private, start = planted("methods"), time.perf_counter()
    case, runs = private.DEEP[name], factor * private.DEEP_RUNS // 10
    runs = max(runs, private.QUICK_RUNS)
    found = audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)
    return _line(name, found, start), found.passed


def method_mistake(name: str, _factor: int) -> Row:
    """A mistake planted in a method."""
    mistake, start = planted("mistakes").MISTAKES[name], time.perf_counter()
    case = mistake.case
    with mistake.planted():
        found = audit(case, case.neighbours, view=case.view, runs=mistake.runs, **case.claim)
    return _line(name, found, start), not found.passed


def mistake(name: str, factor: int) -> Row:
    """A mistake planted in a mechanism, beside the mechanism."""
    case = planted("mutants").CASES[name]
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
    # Processes are started, not forked: threads of noise do not survive a fork.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for one, names, head in (
            (mechanism, planted("shipped").CASES, ["mechanism", *COLUMNS]),
            (method, planted("methods").DEEP, ["method", *COLUMNS]),
            (method_mistake, planted("mistakes").MISTAKES, ["mistake in a method", *COLUMNS]),
            (mistake, planted("mutants").CASES, ["mistake", "claim", *MISTAKE_COLUMNS]),
        ):
            rows = []
            for row, well in pool.map(one, names, repeat(factor)):
                print(f"{row[0]}: {'as it should be' if well else 'WRONG'}", file=sys.stderr)
                rows.append(row)
                all_well &= well
            print(table(head, rows), end="\n\n", flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
