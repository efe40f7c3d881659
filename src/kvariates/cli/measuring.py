"""The work of the commands that measure and write no file: `kvariates compare` and `audit`.

The attacker of an audit knows all rows but one, chooses the worst for the method, and looks at what
a fit publishes: the centre nearest to the row in question, all noisy counts, and the ledger.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import typer
from rich.progress import Progress

from kvariates.cli.app import check_name, tables
from kvariates.cli.reading import ReadRequest, read_table, say_remarks, scaled_rows
from kvariates.cli.screen import phase, print_table, said_warnings
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.k_selection import Choice
from kvariates.privacy import auditing
from kvariates.private_methods.methods import PRIVATE_METHODS
from kvariates.report.page import as_options
from kvariates.report.sections import how_sure, mark_of
from kvariates.seeding.seedings import HOST_SEEDINGS

FEWEST, MOST = 2, 20  # clusters, if -k is not given
LEGEND = (
    "silhouette and elbow: higher is better; the first and the last k have no elbow; a gap of -: "
    "no bound was found"
)
CHEAP_ROWS = 500  # up to which a lower bound on the cost is computed
CHEAP_SECONDS = 10.0  # for all bounds together
FEWEST_RUNS, MOST_RUNS = 400, 20_000  # of an audit, on each of the two data sets
ROWS = 12  # of an audit: all but one are in one corner, and the last is alone in the other
LONE = np.array([[-1.0, -1.0]] * (ROWS - 1) + [[1.0, 1.0]])


@dataclass(frozen=True)
class ComparedRun:
    """One seeding with one number of clusters. `gap`: to the lower bound; None if unknown."""

    k: int
    init: str
    cost: float
    seconds: float
    gap: float | None
    silhouette: float
    elbow: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """All lines, and the suggested number of clusters."""

    lines: list[ComparedRun]
    choice: Choice
    rows: int

    def summary(self) -> dict[str, Any]:
        """The result for programs."""
        choice = self.choice
        suggestion = {
            "k": int(choice.k), "clear": bool(choice.clear), "guess": int(choice.guess),
            "reason": choice.reason,
        }  # fmt: skip
        runs = [asdict(line) for line in self.lines]
        return {"rows": self.rows, "suggestion": suggestion, "runs": runs}


def compare_file(
    reading: ReadRequest, ks: tuple[int, int] | None, inits: list[str], scaling: str, seed: int,
    progress: Progress,
) -> Comparison:  # fmt: skip
    """Read the file and run every seeding for every k.

    `ks`: from, to; None: from FEWEST to MOST, or to the number of rows.
    """
    for name in inits:
        check_name("init", name, HOST_SEEDINGS)
    with phase(progress, f"reading {reading.data.name}"):
        data = read_table(reading)
        say_remarks(data.table, scaling != "none", reading)
        w = data.table.weight
        X, _ = scaled_rows(data.table.X, w, scaling)
    n = X.shape[0]
    low, high = ks or (min(FEWEST, n), min(MOST, n))
    if high > n:
        raise ValueError(f"{reading.data}: has {n:,} rows, so -k can go up to {n}, not {high}")
    with phase(progress, f"trying {low} to {high} clusters"), said_warnings(reading.notes):
        choice = choose_k(X, (low, high), sample_weight=w, random_state=seed)

    def fitted(k: int, **choices: Any) -> KMeans:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `choose_k` has said it
            return KMeans(k, random_state=seed, **choices).fit(X, sample_weight=w)

    lines, spent = [], 0.0
    task = progress.add_task("comparing seedings", total=len(choice.ks))
    for at, k in enumerate(choice.ks.tolist()):
        bound, begin = None, time.perf_counter()
        if n <= CHEAP_ROWS and spent < CHEAP_SECONDS:
            bound = fitted(k, certify=True).certificate_.lower_bound
            spent += time.perf_counter() - begin
        for init in inits:
            begin = time.perf_counter()
            cost = float(fitted(k, init=init, n_init=1).inertia_)
            seconds = time.perf_counter() - begin
            gap = max(cost / bound - 1, 0.0) if bound else None
            silhouette, elbow = float(choice.silhouette[at]), float(choice.elbow[at])
            lines.append(ComparedRun(k, init, cost, seconds, gap, silhouette, elbow))
        progress.advance(task)
    return Comparison(lines, choice, n)


def show_comparison(found: Comparison) -> None:
    """Print a line for each number of clusters, and the suggestion."""
    choice, inits = found.choice, list(dict.fromkeys(line.init for line in found.lines))
    certified = any(line.gap is not None for line in found.lines)
    head = [">k", ">best cost", *(f">{init}" for init in inits), ">seconds"]
    head += [">gap"] * certified + [">silhouette", ">elbow", ""]
    rows = []
    for k in choice.ks.tolist():
        lines = {line.init: line for line in found.lines if line.k == k}
        first = lines[inits[0]]
        best = min(line.cost for line in lines.values())
        gaps = [line.gap for line in lines.values() if line.gap is not None]
        cells = [str(k), f"{best:.5g}", *(_more(lines[init].cost, best) for init in inits)]
        cells += [f"{sum(line.seconds for line in lines.values()):.2f}"]
        cells += ["-" if not gaps else f"{min(gaps):.1%}"] * certified
        numbers = (first.silhouette, first.elbow)
        cells += [f"{x:.3f}" if np.isfinite(x) else "-" for x in numbers]
        rows.append((*cells, mark_of(choice, k)))
    print_table(head, rows)
    end = "; the gap is how far the best cost can be above the optimum" if certified else ""
    typer.echo(f"under each seeding: how much more it costs than the best{end}")
    tried = f"{choice.ks.min()} to {choice.ks.max()} were tried"
    typer.echo(f"k = {choice.k} ({tried}): {as_options(choice.reason)}")
    typer.echo(how_sure(choice))
    typer.echo(LEGEND)


def _more(cost: float, best: float) -> str:
    if cost <= best * (1 + 1e-9) or best <= 0:
        return "best"
    ratio = cost / best
    return f"x {ratio:.3g}" if ratio >= 2 else f"+{ratio - 1:.1%}"


@dataclass(frozen=True, eq=False)
class AttackedMethod:
    """A method on few rows in [-1, 1]."""

    method: Any  # a name of PRIVATE_METHODS
    epsilon: float
    delta: float

    def __call__(self, X: Any) -> PrivateKMeans:
        model = PrivateKMeans(
            2, epsilon=self.epsilon, delta=self.delta, bounds=(-1.0, 1.0), method=self.method
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X)

    def view(self, model: PrivateKMeans) -> dict[str, Any]:
        """What is published."""
        return {
            "near": auditing.near([[1.0, 1.0]])(model),
            "counts": np.sort(np.asarray(model.cluster_counts_, dtype=np.float64)),
            "charges": {charge.label: charge.cost for charge in model.ledger_.charges},
        }


@dataclass(frozen=True, eq=False)
class Attack:
    """The audit of a method, in words."""

    claim: AttackedMethod
    audit: auditing.Audit
    condition: str | None

    def summary(self) -> dict[str, Any]:
        """The result for programs."""
        claim, found = self.claim, self.audit
        return {
            "method": claim.method, "claim": {"epsilon": claim.epsilon, "delta": claim.delta},
            "certified_epsilon": found.lower_bound, "without_noise": found.most,
            "runs": found.runs, "error": 1 - found.confidence, "event": str(found.event),
            "passed": found.passed, "finding": found.finding, "condition": self.condition,
        }  # fmt: skip

    def words(self) -> list[str]:
        """What was claimed, done and found."""
        method, epsilon, delta = self.claim.method, self.claim.epsilon, self.claim.delta
        factor, found = math.exp(min(epsilon, 700.0)), self.audit
        more = f", plus a probability of {delta:g}" if delta else ""
        claim = f"epsilon = {epsilon:g}, delta = {delta:g}: one row more or less"
        lines = [
            f"method     {method}: {PRIVATE_METHODS[method].help}",
            f"claim      {claim} makes no result more than {factor:.3g} times as likely{more}",
            f"attack     {found.runs:,} fits of {ROWS} rows, and as many without the far row",
            f"power      of a method without noise it would have shown epsilon >= {found.most:.3g}",
            f"error      the finding is wrong with a chance of at most {1 - found.confidence:.1g}",
        ]
        if self.condition is not None:
            lines.append(f"condition  {self.condition}")
        return [*lines, f"found      {found.finding}"]


def attack(method: AttackedMethod, seconds: float, runs: int | None, progress: Progress) -> Attack:
    """Attack a method for about the given time, or with this number of runs."""
    check_name("method", method.method, tables("audit")["method"][0])
    first = method(LONE)  # an error of the input appears here
    if runs is None:
        begin = time.perf_counter()
        for _ in range(3):
            method(LONE)
        each = (time.perf_counter() - begin) / 3
        runs = int(np.clip(seconds / (2 * each), FEWEST_RUNS, MOST_RUNS))
    with phase(progress, f"attacking {method.method}, 2 x {runs:,} fits"):
        found = auditing.audit(
            method, (LONE, LONE[:-1]), epsilon=method.epsilon, delta=method.delta, runs=runs,
            view=method.view,
        )  # fmt: skip
    return Attack(method, found, first.condition_)
