"""Draws runs of the benchmarks as SVG, with colours for light and dark pages.

They are narrow, so that words can be read on a phone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from benchmark_runs import LIBRARIES, SECTIONS, PrivateCost, Ratios, speed_ratios

COLORS = {"sklearn": "#0072b2", "intelex": "#d55e00", "faiss": "#009e73"}  # Okabe and Ito
BUDGETS = ("#d55e00", "#0072b2", "#009e73")
STYLE = """<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:13px;fill:#333}
.small{font-size:11px;fill:#666}.title{font-size:15px;font-weight:600}.grid{stroke:#ddd}
.one{stroke:#888;stroke-dasharray:3 3}.thin{stroke:#555}.page{fill:#fff}
@media (prefers-color-scheme:dark){
text{fill:#ddd}.small{fill:#aaa}.grid{stroke:#444}.thin{stroke:#bbb}.page{fill:#1b2027}}
</style>"""
Axis = Callable[[float], float]  # from a value to a place on the page


def speed_chart(run: dict[str, Any]) -> str:
    """Bars from 1 to the geometric mean, on a logarithmic axis, with the range of workloads."""
    ratios = speed_ratios(run)
    libraries = [name for name in LIBRARIES if any(r.library == name for r in ratios)]
    sections = [name for name in SECTIONS if any(r.section == name for r in ratios)]
    left, width, top, step = 12, 450, 108, 18 * len(libraries) + 32
    low, doublings = 0.5, math.ceil(math.log2(max(r.most for r in ratios) / 0.5))
    bottom = top + step * len(sections)

    def x(value: float) -> float:
        return left + width * math.log2(value / low) / doublings

    about = (
        "Bars and numbers: geometric means over the workloads.",
        "Lines: lowest and highest. Below 1 we are slower.",
    )
    parts = _titles("Time of other libraries divided by ours", about)
    parts += _grid(x, [low * 2**i for i in range(doublings + 1)], top - 20, bottom - 8)
    for row, section in enumerate(sections):
        y = top + step * row
        parts.append(_text(12, y, SECTIONS[section]))
        parts += [
            _bar(r, x, y + 6 + 18 * libraries.index(r.library))
            for r in ratios
            if r.section == section
        ]
    for place, library in enumerate(libraries):
        at, name = left + 160 * place, LIBRARIES[library]
        parts.append(f'<rect x="{at}" y="66" width="12" height="12" fill="{COLORS[library]}"/>')
        parts.append(_text(at + 18, 77, f"{name} {run['versions'][name]}"))
    machine = run["machine"]
    source = (
        f"{machine['cores']} cores of an {machine['processor']}, run of {run['date']}: make bench"
    )
    parts.append(_text(12, bottom + 30, source, "small"))
    return _svg(left + width + 40, bottom + 42, parts)


def _bar(r: Ratios, x: Axis, y: float) -> str:
    start, stop = sorted((x(1), x(r.mean)))
    bar = (
        f'<rect x="{start:.1f}" y="{y:.1f}" width="{stop - start:.1f}" height="13" rx="2" '
        f'fill="{COLORS[r.library]}"/>'
    )
    middle = y + 6.5
    span = f'<path class="thin" d="M{x(r.least):.1f} {middle:.1f}H{x(r.most):.1f}"/>'
    return (
        bar + span + _text(x(r.most) + 5, y + 11, f"{r.mean:.{2 if r.mean < 10 else 0}f}", "small")
    )


def private_chart(costs: list[PrivateCost]) -> str:
    """Dots: means of the runs, one row a set; the axis ends at 1.5."""
    shown = [c for c in costs if c.delta == 1e-6]
    rows = list(dict.fromkeys((c.name, c.k) for c in shown))
    epsilons = sorted({c.epsilon for c in shown})
    left, width, top, step, low, high = 130, 340, 94, 22, 0.9, 1.5
    bottom = top + step * len(rows)

    def x(value: float) -> float:
        return left + width * (min(value, high) - low) / (high - low)

    about = (
        'PrivateKMeans, method "auto", δ = 1e-6. Dots: means of runs.',
        "Lines: lowest and highest run; the axis ends at 1.5.",
    )
    parts = _titles("Cost of private centres; without privacy it is 1", about)
    parts += _grid(x, [tenth / 10 for tenth in range(9, 16)], top - 8, bottom - 6)
    for place, epsilon in enumerate(epsilons):
        at = left + 90 * place
        parts.append(f'<circle cx="{at + 6}" cy="71" r="5" fill="{BUDGETS[place]}"/>')
        parts.append(_text(at + 16, 76, f"ε = {epsilon:g}"))
    for row, (name, k) in enumerate(rows):
        y = top + step * row
        parts.append(_text(12, y + 9, f"{name}, k = {k}"))
        for c in shown:
            if (c.name, c.k) == (name, k):
                place = epsilons.index(c.epsilon)
                parts.append(_dot(c, x, y + 5 * place, BUDGETS[place]))
    return _svg(left + width + 30, bottom + 24, parts)


def _dot(c: PrivateCost, x: Axis, y: float, color: str) -> str:
    least, mean, most = x(min(c.ratios)), x(statistics.fmean(c.ratios)), x(max(c.ratios))
    span = f'<path stroke="{color}" d="M{least:.1f} {y:.1f}H{most:.1f}"/>'
    return span + f'<circle cx="{mean:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>'


def _titles(title: str, about: tuple[str, str]) -> list[str]:
    lines = [_text(12, 41 + 15 * i, words, "small") for i, words in enumerate(about)]
    return [_text(12, 24, title, "title"), *lines]


def _grid(x: Axis, values: list[float], top: float, bottom: float) -> list[str]:
    parts = []
    for value in values:
        kind = "one" if value == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{x(value):.1f} {top}V{bottom}"/>')
        parts.append(_text(x(value), bottom + 16, f"{value:g}", "small", anchor="middle"))
    return parts


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{words}</text>'


def _svg(width: float, height: float, parts: list[str]) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    page = f'<rect class="page" width="{width:.0f}" height="{height:.0f}" rx="6"/>'
    return "\n".join([head, STYLE, page, *parts, "</svg>", ""])
