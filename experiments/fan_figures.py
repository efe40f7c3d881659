"""Tables, verdicts and pictures of the figures of Fan et al. 2023."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from experiments.fan_costs import (
    DEMANDS,
    KS,
    PAPERS,
    PRIVATE,
    Line,
    cost_table,
    holds,
    load,
    measure,
    number_table,
    repetitions,
    save,
    summarized,
)
from experiments.fan_data import Universe
from kvariates.palette import PALETTE
from kvariates.report.pictures import FAINT, INK, picture

BASES = ("DP-rand", "DP-k-median++")


def cost_figure(
    stem: str, universes: Sequence[Callable[[], Universe]], ks: Sequence[int] = KS
) -> None:
    """Measure initial and final costs as often as the command line says, print and save them."""
    lines = summarized(measure(stem, universes, repetitions(stem), ks))
    text = cost_text(stem, lines)
    print(text)
    save(stem, text, partial(draw_costs, lines=lines))


def cost_text(stem: str, lines: Sequence[Line]) -> str:
    """All tables and verdicts of initial and final costs."""
    names = list(dict.fromkeys(line.universe for line in lines))
    head = (
        f"python -m experiments.{stem}: epsilon = 1 (add-remove, pure), demand of 500, "
        f"{counted(lines)} repetitions (± is a standard error)."
    )
    parts = [head]
    for name, kind in itertools.product(names, DEMANDS):
        if any((line.universe, line.demand) == (name, kind) for line in lines):
            parts += [cost_table(lines, name, kind, what) for what in ("initial", "final")]
    return "\n\n".join([*parts, cost_verdicts(lines)])


def counted(lines: Sequence[Line]) -> str:
    """The number of repetitions, or the least and the largest."""
    least, most = (f(line.repetitions for line in lines) for f in (min, max))
    return str(least) if least == most else f"{least} to {most}"


def cost_verdicts(lines: Sequence[Line]) -> str:
    """The claims of the paper, and ours, counted over the rows."""
    said = ["Verdicts (rows: universe and k)"]
    for kind in DEMANDS:
        both = ", ".join(BASES)
        first, last = (holds(lines, "DP-HST", BASES, w, kind) for w in ("initial", "final"))
        ours = holds(lines, "cells", PAPERS, "final", kind)
        price = _price(lines, kind)
        costs = (
            f"{kind}: cells cost {price[0]:.3f} times the optimum without privacy (mean; worst "
            f"{price[1]:.3f}), the best of the papers' {price[2]:.3f} (mean)."
        )
        said += [
            f"{kind}: DP-HST starts at most as high as {both}: {first}.",
            f"{kind}: DP-HST ends at most as high as {both}: {last}.",
            f"{kind}: cells end at most as high as all three of the papers' methods: {ours}.",
            costs,
        ]
    return "\n".join(said)


def _price(lines: Sequence[Line], kind: str) -> tuple[float, float, float]:
    ours, papers = [], []
    for universe, k in {(x.universe, x.k) for x in lines if x.demand == kind}:
        own = {
            x.method: x.final for x in lines if (x.universe, x.demand, x.k) == (universe, kind, k)
        }
        ours.append(own["cells"] / own["optimum"])
        papers.append(min(own[name] for name in PAPERS) / own["optimum"])
    return float(np.mean(ours)), float(np.max(ours)), float(np.mean(papers))


def number_figure(stem: str, what: str, title: str) -> None:
    """Print and save what the private searches of figures 2 and 4 gave on imbalanced demand."""
    lines = [line for line in load("fan_fig2", "fan_fig4") if line.demand == "imbalanced"]
    names = list(dict.fromkeys(line.universe for line in lines))
    wins = holds(lines, "DP-HST", BASES, what, "imbalanced")
    said = [f"Verdict: DP-HST has at most the {title} of {', '.join(BASES)}: {wins}."]
    if what == "best":
        ours = holds(lines, "cells", PAPERS, what, "imbalanced")
        said.append(f"cells cost at most the best set of all three searches: {ours}.")
    head = (
        f"python -m experiments.{stem}: {title}, imbalanced demand, from the runs of fan_fig2 and "
        f"fan_fig4 ({counted(lines)} repetitions)"
    )
    text = "\n\n".join([head, *(number_table(lines, n, what) for n in names), "\n".join(said)])
    print(text)
    save(stem, text, partial(draw_numbers, lines=lines, what=what, title=title))


def draw_costs(path: Path, lines: Sequence[Line]) -> None:
    """Final cost / optimum against k, one plot for each universe and demand."""
    panels = list(dict.fromkeys((line.universe, line.demand) for line in lines))
    with picture(path, (5 * len(panels), 5), columns=len(panels)) as (_, axes):
        for ax, (universe, kind) in zip(axes, panels, strict=True):
            own = [x for x in lines if (x.universe, x.demand) == (universe, kind)]
            base = {x.k: x.final for x in own if x.method == "optimum"}
            for color, name in zip(PALETTE, PRIVATE, strict=False):
                mine = [x for x in own if x.method == name]
                ks = [x.k for x in mine]
                ax.plot(
                    ks, [x.final / base[x.k] for x in mine], color=color, marker="o", label=name
                )
                if name != "cells":
                    start = [x.initial / base[x.k] for x in mine]
                    ax.plot(ks, start, color=color, lw=1, ls="--")
            ax.axhline(1.0, color=FAINT, lw=1)
            _titled(ax, f"{universe}, {kind}", "cost / optimum (dashed: start)")
        axes[0].legend(frameon=False)


def draw_numbers(path: Path, lines: Sequence[Line], what: str, title: str) -> None:
    """A number against k, one plot for each universe."""
    names = list(dict.fromkeys(line.universe for line in lines))
    with picture(path, (5 * len(names), 5), columns=len(names)) as (_, axes):
        for ax, universe in zip(axes, names, strict=True):
            for color, name in zip(PALETTE, PRIVATE, strict=False):
                if what == "iterations" and name == "cells":
                    continue
                mine = [x for x in lines if (x.universe, x.method) == (universe, name)]
                values = [getattr(x, what) for x in mine]
                ax.plot([x.k for x in mine], values, color=color, marker="o", label=name)
            _titled(ax, universe, title)
        axes[0].legend(frameon=False)


def _titled(ax: Axes, title: str, label: str) -> None:
    ax.set_title(title, loc="left", size=13, weight="bold", color=INK)
    ax.set_xlabel("k")
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)
