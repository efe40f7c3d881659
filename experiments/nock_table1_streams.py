"""Rows (i), (ii), (a), (b) of Table 1 of Nock et al. 2016: printed and measured, with a verdict.

`python -m experiments.nock_table1_streams` runs all of it and saves the tables and the figures.

| row | printed for them | printed for us |
|---|---|---|
| (i) | Ailon et al. 2009: time of the outer loop | identical |
| (ii) | (2 + ln k) (1 + eta) 32 opt | (2 + ln k) ((8 + 4 eta) opt + 2 spread) |
| (a) | Liberty et al. 2014: a lower bound on opt must be known | nothing |
| (b) | O(log m) opt | (2 + ln k) (4 + 32 / varsigma^2) opt |

`opt` is the lowest cost that any run of `KMeans` found. eta is not known: bounds are printed for
eta = 0, where they are least, so a mean cost below them is below the bound for every eta.
For varsigma, see `experiments.stream_costs`. Means are over seeds, for one fixed order of the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array, data_folder

from experiments.quality import _floats, _standardised
from experiments.stream_costs import (
    KnownStream,
    LibertyCosts,
    OnlineCosts,
    SynopsisCosts,
    liberty_costs,
    lowest_cost,
    online_costs,
    synopsis_costs,
)

OURS, THEIRS = "coreset", "k-means#"
ALIKE = 1.5  # times that differ by less are called identical


@dataclass(frozen=True)
class Result:
    """All figures of one set in one order."""

    name: str
    m: int
    k: int
    opt: float
    synopses: list[SynopsisCosts]
    online: OnlineCosts
    liberty: LibertyCosts

    def by_synopsis(self, name: str) -> SynopsisCosts:
        return next(s for s in self.synopses if s.synopsis == name)

    @property
    def log_factor(self) -> float:
        """2 + ln k."""
        return 2 + math.log(self.k)


# ---- sets ----


def _s1(folder: Path) -> tuple[Array, int]:
    return _floats(_rows(folder / "sipu/s1.npz")), 15


def _covertype(folder: Path) -> tuple[Array, int]:
    return _standardised(_floats(_rows(folder / "uci/covertype.npz"))[:50_000]), 20


def _squares(folder: Path) -> tuple[Array, int]:
    return _floats(_rows(folder / "streaming/moving_squares.npz"))[:100_000], 4


def _rows(path: Path) -> Array:
    with np.load(path, allow_pickle=False) as kept:
        X: Array = kept["X"]
    return X


SETS: dict[str, Callable[[Path], tuple[Array, int]]] = {
    "s1": _s1,
    "covertype": _covertype,
    "moving_squares": _squares,
}
ORDERS = ("as stored", "shuffled")


def streams(names: Sequence[str]) -> list[KnownStream]:
    """Every set in both orders."""
    made = []
    for name in names:
        X, k = SETS[name](data_folder())
        shuffled = X[np.random.default_rng(0).permutation(len(X))]
        opt = lowest_cost(X, k)
        for order, rows in zip(ORDERS, (X, shuffled), strict=True):
            made.append(KnownStream(f"{name}, {order}", rows, k, opt))
    return made


def measured(stream: KnownStream, seeds: int) -> Result:
    """Run everything on one stream."""
    synopses = [
        synopsis_costs(stream, name, seeds, nearest=nearest)
        for name, nearest in ((THEIRS, False), (OURS, True), (OURS, False), ("reservoir", False))
    ]
    online, liberty = online_costs(stream, seeds), liberty_costs(stream, min(seeds, 3))
    m, k = len(stream.X), stream.k
    return Result(stream.name, m, k, stream.opt.cost, synopses, online, liberty)


# ---- tables ----


def _mean(costs: Sequence[float], r: Result) -> float:
    return statistics.fmean(costs) / r.opt


def row_i(results: Sequence[Result]) -> str:
    """Microseconds of k-means++ on the synopses."""
    lines = []
    for r in results:
        theirs, ours = r.by_synopsis(THEIRS), r.by_synopsis(OURS)
        times = [1e6 * s.outer_seconds for s in (theirs, ours)]
        ratio = max(times) / min(times)
        verdict = "holds" if ratio < ALIKE else f"does not: {ratio:.1f} times"
        sizes = [str(theirs.points), str(ours.points)]
        lines.append([r.name, *sizes, *(f"{t:.0f}" for t in times), verdict])
    head = ["", "synopses, Ailon", "ours", "us, Ailon", "ours", "identical"]
    return f"(i) time of the outer loop\n{table(head, lines)}"


def row_ii(results: Sequence[Result]) -> str:
    """Mean costs and bounds, over opt."""
    lines = []
    for r in results:
        for s in r.synopses:
            theirs = s.synopsis == THEIRS
            spread = s.spread / r.opt
            bound = r.log_factor * (32 if theirs else 8 + 2 * spread)
            mean = _mean(s.costs, r)
            who = f"{s.synopsis}{', rows counted' if s.nearest else ''}"
            verdict = "holds" if mean <= bound else "does not"
            words = [f"{s.points}", f"{spread:.2f}", f"{mean:.2f}", f"{bound:.0f}"]
            lines.append([r.name, who, *words, verdict])
    head = ["", "synopses", "points", "spread/opt", "mean cost/opt", "bound/opt", "mean <= bound"]
    return f"(ii) approximation bound, eta = 0\n{table(head, lines)}"


def row_a(results: Sequence[Result]) -> str:
    """What Liberty's algorithm opens, by what it knows."""
    lines = []
    for r in results:
        a = r.liberty
        counts = [f"{statistics.fmean(c):.0f}" for c in (a.fully, a.knowing, a.guessing)]
        lines.append([r.name, str(r.k), f"{a.found_bound / r.opt:.1e}", *counts, str(r.k)])
    head = [
        "", "k", "its own bound/opt", "centres, fully on-line", "semi, knows opt",
        "semi, knows opt/1000", "OLk-means++",
    ]  # fmt: skip
    return f"(a) knowledge required\n{table(head, lines)}"


def row_b(results: Sequence[Result]) -> str:
    """Mean costs and bounds, over opt."""
    lines = []
    for r in results:
        theirs, ours = _mean(r.liberty.costs, r), _mean(r.online.costs, r)
        varsigma = r.online.varsigma
        bound = math.inf if varsigma == 0 else r.log_factor * (4 + 32 / varsigma**2)
        least = r.log_factor * 36
        known = f"no varsigma > 0, so no bound (cost is {ours / least:.1g} of the least bound)"
        verdict = known if varsigma == 0 else "holds" if ours <= bound else "does not"
        lines.append([
            r.name, f"{theirs:.3f}", f"{theirs / math.log(r.m):.3f}", f"{ours:.2f}",
            f"{_mean(r.online.moved, r):.2f}", f"{varsigma:.1e}", f"{bound:.1e}", verdict,
        ])  # fmt: skip
    head = [
        "", "Liberty cost/opt", "/ ln m", "OLk-means++ cost/opt", "with update", "varsigma <=",
        "bound/opt >=", "our mean <= our bound",
    ]  # fmt: skip
    return f"(b) approximation bound\n{table(head, lines)}"


VERDICTS = """Verdicts
(i)  Holds. The outer loop is k-means++ on weighted points in both cases. With about as many
     synopses the times differ by less than 1.4 times.
(ii) Both bounds hold, and say little: every mean is far below them. With eta = 0 our bound is the
     smaller one if the spread is below 12 opt, as it is here. Theorem 5 itself is about synopses
     that count the rows nearest to them ("rows counted").
(a)  Does not hold as printed. Only the semi on-line variant is given a lower bound. The fully
     on-line one, which the paper compares with, computes it from its first k + 1 different rows.
     But that bound is poor, and then the algorithm opens hundreds of centres for each cluster,
     where OLk-means++ has k.
(b)  Theirs holds with a small constant, because it pays for many more than k centres. Ours holds
     with k centres where it says anything: varsigma is at most 0.0074 here, so that the bound is
     above a million times opt, and 0 if a batch has no row of some cluster. The measured cost is
     not far above opt in all cases. If centres move, it is lower still, unless the rows are
     sorted by cluster."""


def text(results: Sequence[Result], seeds: int) -> str:
    """All tables."""
    lines = [[r.name, str(r.m), str(r.k), f"{r.opt:.6g}"] for r in results]
    title = f"python -m experiments.nock_table1_streams: means over {seeds} seeds"
    sets = f"{title}\n{table(['', 'm', 'k', 'opt (lowest cost found)'], lines)}"
    return "\n\n".join([sets, *(row(results) for row in (row_i, row_ii, row_a, row_b)), VERDICTS])


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m experiments.nock_table1_streams")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the results")
    chosen, begin = parser.parse_args(), time.monotonic()
    results = []
    for stream in streams(chosen.sets):
        results.append(measured(stream, chosen.seeds))
        print(f"{stream.name} ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)
    said = text(results, chosen.seeds)
    print(said)
    chosen.save.mkdir(parents=True, exist_ok=True)
    stem = chosen.save / "nock_table1_streams"
    stem.with_suffix(".txt").write_text(f"{said}\n", encoding="utf-8")
    figures = json.dumps([asdict(r) for r in results], indent=1)
    stem.with_suffix(".json").write_text(f"{figures}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
