"""Figure 2 of Balcan et al. 2017: cost against k, and against epsilon, with corrected noise.

`python -m experiments.balcan_fig2` measures all of it and saves the figure, the table and the JSON.

    (a) to (c)   k = 2 .. 64 at epsilon = 1: MNIST, Covertype, a mixture of 64 Gaussians in R^100
    (d)          epsilon = 0.1 .. 4 at k = 10: MNIST

The paper's second set, 160 features of CIFAR-10 from a network, is not at hand: 100,000 rows of
Covertype, 54 features scaled to [0, 1], take its place. All sets are centred and scaled into the
unit ball, which counts as public.

    candidates      PrivateKMeans(method="candidates"), our defaults
    as they ran it  their experiments' choices: k repeats, 8 steps at the end; corrected noise
    SuLQ            method="lloyd" with 20 steps, from random points
    sample-agg.     method="sample-aggregate"
    k-means++       one start and Lloyd, not private

Two budgets: pure epsilon, which the paper claims, and delta = 1e-6, which its SuLQ with Gaussian
noise has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import private_data
from benchmarks.report import table
from benchmarks.workloads import ROOT, Array, inertia

from kvariates import KMeans, PrivateKMeans
from kvariates.palette import PALETTE
from kvariates.private_methods.candidates import Candidates
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.report.pictures import picture

FREE = "k-means++"
METHODS: dict[str, Callable[[int], Any]] = {
    "candidates": lambda _: Candidates(),
    "as they ran it": lambda k: Candidates(repeats=k, steps=8),
    "SuLQ": lambda _: NoisyLloyd(steps=20),
    "sample-agg.": lambda _: "sample-aggregate",
}
SLOW = "sample-agg."  # far behind; only measured for FEW centres
FEW = 8
SETS = {"synthetic": "mix64", "Covertype": "covertype", "MNIST": "mnist784"}
MOST_ROWS = 100_000


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    ks: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    epsilons: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
    deltas: tuple[float, ...] = (0.0, 1e-6)
    runs: int = 1


@dataclass(frozen=True)
class Point:
    """Mean cost of a row over several runs, its standard deviation, and seconds a fit."""

    data: str
    method: str
    k: int
    epsilon: float
    delta: float
    cost: float
    deviation: float
    seconds: float


def rows_of(name: str) -> Array:
    """At most MOST_ROWS rows of a set, drawn at random."""
    X = private_data.load(SETS[name])
    if len(X) <= MOST_ROWS:
        return X
    return np.ascontiguousarray(X[np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]])


def measured(
    X: Array, of: tuple[str, str, int, float, float], make: Callable[[], Any], runs: int
) -> Point:
    """One point of the figure: `make` makes an estimator."""
    begin = time.monotonic()
    models = [make().fit(X) for _ in range(runs)]
    seconds = (time.monotonic() - begin) / runs
    centers = [np.asarray(model.cluster_centers_, np.float64) for model in models]
    costs = [inertia(X, own) / len(X) for own in centers]
    return Point(*of, float(np.mean(costs)), float(np.std(costs)), seconds)


def measure(settings: Settings, save: Callable[[list[Point]], None]) -> list[Point]:
    """All points of the figure; `save` is called after each panel."""
    points: list[Point] = []

    def add(name: str, X: Array, k: int, epsilons: Sequence[float]) -> None:
        free = (name, FREE, k, 0.0, 0.0)
        points.append(measured(X, free, lambda: KMeans(k, n_init=1), settings.runs))
        for delta in settings.deltas:
            for epsilon in epsilons:
                for method, choose in METHODS.items():
                    if method == SLOW and k != FEW:
                        continue
                    of = (name, method, k, epsilon, delta)
                    options = {"epsilon": epsilon, "delta": delta, "radius": 1.0}
                    make = lambda: PrivateKMeans(k, method=choose(k), **options)  # noqa: B023, E731
                    points.append(measured(X, of, make, settings.runs))
        print(f"{name}, k = {k}", file=sys.stderr, flush=True)
        save(points)

    for name in SETS:
        X = rows_of(name)
        for k in settings.ks:
            add(name, X, k, [1.0])
        if name == "MNIST":
            add(name, X, 10, settings.epsilons)
    return points


# ---- tables ----


def printed_cost(d: int) -> float:
    """What Algorithm 4 as printed costs, in epsilons, without the steps at the end.

    For add-remove neighbours; `privacy/proofs/candidates.md` has the sum of the parts.
    """
    return (9 + np.sqrt(d)) / 24


def tables(points: Sequence[Point]) -> str:
    """Costs of k-means++, and the others' in multiples of it."""
    parts = []
    for name in SETS:
        for delta in sorted({p.delta for p in points}):
            own = [p for p in points if p.data == name and p.delta == delta and p.epsilon == 1.0]
            free = {p.k: p.cost for p in points if p.data == name and p.method == FREE}
            ks = sorted({p.k for p in own})
            if ks:
                head = [f"{name}, {_budget(1.0, delta)}", *(f"k={k}" for k in ks)]
                parts.append(table(head, _lines(own, free, ks, lambda p: p.k)))
    for delta in sorted({p.delta for p in points}):
        own = [p for p in points if (p.data, p.k, p.delta) == ("MNIST", 10, delta) and p.epsilon]
        epsilons = sorted({p.epsilon for p in own})
        if epsilons:
            base = next(p.cost for p in points if (p.data, p.k, p.method) == ("MNIST", 10, FREE))
            free = dict.fromkeys(epsilons, base)
            head = [f"MNIST, k = 10, delta = {delta:g}", *(f"ε={e:g}" for e in epsilons)]
            parts.append(table(head, _lines(own, free, epsilons, lambda p: p.epsilon)))
    return "\n\n".join(parts)


def _budget(epsilon: float, delta: float) -> str:
    return f"ε = {epsilon:g}, " + ("pure" if delta == 0 else f"δ = {delta:g}")


def _lines(
    own: Sequence[Point], free: dict[Any, float], xs: Sequence[Any], x_of: Callable[[Point], Any]
) -> list[list[str]]:
    lines = [[FREE + ", cost of a row", *(f"{free[x]:.4g}" for x in xs)]]
    for method in METHODS:
        by = {x_of(p): p for p in own if p.method == method}
        ratios = [f"{by[x].cost / free[x]:.3f}" if x in by else "-" for x in xs]
        lines.append([f"{method}, ratio", *ratios])
    return lines


VERDICTS = """Verdicts (single runs: differences of a few per cent mean nothing)
Better than SuLQ for every k and set: holds with pure epsilon from k = 4 on for our defaults
    (from k = 8 on as they ran it); at k = 2 there is no difference but on MNIST. With delta =
    1e-6, whose Gaussian noise their SuLQ had, it does not hold up to k = 8: SuLQ costs as much.
    From k = 16 on candidates cost less on all three sets.
Competitive with k-means++ for every k: does not survive the corrected noise with pure epsilon.
    At k = 64 the cost is 1.7 times that of k-means++ on MNIST, 2.0 on Covertype and 2.1 on the
    mixture; as they ran it 1.8, 2.7 and 4.8. With delta = 1e-6 it is 1.15, 1.15 and 1.29: holds
    up to k = 32 within 12 %.
The gap to SuLQ grows with the dimension: holds for few centres with pure epsilon (k = 2: 1.3
    times on MNIST, none on the others), not for many: at k = 64 it is larger on the other two
    sets.
Sample-and-aggregate is far behind: holds, 2.6 to 5.7 times k-means++ at k = 8. Orders of
    magnitude are not seen, since our centres stay in the unit ball.
Close to k-means++ even for small epsilon (MNIST, k = 10), where SuLQ is not: holds with delta =
    1e-6 (epsilon = 0.1: 1.12 and 1.37 times k-means++). With pure epsilon 1.37 and 2.6: better than
    SuLQ, but the centres are little more than the mean of all rows.
The printed noise of the recovery is not private on MNIST; on 54, 100 and 160 features it is, by
    what the paper leaves unused (add-remove neighbours)."""


def text(settings: Settings, points: Sequence[Point]) -> str:
    """The tables, the noise as printed, and the verdicts."""
    title = (
        f"python -m experiments.balcan_fig2: means of {settings.runs} runs; ratios are to one run "
        "of k-means++ and Lloyd"
    )
    costs = ", ".join(f"{printed_cost(d):.2f} ε at d = {d}" for d in (54, 100, 160, 784))
    noise = (
        f"Algorithm 4 with the printed noise costs {costs}: it is not ε-private from d = 226 on. "
        "All private figures here have the corrected noise."
    )
    slow = max((p for p in points if p.method == "candidates"), key=lambda p: p.seconds)
    fit = f"The slowest fit of candidates took {slow.seconds:.0f} s ({slow.data}, k = {slow.k})."
    return "\n\n".join([title, tables(points), noise, fit, VERDICTS])


def draw(path: Path, points: Sequence[Point]) -> None:
    """The four panels."""
    colors = dict(zip([*METHODS, FREE], PALETTE, strict=False))
    with picture(path, (18, 4.5), columns=4) as (_, axes):
        for one, name in zip(axes, SETS, strict=False):
            own = [p for p in points if p.data == name and p.epsilon in (0.0, 1.0)]
            _panel(one, own, lambda p: p.k, f"{name}, ε = 1", "k", colors)
        own = [p for p in points if p.data == "MNIST" and p.k == 10]
        _panel(axes[3], own, lambda p: p.epsilon, "MNIST, k = 10", "ε", colors)
        axes[0].legend(fontsize=8)


def _panel(
    axes: Any, own: Sequence[Point], x_of: Callable[[Point], float], title: str, x: str,
    colors: dict[str, str],
) -> None:  # fmt: skip
    """Costs by method: solid with delta, dashed pure; sample-and-aggregate is left out."""
    for method, color in colors.items():
        for delta, style in ((1e-6, "-"), (0.0, "--")):
            some = sorted((x_of(p), p.cost) for p in own if (p.method, p.delta) == (method, delta))
            if method == FREE and delta == 0.0 and len({at for at, _ in some}) == 1:
                axes.axhline(some[0][1], color=color, lw=1, label=method)
            elif some and method != SLOW:
                label = method if delta or method == FREE else None
                axes.plot(
                    *zip(*some, strict=True), style, color=color, marker="o", ms=3, label=label
                )
    axes.set_xscale("log")
    axes.set_yscale("log")
    xs = sorted({x_of(p) for p in own} - {0.0})
    axes.set_xticks(xs, [f"{at:g}" for at in xs])
    axes.minorticks_off()
    axes.set_xlabel(f"{x}; solid: δ = 1e-6, dashed: pure ε")
    axes.set_title(title, loc="left", size=12, weight="bold")


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(prog="python -m experiments.balcan_fig2", description=__doc__)
    parser.add_argument("--runs", type=int, default=Settings.runs)
    parser.add_argument("--ks", default=",".join(map(str, Settings.ks)), help="by comma")
    epsilons = ",".join(map(str, Settings.epsilons))
    parser.add_argument("--epsilons", default=epsilons, help="of panel (d), by comma")
    parser.add_argument("--deltas", default="0,1e-6", help="by comma")
    parser.add_argument("--save", type=Path, default=ROOT / "experiments" / "results")
    parser.add_argument("--again", action="store_true", help="only write text and figure again")
    said = parser.parse_args()
    deltas = tuple(float(delta) for delta in said.deltas.split(","))
    ks, epsilons = (tuple(map(float, one.split(","))) for one in (said.ks, said.epsilons))
    settings = Settings(tuple(map(int, ks)), epsilons, deltas, said.runs)
    said.save.mkdir(parents=True, exist_ok=True)
    file = said.save / "balcan_fig2.json"

    def save(points: Sequence[Point]) -> None:
        content = {"settings": asdict(settings), "points": [asdict(p) for p in points]}
        file.write_text(json.dumps(content, indent=1) + "\n")

    if said.again:
        stored = json.loads(file.read_text())
        settings = Settings(**{name: tuple(v) if isinstance(v, list) else v
                               for name, v in stored["settings"].items()})  # fmt: skip
        points = [Point(**point) for point in stored["points"]]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            points = measure(settings, save)
    words = text(settings, points)
    file.with_suffix(".txt").write_text(words + "\n")
    draw(file.with_suffix(".png"), points)
    print(words)


if __name__ == "__main__":
    main()
