"""Figures of a page as HTML: scatter plots, curves, bars, shares of a whole, facts, pictures.

A scatter plot is drawn by scatter.js from numbers in the page; curves and bars are SVG.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvariates.palette import PALETTE, Look
from kvariates.report.page import (
    MINUS,
    MOST_TICK_LETTERS,
    data_uri,
    number,
    number_within,
    table,
    text,
    tip,
)
from kvariates.report.scatter_figure import mark

MANY = 14  # bars that are set in two columns
LEFT, RIGHT = 1.0, 98.0  # per cents of the width between which curves are
FLAT = 1e-9  # of the largest value: a smaller range is drawn as none


@dataclass(frozen=True)
class Bar:
    """One bar: its label and value in words, and the look of its cluster, if it has one."""

    label: str
    value: float
    words: str
    look: Look | None = None
    tip: str = ""


def bars(items: Sequence[Bar], limits: Sequence[float] = ()) -> str:
    """Horizontal bars from 0. `limits` are dashed lines at these values."""
    top = max([bar.value for bar in items] + list(limits) + [0.0]) or 1.0
    cells = []
    for bar in items:
        width = 100 * max(bar.value, 0.0) / top
        color = "" if bar.look is None else f' class="k{bar.look.color}"'
        lines = "".join(
            f'<line class="limit" x1="{100 * v / top:.3f}%" x2="{100 * v / top:.3f}%" '
            'y1="-15%" y2="115%"/>'
            for v in limits
        )
        icon = "" if bar.look is None else mark(bar.look)
        cells.append(
            f'<div><span class="label">{icon}{text(bar.label)}</span>'
            f'<svg aria-hidden="true"{tip(bar.tip)}><rect{color} width="{width:.3f}%" '
            f'height="100%" rx="3"/>{lines}</svg><span class="value">{text(bar.words)}</span></div>'
        )
    return f'<div class="bars{" many" * (len(items) > MANY)}">{"".join(cells)}</div>'


def share_bar(items: Sequence[Bar]) -> str:
    """Parts of a whole, side by side, and below them a bar for each."""
    total = sum(max(bar.value, 0.0) for bar in items) or 1.0
    named = [
        bar if bar.look is not None else replace(bar, look=Look(i % len(PALETTE), 0))
        for i, bar in enumerate(items)
    ]
    left, parts = 0.0, []
    for bar in named:
        width, color = 100 * max(bar.value, 0.0) / total, bar.look.color if bar.look else 0
        words = tip(bar.tip or f"{bar.label}: {bar.words}")
        parts.append(
            f'<rect class="k{color}" x="{left:.3f}%" width="{width:.3f}%" height="100%"{words}/>'
        )
        left += width
    whole = f'<svg class="share" aria-hidden="true">{"".join(parts)}</svg>'
    return f"<figure>{whole}{bars(named)}</figure>"


@dataclass(frozen=True)
class Fact:
    """A number or a few words with its name."""

    name: str
    value: str

    @property
    def kind(self) -> str:
        """How large it is set: a number is never broken, words are."""
        if len(self.value) > 15 or " " in self.value.strip():
            return "words"
        return "long" if len(self.value) > 8 else ""


def facts(items: Sequence[Fact]) -> str:
    """Large numbers side by side."""
    cells = "".join(
        f'<div><dt>{text(fact.name)}</dt><dd class="{fact.kind}">{text(fact.value)}</dd></div>'
        for fact in items
    )
    return f'<dl class="facts">{cells}</dl>'


def picture(content: bytes, kind: str, words: str, caption: str = "") -> str:
    """A picture inside the page, such as matplotlib's. `kind`: image/png or image/svg+xml."""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f'<figure><img src="{data_uri(content, kind)}" alt="{text(words)}">{below}</figure>'


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
        for count in range(most, 2 * most + 1):  # more if there were less than three
            rough = (self.high - self.low) / count
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first >= 2:
                break
        return [i * step for i in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1,)):
        found = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(found) <= most + 1:
            break
    if len(found) < 2:
        return AxisScale(low, high, 0, 1).ticks(most)
    return found[:: max(1, math.ceil(len(found) / (most + 1)))]


def tick_words(ticks: Sequence[float]) -> list[str]:
    """Labels of ticks: in even steps, all have the decimals of the step, so that they differ."""
    steps = [b - a for a, b in itertools.pairwise(ticks)]
    if not steps or max(steps) > 1.001 * min(steps):  # one tick, or those of a logarithmic scale
        return [number(tick, 3) for tick in ticks]
    step = (ticks[-1] - ticks[0]) / len(steps)
    power = _power(step)
    least = power if round(step / 10.0**power, 3).is_integer() else power - 1
    size = max(map(abs, ticks))
    if size < 1e15 and least > -7:
        words = [f"{tick:,.{max(0, -least)}f}" for tick in ticks]
    else:
        words = [f"{tick:.{max(0, _power(size) - least)}e}" for tick in ticks]
    return [word.replace("-", MINUS) for word in words]


def _power(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(value) + 1e-6)


def lines(
    series: Sequence[Line], x_name: str, y_name: str, *, log_x: bool = False, log_y: bool = False,
    listed: bool = False,
) -> str:  # fmt: skip
    """Curves over one axis. `log_x` and `log_y`: on a logarithmic scale; values are above 0.

    `listed`: whether the values follow as a table, for those who do not use a pointer.
    """
    xs = [v for line in series for v in line.x]
    ys = [v for line in series for v in (*line.y, *line.low, *line.high)]
    x = _scale(xs, LEFT, RIGHT, log=log_x, margin=0.0)
    y = _scale(ys, 85.0, 8.0, log=log_y, margin=0.04)
    heights = y.ticks(5)
    words = tick_words(heights)
    parts = [_height(f"{y.at(tick):.3f}%", word) for tick, word in zip(heights, words, strict=True)]
    whole = all(float(v).is_integer() for v in xs)
    places = [tick for tick in x.ticks(7) if not whole or float(tick).is_integer()]
    parts += [
        f'<text class="middle" x="{x.at(tick):.3f}%" y="93%">{word}</text>'
        for tick, word in zip(places, tick_words(places), strict=True)
    ]
    parts.append(f'<text class="middle" x="50%" y="100%">{text(x_name)}</text>')
    parts.append(f'<text x="0" y="0%" dy="8">{text(y_name)}</text>')
    for i, line in enumerate(series):
        parts.append(f'<g class="k{i % len(PALETTE)}">{_curve(line, x, y, x_name)}</g>')
    label = text(f"{y_name} over {x_name}")
    letters = min(max(map(len, words), default=1), MOST_TICK_LETTERS)
    values = _values(series, x_name, y_name) if listed else ""
    return (
        f'<figure><div class="chart l{letters}"><svg role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg></div>{_line_key(series)}{values}</figure>"
    )


def _height(at: str, word: str) -> str:
    """A line across the figure, and its label at the left of it."""
    return (
        f'<line class="grid" x1="0" x2="100%" y1="{at}" y2="{at}"/>'
        f'<text class="end" x="0" dx="-8" y="{at}" dy="4">{word}</text>'
    )


def _values(series: Sequence[Line], x_name: str, y_name: str) -> str:
    """The same numbers as a table."""
    several = len(series) > 1
    rows = [
        [*([line.name] * several), number(v, 6), number_within(w, max(line.y) - min(line.y))]
        for line in series
        for v, w in zip(line.x, line.y, strict=True)
    ]
    listed = table([*(["curve"] * several), x_name, y_name], rows, "tall")
    return f'<details class="values"><summary>The values as a table</summary>{listed}</details>'


def _scale(
    values: Sequence[float], start: float, end: float, *, log: bool, margin: float
) -> AxisScale:
    low, high = min(values), max(values)
    flat = high - low <= FLAT * max(abs(low), abs(high))
    if log:
        wider = 2.0 if flat else (high / low) ** margin
        return AxisScale(low / wider, high * wider, start, end, log=True)
    pad = (max(abs(low), abs(high)) or 1.0) / 2 if flat else margin * (high - low)
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
    radius, width = 4 if len(places) <= 40 else 1.5, max(line.y) - min(line.y)
    dots = "".join(
        f'<circle cx="{a:.3f}%" cy="{b:.3f}%" r="{radius}"'
        + tip(f"{line.name}: {number_within(w, width)} ({x_name} {number(v, 6)})")
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
