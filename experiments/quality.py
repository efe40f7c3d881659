"""Compares seedings and refinements on public data: cost, planted centres found, and time.

`python -m experiments.quality` fits every pair of a seeding and a refinement to every data set,
each with several seeds and `n_init=1`, prints a table for each set and saves the figures as JSON.

| figure | meaning |
|---|---|
| cost | the median inertia, as the excess over the best run on this set |
| CI | the median centroid index (Fraenti et al. 2014): 0 if every planted centre is found |
| s | the median time of a whole fit, in seconds |

Lloyd from the planted centres, if there are any, counts as a run. The columns of Covertype, KDD99,
Spambase and California Housing are standardised, the pixels of MNIST are divided by 255, the word
counts of 20 Newsgroups (every second document) become tf-idf (CSR), and other data are not changed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.machine import cores
from benchmarks.report import table
from benchmarks.workloads import Array, Data, data_folder, tf_idf

from kvariates import KMeans, __version__

COMPARED_SEEDINGS = ("random", "k-means++", "d2", "k-means||", "ls++", "global")
COMPARED_REFINEMENTS = ("auto", "hartigan", "minibatch")
QUICK = ("s1", "a1", "unbalance", "dim032")


@dataclass(frozen=True)
class Problem:
    """Rows, the number of clusters, the planted centres if known, and the number of seeds."""

    name: str
    X: Data
    k: int
    planted: Array | None = None
    seeds: int = 5


@dataclass(frozen=True)
class Cell:
    """One seeding and one refinement on one set, with a figure for every seed."""

    seeding: str
    refinement: str
    costs: tuple[float, ...]
    missed: tuple[int, ...]  # the centroid index; empty if there are no planted centres
    seconds: tuple[float, ...]

    @property
    def pair(self) -> tuple[str, str]:
        """The seeding and the refinement."""
        return self.seeding, self.refinement


@dataclass(frozen=True)
class Outcome:
    """The results on one set."""

    name: str
    shape: tuple[int, int]
    k: int
    planted_cost: float | None  # of Lloyd from the planted centres
    cells: list[Cell]

    @property
    def best(self) -> float:
        """The lowest cost of all runs."""
        found = [cost for cell in self.cells for cost in cell.costs]
        return min(found if self.planted_cost is None else [self.planted_cost, *found])

    def ratio(self, cost: float) -> float:
        """A cost divided by the best."""
        return _over(cost, self.best)


def _over(cost: float, other: float) -> float:
    """The ratio of two costs; 1 if both are zero."""
    return cost / other if other > 0 else (1.0 if cost == 0 else math.inf)


def _planted(file: str, seeds: int = 5) -> Callable[[Path], Problem]:
    def load(path: Path) -> Problem:
        with np.load(path, allow_pickle=False) as kept:
            X, centers = kept["X"], kept["centers"]
        name = Path(file).stem
        return Problem(name, _floats(X), len(centers), _floats(centers), seeds)

    return load


def _real(
    name: str, k: int, scale: Callable[[Array], Array], seeds: int = 2
) -> Callable[[Path], Problem]:
    def load(path: Path) -> Problem:
        with np.load(path, allow_pickle=False) as kept:
            return Problem(name, scale(_floats(kept["X"])).astype(np.float32), k, seeds=seeds)

    return load


def _text(path: Path) -> Problem:
    """Every second document."""
    return Problem("newsgroups", tf_idf(path, "float32")[::2], 20, seeds=3)


def _floats(X: Array) -> Array:
    return np.ascontiguousarray(X, dtype=np.float64)


def _standardised(X: Array) -> Array:
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1))


SIPU = {
    name: f"sipu/{name}.npz"
    for name in ("s1", "s2", "s3", "a1", "a2", "unbalance", "dim032", "dim064", "dim128", "dim256")
}
BIRCH = {name: f"sipu/{name}.npz" for name in ("birch1", "birch2")}
SETS: dict[str, tuple[str, Callable[[Path], Problem]]] = {
    **{name: (file, _planted(file)) for name, file in SIPU.items()},
    **{name: (file, _planted(file, seeds=3)) for name, file in BIRCH.items()},
    "mnist": ("mnist/mnist70k.npz", _real("mnist", 10, lambda X: X / 255)),
    "covertype": ("uci/covertype.npz", _real("covertype", 16, _standardised)),
    "kdd99": ("uci/kddcup99_10pct.npz", _real("kdd99", 23, _standardised)),
    "newsgroups": ("sparse_text/20newsgroups_counts.npz", _text),
    "letter": ("uci/letter.npz", _real("letter", 26, lambda X: X, seeds=5)),
    "spambase": ("uci/spambase.npz", _real("spambase", 16, _standardised, seeds=5)),
    "california": ("uci/california_housing.npz", _real("california", 20, _standardised, seeds=5)),
}


def centroid_index(found: Array, planted: Array) -> int:
    """The number of centres without a counterpart; the larger of both directions.

    A centre has a counterpart if it is the nearest one of some centre of the other set.
    """
    apart = ((found[:, None, :] - planted[None, :, :]) ** 2).sum(axis=2)
    unmatched_planted = len(planted) - len(set(apart.argmin(axis=1).tolist()))
    unmatched_found = len(found) - len(set(apart.argmin(axis=0).tolist()))
    return max(unmatched_planted, unmatched_found)


def run_cell(problem: Problem, seeding: str, refinement: str) -> Cell:
    """Fit with every seed."""
    costs, missed, seconds = [], [], []
    for seed in range(problem.seeds):
        model = KMeans(problem.k, init=seeding, algorithm=refinement, n_init=1, random_state=seed)
        begin = time.perf_counter()
        _fit(model, problem.X)
        seconds.append(time.perf_counter() - begin)
        costs.append(float(model.inertia_))
        if problem.planted is not None:
            missed.append(centroid_index(model.cluster_centers_, problem.planted))
    return Cell(seeding, refinement, tuple(costs), tuple(missed), tuple(seconds))


def run_problem(problem: Problem, seedings: Sequence[str], refinements: Sequence[str]) -> Outcome:
    """Run every pair on one set."""
    planted_cost = None
    if problem.planted is not None:
        planted_cost = float(_fit(KMeans(problem.k, init=problem.planted), problem.X).inertia_)
    cells = [run_cell(problem, a, b) for a in seedings for b in refinements]
    shape = (problem.X.shape[0], problem.X.shape[1])
    return Outcome(problem.name, shape, problem.k, planted_cost, cells)


def _fit(model: Any, X: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer clusters than n_clusters: the table shows the cost
        return model.fit(X)


def text(outcomes: Sequence[Outcome], left_out: Sequence[str]) -> str:
    """All tables as text."""
    parts = [_set_table(outcome) for outcome in outcomes]
    parts += [_ranking(outcomes), _against(outcomes), _finders(outcomes)] if outcomes else []
    parts += ["\n".join(f"Left out: {what}" for what in left_out)]
    return "\n\n".join(part for part in parts if part)


def _set_table(outcome: Outcome) -> str:
    cells = {cell.pair: cell for cell in outcome.cells}
    seedings = list(dict.fromkeys(cell.seeding for cell in outcome.cells))
    refinements = list(dict.fromkeys(cell.refinement for cell in outcome.cells))
    head = ["", *(word for name in refinements for word in (name, "CI", "s"))]
    rows = [
        [seeding, *(word for r in refinements for word in _words(outcome, cells[seeding, r]))]
        for seeding in seedings
    ]
    n, d = outcome.shape
    seeds = len(outcome.cells[0].costs)
    title = f"{outcome.name}: {n} x {d}, k = {outcome.k}, {seeds} seeds, best {outcome.best:.6g}"
    if outcome.planted_cost is not None:
        title += f", from the planted centres {outcome.planted_cost:.6g}"
    return f"{title}\n{table(head, rows)}"


def _words(outcome: Outcome, cell: Cell) -> list[str]:
    missed = f"{statistics.median(cell.missed):g}" if cell.missed else "-"
    cost = outcome.ratio(statistics.median(cell.costs))
    return [_excess(cost), missed, f"{statistics.median(cell.seconds):.3f}"]


def _excess(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2f}%"


def _ranking(outcomes: Sequence[Outcome]) -> str:
    """Pairs by their mean cost over all sets and seeds, in which a single bad run counts."""
    rows = []
    for pair in (cell.pair for cell in outcomes[0].cells):
        there = [(o, cell) for o in outcomes for cell in o.cells if cell.pair == pair]
        ratios = [o.ratio(cost) for o, cell in there for cost in cell.costs]
        means = [statistics.fmean(map(math.log, map(o.ratio, cell.costs))) for o, cell in there]
        missed = [count for _, cell in there for count in cell.missed]
        seconds = sum(statistics.median(cell.seconds) for _, cell in there)
        mean = math.exp(statistics.fmean(means))
        rows.append((mean, max(ratios), missed, seconds, " + ".join(pair)))
    head = ["", "mean cost", "worst run", "all centres found", "s in all"]
    lines = [
        [name, _excess(mean), _excess(worst), f"{missed.count(0)}/{len(missed)}", f"{seconds:.1f}"]
        for mean, worst, missed, seconds, name in sorted(rows, key=lambda row: row[:2])
    ]
    title = "All sets, best first (mean: geometric, over seeds, then sets; found: in how many runs)"
    return f"{title}\n{table(head, lines)}"


def _against(outcomes: Sequence[Outcome], ours: str = "global", base: str = "k-means++") -> str:
    """The mean cost of a seeding over that of another one, for each set and refinement."""
    refinements = list(dict.fromkeys(cell.refinement for cell in outcomes[0].cells))
    lines = []
    for outcome in outcomes:
        means = {cell.pair: statistics.fmean(cell.costs) for cell in outcome.cells}
        if {(ours, r) for r in refinements} | {(base, r) for r in refinements} <= means.keys():
            ratios = [_over(means[ours, r], means[base, r]) for r in refinements]
            lines.append([outcome.name, *map(_excess, ratios)])
    title = f"Mean cost of {ours} over that of {base}"
    return f"{title}\n{table(['', *refinements], lines)}" if lines else ""


def _finders(outcomes: Sequence[Outcome]) -> str:
    lines = []
    for outcome in (outcome for outcome in outcomes if outcome.planted_cost is not None):
        always = _listed(outcome, lambda missed: not any(missed))
        some = _listed(outcome, lambda missed: 0 in missed)
        otherwise = f"no pair in every run; in some by {some}" if some else "nobody"
        lines.append([outcome.name, always or otherwise])
    width = max((len(line[0]) for line in lines), default=0)
    listed = "\n".join(f"{name:{width}}  {pairs}" for name, pairs in lines)
    title = "Every planted centre found, in every run, by (with any refinement if none is named)"
    return f"{title}\n{listed}" if lines else ""


def _listed(outcome: Outcome, good: Callable[[tuple[int, ...]], bool]) -> str:
    """The good pairs by seeding; a seeding without a refinement is good with all of them."""
    words = []
    for seeding in dict.fromkeys(cell.seeding for cell in outcome.cells):
        cells = [cell for cell in outcome.cells if cell.seeding == seeding]
        if names := [cell.refinement for cell in cells if good(cell.missed)]:
            words.append(seeding if len(names) == len(cells) else f"{seeding} + {'/'.join(names)}")
    return ", ".join(words)


def save(outcomes: Sequence[Outcome], left_out: Sequence[str], folder: Path) -> Path:
    """Save the figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"quality-{dt.datetime.now():%Y-%m-%d-%H%M}.json"
    content = {
        "kvariates": __version__,
        "cores": cores(),
        "sets": [asdict(outcome) | {"best": outcome.best} for outcome in outcomes],
        "left_out": list(left_out),
    }
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return file


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.quality", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--sets", default="", help=f"sets, by comma: {', '.join(SETS)}")
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    chosen = parser.parse_args(words)
    named = list(filter(None, chosen.sets.split(",")))
    chosen.sets = named or list(QUICK if chosen.quick else SETS)
    unknown = set(chosen.sets) - set(SETS)
    if unknown:
        parser.error(f"no set named {', '.join(sorted(unknown))}; use {', '.join(SETS)}")
    return chosen


def main() -> None:
    """Measure, print the tables and save the figures."""
    chosen, begin = options(), time.monotonic()
    outcomes, left_out = [], []
    for name in chosen.sets:
        file, load = SETS[name]
        path = data_folder() / file
        if not path.exists():
            left_out.append(f"{name} (no {file} in the data folder, KVARIATES_DATA)")
            continue
        print(f"{name} ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)
        outcomes.append(run_problem(load(path), COMPARED_SEEDINGS, COMPARED_REFINEMENTS))
    print(text(outcomes, left_out))
    kept = save(outcomes, left_out, chosen.save)
    print(f"\n{time.monotonic() - begin:.0f} s; kept in {kept.name}")


if __name__ == "__main__":
    main()
