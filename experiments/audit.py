"""Audits at depth: what ships is attacked with many runs, and planted mistakes say how well.

`python -m experiments.audit` prints four tables, and fails if a claim breaks or a mistake escapes.

| table | rows | columns |
|---|---|---|
| mechanisms | what ships, on worst-case neighbours | the claim, what was certified, the event |
| methods | those of `METHODS`, on scenes | as above |
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
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import table

from kvariates.privacy.audit import Audit, audit

SEEDS = 10
FEWEST = 125
MOST = 2**20
COLUMNS = ("claim", "certified", "by", "runs", "time")


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


def mistakes(factor: int) -> tuple[str, bool]:
    """The table of planted mistakes, and whether all is well."""
    rows, well = [], True
    for name, case in planted("mutants").CASES.items():
        runs = factor * case.runs
        right, wrong = (
            attack(case, make(np.random.default_rng(0)), runs)
            for make in (case.right, case.planted)
        )
        well &= right.passed and not wrong.passed
        bounds = [f"{found.lower_bound:.3f}" for found in (right, wrong)]
        rows.append([name, str(right.claim), *bounds, str(wrong.event), str(runs_needed(case))])
    head = ["mistake", "claim", "certified without", "with it", "by", "runs needed"]
    return table(head, rows), well


def mechanisms(factor: int) -> tuple[str, bool]:
    """The table of what ships, and whether all is well."""
    rows, well = [], True
    for name, case in planted("shipped").CASES.items():
        start = time.perf_counter()
        options = case.options | {"runs": factor * case.runs}
        found = audit(case.mechanism, case.neighbours, **options)
        well &= found.passed
        rows.append(_line(name, found, start))
    return table(["mechanism", *COLUMNS], rows), well


def methods(factor: int) -> tuple[str, bool]:
    """The table of private methods, and whether all is well. A tenth of `factor` deep runs."""
    rows, well = [], True
    private = planted("methods")
    for name, case in private.DEEP.items():
        start = time.perf_counter()
        runs = max(factor * private.DEEP_RUNS // 10, private.QUICK_RUNS)
        found = audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)
        well &= found.passed
        rows.append(_line(name, found, start))
    return table(["method", *COLUMNS], rows), well


def method_mistakes() -> tuple[str, bool]:
    """The table of mistakes planted in methods, and whether all are caught."""
    rows, well = [], True
    for name, mistake in planted("mistakes").MISTAKES.items():
        start, case = time.perf_counter(), mistake.case
        with mistake.planted():
            found = audit(case, case.neighbours, view=case.view, runs=mistake.runs, **case.claim)
        well &= not found.passed
        rows.append(_line(name, found, start))
    return table(["mistake in a method", *COLUMNS], rows), well


def _line(name: str, found: Audit, start: float) -> list[str]:
    bound, seconds = f"{found.lower_bound:.4g}", f"{time.perf_counter() - start:.0f} s"
    return [name, str(found.claim), bound, str(found.event), str(found.runs), seconds]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m experiments.audit", description=__doc__)
    parser.add_argument("--factor", type=int, default=10, help="times the runs of the tests")
    factor = parser.parse_args(arguments).factor
    all_well = True
    tables = (
        lambda: mechanisms(factor),
        lambda: methods(factor),
        method_mistakes,
        lambda: mistakes(factor),
    )
    for make in tables:
        page, well = make()
        print(page, end="\n\n", flush=True)
        all_well &= well
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
