"""Scatter plots of clusters as HTML: the numbers that scatter.js draws, and the legend."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.palette import MARKS, Array, Look, cut, looks

from .page import counted, number_within, text, visible
from .plane import some_rows

MOST_EDGES = 60_000
MOST_IN_LEGEND = 300
MOST_OPEN = 40  # clusters whose legend is open at first
MANY = 65_535  # clusters: more do not fit in 16 bits
CORNERS = {
    "circle": '<circle cx="8" cy="8" r="6.6"/>',
    "square": '<rect x="2.2" y="2.2" width="11.6" height="11.6"/>',
    "triangle": '<path d="M8 0.6L15.2 13.6H0.8Z"/>',
    "diamond": '<path d="M8 0L15.6 8L8 16L0.4 8Z"/>',
    "cross": '<path d="M5.4 .6h5.2v4.8h4.8v5.2h-4.8v4.8H5.4v-4.8H.6V5.4h4.8Z"/>',
}


@dataclass(frozen=True, eq=False)
class Scatter:
    """What a scatter plot shows. All coordinates are in the units of the axes.

    Attributes
    ----------
    points, labels : ndarray of shape (n, 2) and (n,)
        May be empty; then `sizes` are shown around the centres.
    centers : ndarray of shape (k, 2)
    axes : tuple of str
        The names of the axes; an empty name has no ticks.
    limits : ((low, high), (low, high))
        Of the frame. Points outside become arrows at its border; see `plane.robust_limits`.
    names : tuple of str
        Of the clusters; "cluster 0" and so on by default.
    sizes : tuple of str
        Of the clusters in words, for the legend.
    measured_in : str
        What `sizes` are.
    shares : ndarray of shape (k,) or None
        The sizes as parts of the whole; needed only if there are no points.
    words : tuple of str
        At the centres, below their numbers.
    values, columns : ndarray of shape (n, c) or None, tuple of str
        What the tip of a point shows; its coordinates by default.
    titles : tuple of str
        The names of the points, for their tips.
    rows : ndarray of shape (n,) or None
        The points' rows in the data, from 0.
    masses : ndarray of shape (n,) or None
        Areas of the points' marks, in any unit.
    edges : ndarray of shape (m, 4) or None
        Lines x, y, x, y below the points.
    land : ndarray of shape (m, 2) or None
        Grey dots below the points.
    regions : bool
        Whether each place has the tint of its nearest centre, in these coordinates.
    degrees : bool
        Whether the axes are longitude and latitude.
    aspect : float or None
        Width by height of the frame; free by default.
    caption : str
        A plain text below the figure.
    """

    points: Array
    labels: Array
    centers: Array
    axes: tuple[str, str]
    limits: tuple[tuple[float, float], tuple[float, float]]
    names: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    measured_in: str = "size"
    shares: Array | None = None
    words: tuple[str, ...] = ()
    values: Array | None = None
    columns: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    rows: Array | None = None
    masses: Array | None = None
    edges: Array | None = None
    land: Array | None = None
    regions: bool = False
    degrees: bool = False
    aspect: float | None = None
    caption: str = ""

    def name(self, cluster: int) -> str:
        return self.names[cluster] if self.names else f"cluster {cluster}"


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
            "name": visible(plot.name(i)),
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
        "labels": _base64(plot.labels, "<u4" if len(look) > MANY else "<u2"),
        "many": len(look) > MANY,
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


def _quantized(points: Array, limits: tuple[tuple[float, float], tuple[float, float]]) -> str:
    """1 to 65534 across the frame, 0 and 65535 beyond it."""
    low, high = np.array(limits, dtype=np.float64).T
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    scaled = np.round(1 + 65533 * ((points - low) / (high - low)))
    return _base64(np.clip(scaled, 0, 65535), "<u2")


def _base64(values: Array, kind: str) -> str:
    if kind == "<f4":  # JavaScript has to see finite numbers
        most = np.finfo(np.float32).max
        values = np.clip(values, -most, most)
    return base64.b64encode(np.ascontiguousarray(values).astype(kind).tobytes()).decode("ascii")


def mark(look: Look) -> str:
    """The mark of a cluster, as large as the text around it."""
    shape = CORNERS[MARKS[look.mark]]
    return f'<svg class="mark k{look.color}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'
