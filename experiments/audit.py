"""Deep audits: all releases and private methods with many runs, and planted mistakes.

`python -m experiments.audit` prints these tables and saves them. It fails if a claim breaks or a
mistake is missed.

| table | rows | columns |
|---|---|---|
| mechanisms | `tests/privacy/mechanism_cases.py` | the claim, the certified bound, the event |
| methods | `PRIVATE_METHODS` on the scenes of `method_cases.py` | as above |
| methods of k-median | `PRIVATE_KMEDIAN_METHODS` on those of `demand_cases.py` | as above |
| private peers | `tests/federated/test_private_audits.py`, with and without a mistake | as above |
| mistakes in methods | `tests/privacy/broken_methods.py`, `demand_cases.py` | as above |
| mistakes | `tests/privacy/numpy_mechanisms.py` | bound without and with it, runs needed |
| power | every kind of release of every method | its charge, the least loss that would be shown |

"Runs needed" are the fewest, doubling from 125, that catch the mistake for each of ten seeds. A
release whose charge is far below the least loss could be wrong by the factor of the last column,
and these audits would miss it: replays (`tests/privacy/test_replay.py`) check them exactly.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import table
from scipy import special

from kvariates.privacy.auditing import (
    BOUNDS,
    CONFIDENCE,
    Approximate,
    Audit,
    Claim,
    Concentrated,
    about,
    audit,
)
from kvariates.privacy.ledger import NUMBER

RESULTS = Path(__file__).resolve().parent / "results"
SEEDS = 10
FEWEST = 125
MOST = 2**20
COLUMNS = ("claim", "certified", "by", "runs", "time")
MISTAKE_COLUMNS = ("certified without", "with it", "by", "runs needed")
POWER_COLUMNS = ("release", "charge", "least loss shown", "factor")

Row = tuple[list[str], bool]  # the cells, and whether the result is as expected


def least_visible(claim: Claim, runs: int, confidence: float = CONFIDENCE) -> float:
    """The power of an audit: the least loss that so many runs are expected to show as a violation.

    The loss is that of one noisy number between two data sets: an epsilon of Laplace noise, or a
    rho of Gaussian noise. A release whose own charge is far below it may have far too little noise,
    and the audit would not see it. Infinity if no loss can be seen.
    """
    n, error = runs - runs // 2, (1 - confidence) / BOUNDS

    def shown(loss: float) -> float:
        gaussian = isinstance(claim, Concentrated)
        rare = special.ndtr(-math.sqrt(2 * loss)) if gaussian else math.exp(-loss) / 2
        lower, upper = about(np.array([0.5 * n, rare * n]), n, error)
        return float(claim.least(lower[:1], upper[1:])[0])

    least, most = 0.0, 64.0
    if shown(most) <= claim.value:
        return math.inf
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (middle, most) if shown(middle) <= claim.value else (least, middle)
    return most


def cases(name: str, room: str = "privacy") -> Any:
    """A module of tests/privacy, or of another room."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    return importlib.import_module(f"{room}.{name}")


def methods() -> dict[str, Any]:
    """The audits of methods, by name."""
    of_medians = {f"k-median, {n}": case for n, case in cases("demand_cases").DEEP.items()}
    return cases("method_cases").DEEP | of_medians


def broken_methods() -> dict[str, Any]:
    """Methods with planted mistakes, by name."""
    return cases("broken_methods").MISTAKES | cases("demand_cases").MISTAKES


def peer_cases() -> list[str]:
    """The names of the audits of private peers; none if Flower is not installed."""
    try:
        found = cases("test_private_audits", "federated").CASES
    except ImportError as error:
        print(f"private peers are left out: {error}", file=sys.stderr)
        return []
    return [f"{kind}, {side}, {how}" for kind, side, _ in found for how in ("right", "mistake")]


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


def method_runs(factor: int) -> int:
    """The number of runs of an audit of a method."""
    private = cases("method_cases")
    return max(factor * private.DEEP_RUNS // 10, private.QUICK_RUNS)


def method(name: str, factor: int) -> Row:
    """A private method, with a tenth of `factor` deep runs."""
    case, start = methods()[name], time.perf_counter()
    runs = method_runs(factor)
    found = audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)
    return _line(name, found, start), found.passed


def peer(name: str, factor: int) -> Row:
    """A question to a private peer, right or with a planted mistake."""
    private, start = cases("test_private_audits", "federated"), time.perf_counter()
    kind, side, how = name.split(", ")
    planted = next(mistake for k, s, mistake in private.CASES if (k, s) == (kind, side))
    run, budget = private.mechanism(kind, side)
    both, right = private.neighbours("lone", 3, 2, side), how == "right"
    runs = private.RUNS if not right else max(private.RUNS, factor * private.RUNS // 5)
    with nullcontext() if right else planted():
        found = audit(run, both, epsilon=private.cost(budget, kind), runs=runs)
    return _line(f"PDk-means++, {name}", found, start), found.passed == right


def power(name: str, factor: int) -> list[list[str]]:
    """The releases of a method: their charges, and the least loss that the runs would show."""
    case = methods()[name]
    claim = case.claim
    rho = "rho" in claim
    made = Concentrated(claim["rho"]) if rho else Approximate(claim["epsilon"])
    least, rows = least_visible(made, method_runs(factor)), {}
    for charge in case(case.neighbours.first).result.charges:
        cost = float(charge.exact(concentrated=rho))
        rows.setdefault((NUMBER.sub("#", charge.label), f"{cost:.3g}"), cost)
    return [
        [
            name,
            label,
            f"{'rho' if rho else 'epsilon'} {shown}",
            f"{least:.3g}",
            f"{least / cost:.3g}",
        ]
        for (label, shown), cost in rows.items()
    ]


def method_mistake(name: str, _factor: int) -> Row:
    """A mistake planted in a method."""
    mistake, start = broken_methods()[name], time.perf_counter()
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
    all_well, parts = True, []
    deep, start = methods(), time.perf_counter()
    os.environ["OMP_NUM_THREADS"] = "1"  # of each process; there is one for each core
    # Processes are started, not forked: a forked process has no threads for noise.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for one, names, head in (
            (mechanism, cases("mechanism_cases").CASES, ["mechanism", *COLUMNS]),
            (method, deep, ["method", *COLUMNS]),
            (peer, peer_cases(), ["private peer", *COLUMNS]),
            (method_mistake, broken_methods(), ["mistake in a method", *COLUMNS]),
            (mistake, cases("numpy_mechanisms").CASES, ["mistake", "claim", *MISTAKE_COLUMNS]),
        ):
            rows = []
            for row, well in pool.map(one, names, repeat(factor)):
                found = "as expected" if well else "WRONG"
                print(f"{row[0]}: {found}", file=sys.stderr, flush=True)
                rows.append(row)
                all_well &= well
            parts.append(table(head, rows))
            print(parts[-1], end="\n\n", flush=True)
        shown = [name for name in deep if "crowd" in name or "conditional" in name]
        lines = [line for part in pool.map(power, shown, repeat(factor)) for line in part]
    parts.append(table(["method", *POWER_COLUMNS], lines))
    verdict = "as expected" if all_well else "WRONG"
    parts.append(f"{time.perf_counter() - start:.0f} s in all; {verdict}")
    print(*parts[-2:], sep="\n\n")
    (RESULTS / "audit.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
