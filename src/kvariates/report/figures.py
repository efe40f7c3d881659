"""Figures of a page as HTML: scatter plots, curves, bars, shares of a whole, facts, pictures.

A scatter plot is drawn by scatter.js from numbers in the page; curves and bars are SVG.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvariates.palette import MARKS, PALETTE, Array, Look, cut, looks

from .page import (
    MINUS,
    MOST_TICK_LETTERS,
    counted,
    in_base64,
    number,
    number_within,
    table,
    text,
    visible,
)
from .plane import Limits, some_rows

MANY = 14  # bars that are set in two columns
LEFT, RIGHT = 1.0, 98.0  # per cents of the width between which curves are
FLAT = 1e-9  # of the largest value: a smaller range is drawn as none
MOST_EDGES = 60_000
MOST_IN_LEGEND = 300
MOST_OPEN = 40  # clusters whose legend is open at first
MOST_IN_16_BITS = 65_535  # clusters
CORNERS = {
    "circle": '<circle cx="8" cy="8" r="6.6"/>',
    "square": '<rect x="2.2" y="2.2" width="11.6" height="11.6"/>',
    "triangle": '<path d="M8 0.6L15.2 13.6H0.8Z"/>',
    "diamond": '<path d="M8 0L15.6 8L8 16L0.4 8Z"/>',
    "cross": '<path d="M5.4 .6h5.2v4.8h4.8v5.2h-4.8v4.8H5.4v-4.8H.6V5.4h4.8Z"/>',
}


@dataclass(frozen=True)
class Bar:
    """One bar: its label and value in words, and the look of its cluster, if it has one."""

    label: str
    value: float
    words: str
    look: Look | None = None


def bars(items: Sequence[Bar], limits: Sequence[float] = ()) -> str:
    """Horizontal bars from 0. `limits` are dashed lines at these values."""
    top = max([bar.value for bar in items] + list(limits) + [0.0]) or 1.0
    lines = "".join(
        f'<line class="limit" x1="{100 * v / top:.3f}%" x2="{100 * v / top:.3f}%" '
        'y1="-15%" y2="115%"/>'
        for v in limits
    )
    cells = []
    for bar in items:
        width = 100 * max(bar.value, 0.0) / top
        color = "" if bar.look is None else f' class="k{bar.look.color}"'
        icon = "" if bar.look is None else mark(bar.look)
        cells.append(
            f'<div><span class="label">{icon}{text(bar.label)}</span>'
            f'<svg aria-hidden="true"><rect{color} width="{width:.3f}%" '
            f'height="100%" rx="3"/>{lines}</svg><span class="value">{text(bar.words)}</span></div>'
        )
    return f'<div class="bars{" many" * (len(items) > MANY)}">{"".join(cells)}</div>'


def share_bar(items: Sequence[Bar]) -> str:
    """Parts of a whole, side by side, and below them a bar for each."""
    total = sum(max(bar.value, 0.0) for bar in items) or 1.0
    left, parts, named = 0.0, [], []
    for i, bar in enumerate(items):
        width, color = 100 * max(bar.value, 0.0) / total, i % len(PALETTE)
        parts.append(
            f'<rect class="k{color}" x="{left:.3f}%" width="{width:.3f}%" height="100%" '
            f'data-tip="{text(bar.label)}: {text(bar.words)}"/>'
        )
        named.append(replace(bar, look=Look(color, 0)))
        left += width
    whole = f'<svg class="share" aria-hidden="true">{"".join(parts)}</svg>'
    return f"<figure>{whole}{bars(named)}</figure>"


def facts(items: Mapping[str, str | None]) -> str:
    """Numbers, or a few words, by name: large, side by side. None is left out."""
    cells = ""
    for name, value in items.items():
        if value is None:
            continue
        words = len(value) > 15 or " " in value.strip()
        kind = "words" if words else "long" if len(value) > 8 else ""  # only words are broken
        cells += f'<div><dt>{text(name)}</dt><dd class="{kind}">{text(value)}</dd></div>'
    return f'<dl class="facts">{cells}</dl>'


def picture(png: bytes, words: str, caption: str) -> str:
    """A picture inside the page, such as matplotlib's."""
    image = f'<img src="data:image/png;base64,{in_base64(png)}" alt="{text(words)}">'
    return f"<figure>{image}<figcaption>{text(caption)}</figcaption></figure>"


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
    parts = [
        f'<line class="grid" x1="0" x2="100%" y1="{y.at(tick):.3f}%" y2="{y.at(tick):.3f}%"/>'
        f'<text class="end" x="0" dx="-8" y="{y.at(tick):.3f}%" dy="4">{word}</text>'
        for tick, word in zip(heights, words, strict=True)
    ]
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
    keys = "".join(
        f'<span><svg class="k{i % len(PALETTE)}" aria-hidden="true"><rect width="100%" '
        f'height="100%" rx="2"/></svg>{text(line.name)}</span>'
        for i, line in enumerate(series)
    )
    key = f'<div class="key">{keys}</div>' if len(series) > 1 else ""
    values = _values(series, x_name, y_name) if listed else ""
    return (
        f'<figure><div class="chart l{letters}"><svg role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg></div>{key}{values}</figure>"
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
        f'<circle cx="{a:.3f}%" cy="{b:.3f}%" r="{radius}" data-tip="{text(line.name)}: '
        f'{number_within(w, width)} ({text(x_name)} {number(v, 6)})"/>'
        for (a, b), v, w in zip(places, line.x, line.y, strict=True)
    )
    return ranges + pieces + dots


@dataclass(frozen=True, eq=False)
class Scatter:
    """What a scatter plot shows. All coordinates are in the units of the axes."""

    points: Array  # of shape (n, 2); may be empty: then `sizes` are shown around the centres
    labels: Array
    centers: Array
    axes: tuple[str, str]  # their names; an empty one has no ticks
    limits: Limits  # points outside become arrows at the border; see `plane.robust_limits`
    names: tuple[str, ...] = ()  # of the clusters; "cluster 0" and so on by default
    sizes: tuple[str, ...] = ()  # of the clusters in words, for the legend
    measured_in: str = "size"  # what `sizes` are
    shares: Array | None = None  # the sizes as parts of the whole; needed if there are no points
    words: tuple[str, ...] = ()  # at the centres, below their numbers
    values: Array | None = None  # what the tip of a point shows; its coordinates by default
    columns: tuple[str, ...] = ()  # the names of these values
    titles: tuple[str, ...] = ()  # the names of the points, for their tips
    rows: Array | None = None  # the points' rows in the data, from 0
    masses: Array | None = None  # areas of the points' marks, in any unit
    edges: Array | None = None  # of shape (m, 4): lines x, y, x, y below the points
    land: Array | None = None  # grey dots below the points
    regions: bool = False  # whether each place has the tint of its nearest centre
    degrees: bool = False  # whether the axes are longitude and latitude
    aspect: float | None = None  # width by height of the frame; free by default
    caption: str = ""  # a plain text below the figure


def scatter(plot: Scatter) -> str:
    """Points coloured by cluster, with tips and a legend that shows and hides clusters."""
    look = looks(plot.centers)
    content = json.dumps(_scatter_data(plot, look), separators=(",", ":")).replace("<", "\\u003c")
    legend = _legend(plot, look) if len(look) <= MOST_IN_LEGEND else ""
    what = counted(len(plot.points), "points") if len(plot.points) else "centres"
    label = f"Scatter plot of {what} in {counted(len(look), 'clusters')}"
    caption = f"<figcaption>{text(plot.caption)}</figcaption>" if plot.caption else ""
    return (
        f'<figure class="scatter"><div class="stage"><canvas role="img" aria-label="{label}">'
        f'</canvas></div><script type="application/json">{content}</script>'
        f"{legend}"
        f"<noscript><p>The points are drawn by JavaScript, which is switched off.</p></noscript>"
        f"{caption}</figure>"
    )


def _legend(plot: Scatter, look: Sequence[Look]) -> str:
    items = "".join(
        f'<li><button type="button" data-cluster="{i}" aria-pressed="true">{mark(look[i])}'
        f"<b>{text(plot.names[i] if plot.names else i)}</b>"
        + (f'<span class="size">{text(plot.sizes[i])}</span>' if plot.sizes else "")
        + "</button></li>"
        for i in range(len(look))
    )
    every = '<li><button type="button" class="all">all / none</button></li>'
    listed = f'<ul class="legend" aria-label="Show and hide clusters">{items}{every}</ul>'
    if len(look) <= MOST_OPEN:
        return listed
    return f"<details><summary>Legend of {len(look)} clusters</summary>{listed}</details>"


def _scatter_data(plot: Scatter, look: Sequence[Look]) -> dict[str, Any]:
    shares = [0.0] * len(look) if plot.shares is None else plot.shares.tolist()
    clusters = [
        {
            "name": visible(plot.names[i] if plot.names else f"cluster {i}"),
            "short": str(i),
            "word": visible(cut(plot.words[i])) if plot.words else "",
            "color": color,
            "mark": MARKS[shape],
            "share": share,
            "pairs": _pairs(plot, i),
        }
        for i, ((color, shape), share) in enumerate(zip(look, shares, strict=True))
    ]
    found = {
        "axes": [visible(cut(name)) for name in plot.axes],
        "limits": plot.limits,
        "clusters": clusters,
        "points": _quantized(plot.points, plot.limits),
        "labels": _base64(plot.labels, "<u4" if len(look) > MOST_IN_16_BITS else "<u2"),
        "many": len(look) > MOST_IN_16_BITS,
        "centers": _quantized(plot.centers, plot.limits),
        "regions": plot.regions,
        "degrees": plot.degrees,
        "aspect": plot.aspect,
    }
    if plot.regions:
        found["spots"] = plot.centers.tolist()
    if plot.values is not None:
        offsets = _offsets(plot.values)
        found["columns"] = [visible(name) for name in plot.columns]
        found["values"] = _base64(plot.values - offsets, "<f4")
        found["offsets"] = offsets.tolist()
    if plot.titles:
        found["titles"] = [visible(cut(name)) for name in plot.titles]
    if plot.rows is not None:
        found["rows"] = _base64(plot.rows, "<u4")
    if plot.masses is not None and len(plot.masses):
        part = np.sqrt(plot.masses / max(float(plot.masses.max()), np.finfo(float).tiny))
        found["radii"] = _base64(np.round(255 * part), "u1")
    if plot.edges is not None:
        found["edges"] = _quantized(some_rows(plot.edges, MOST_EDGES).reshape(-1, 2), plot.limits)
    if plot.land is not None:
        found["land"] = _quantized(plot.land, plot.limits)
    return found


def _offsets(values: Array) -> Array:
    """What 32 bits cannot hold of columns whose values are far from 0 and close to each other."""
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return np.zeros(values.shape[1])
    low, high = values.min(axis=0), values.max(axis=0)
    far = high / 1000 - low / 1000 < np.maximum(np.abs(low), np.abs(high)) / 10**6
    return np.where(far, low, 0.0)


def _pairs(plot: Scatter, cluster: int) -> list[tuple[str, str]]:
    """What the tip of a centre shows."""
    axes = zip(plot.axes, plot.centers[cluster].tolist(), plot.limits, strict=True)
    pairs = [(visible(cut(a)), number_within(v, high - low)) for a, v, (low, high) in axes if a]
    size = [(plot.measured_in, visible(plot.sizes[cluster]))] if plot.sizes else []
    return pairs + size


def _quantized(points: Array, limits: Limits) -> str:
    """1 to 65534 across the frame, 0 and 65535 beyond it."""
    low, high = np.array(limits, dtype=np.float64).T
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    scaled = np.round(1 + 65533 * ((points - low) / (high - low)))
    return _base64(np.clip(scaled, 0, 65535), "<u2")


def _base64(values: Array, kind: str) -> str:
    if kind == "<f4":  # JavaScript has to see finite numbers
        most = np.finfo(np.float32).max
        values = np.clip(values, -most, most)
    return in_base64(np.ascontiguousarray(values).astype(kind).tobytes())


def mark(look: Look) -> str:
    """The mark of a cluster, as large as the text around it."""
    shape = CORNERS[MARKS[look.mark]]
    return f'<svg class="mark k{look.color}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'
