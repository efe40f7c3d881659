"""Figures of a page as HTML: scatter plots, curves, bars, shares of a whole, facts, pictures.

A scatter plot is drawn by scatter.js from numbers in the page; curves and bars are SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .colors import PALETTE, Look
from .curves import Line, lines
from .page import data_uri, text, tip
from .scatter_figure import Scatter, mark, scatter

__all__ = [
    "Bar",
    "Fact",
    "Line",
    "Scatter",
    "bars",
    "facts",
    "lines",
    "mark",
    "picture",
    "scatter",
    "share_bar",
]

MANY = 14  # bars that are set in two columns


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
