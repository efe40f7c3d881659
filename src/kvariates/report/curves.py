"""Curves over one axis as SVG, in per cents of its size, so that texts keep theirs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .colors import PALETTE
from .page import number, text, tip


@dataclass(frozen=True, eq=False)
class Line:
    """A curve; `low` and `high`, if given, are a range around each of its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class AxisScale:
    """From values to per cents of a figure's width or height."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        a, b, v = (map(math.log10, (self.low, self.high, value)) if self.log
                   else (self.low, self.high, value))  # fmt: skip
        return self.start + (self.end - self.start) * (v - a) / (b - a)

    def ticks(self, most: int) -> list[float]:
        if self.log:
            return _log_ticks(self.low, self.high, most)
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1,)):
        found = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(found) <= most + 1:
            break
    if len(found) < 2:
        return AxisScale(low, high, 0, 1).ticks(most)
    return found[:: max(1, math.ceil(len(found) / (most + 1)))]


def lines(
    series: Sequence[Line], x_name: str, y_name: str, *, log_x: bool = False, log_y: bool = False
) -> str:
    """Curves over one axis. `log_x` and `log_y`: on a logarithmic scale; values are above 0."""
    xs = [v for line in series for v in line.x]
    ys = [v for line in series for v in (*line.y, *line.low, *line.high)]
    x = _scale(xs, 9.0, 98.0, log=log_x, margin=0.0)
    y = _scale(ys, 85.0, 8.0, log=log_y, margin=0.04)
    parts = []
    for tick in y.ticks(5):
        at = f"{y.at(tick):.3f}%"
        parts.append(
            f'<line class="grid" x1="9%" x2="98%" y1="{at}" y2="{at}"/>'
            f'<text class="end" x="8%" y="{at}" dy="4">{number(tick, 3)}</text>'
        )
    whole = all(float(v).is_integer() for v in xs)
    parts += [
        f'<text class="middle" x="{x.at(tick):.3f}%" y="93%">{number(tick, 3)}</text>'
        for tick in x.ticks(7)
        if not whole or float(tick).is_integer()
    ]
    parts.append(f'<text class="middle" x="53%" y="100%">{text(x_name)}</text>')
    parts.append(f'<text x="1%" y="0%" dy="8">{text(y_name)}</text>')
    for i, line in enumerate(series):
        parts.append(f'<g class="k{i % len(PALETTE)}">{_curve(line, x, y, x_name)}</g>')
    label = text(f"{y_name} over {x_name}")
    return (
        f'<figure><div class="chart"><svg role="img" aria-label="{label}">{"".join(parts)}</svg>'
        f"</div>{_line_key(series)}</figure>"
    )


def _scale(
    values: Sequence[float], start: float, end: float, *, log: bool, margin: float
) -> AxisScale:
    low, high = min(values), max(values)
    if log:
        wider = (high / low) ** margin if high > low else 2.0
        return AxisScale(low / wider, high * wider, start, end, log=True)
    pad = margin * (high - low) if high > low else max(abs(high), 1.0) / 2
    return AxisScale(low - pad, high + pad, start, end)


def _curve(line: Line, x: AxisScale, y: AxisScale, x_name: str) -> str:
    places = [(x.at(a), y.at(b)) for a, b in zip(line.x, line.y, strict=True)]
    ranges = "".join(
        f'<line class="area" x1="{x.at(a):.3f}%" x2="{x.at(a):.3f}%" y1="{y.at(b):.3f}%" '
        f'y2="{y.at(c):.3f}%"/>'
        for a, b, c in zip(line.x, line.low, line.high, strict=False)
    )
    pieces = "".join(
        f'<line class="line" x1="{a:.3f}%" y1="{b:.3f}%" x2="{c:.3f}%" y2="{d:.3f}%"/>'
        for (a, b), (c, d) in itertools.pairwise(places)
    )
    radius = 4 if len(places) <= 40 else 1.5
    dots = "".join(
        f'<circle cx="{a:.3f}%" cy="{b:.3f}%" r="{radius}"'
        + tip(f"{line.name}: {number(w, 6)} ({x_name} {number(v, 6)})")
        + "/>"
        for (a, b), v, w in zip(places, line.x, line.y, strict=True)
    )
    return ranges + pieces + dots


def _line_key(series: Sequence[Line]) -> str:
    if len(series) < 2:
        return ""
    keys = (
        f'<span><svg class="k{i % len(PALETTE)}" aria-hidden="true"><rect width="100%" '
        f'height="100%" rx="2"/></svg>{text(line.name)}</span>'
        for i, line in enumerate(series)
    )
    return f'<div class="key">{"".join(keys)}</div>'
