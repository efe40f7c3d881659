"""Draws the spread and the planes of Figure 3 in the style of the other pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from benchmarks.workloads import Array
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap

from kvariates.palette import PALETTE
from kvariates.report.pictures import FAINT, INK, PAPER, picture

GREY = "#6b7079"  # FAINT is too light on the colours
LESS, MORE = PALETTE[0], PALETTE[1]
Numbers = Sequence[Sequence[float]]


def draw_planes(
    path: Path,
    ks: Sequence[int],
    ps: Sequence[int],
    growth: Sequence[float],
    planes: Mapping[str, tuple[Numbers, Numbers]],
) -> None:
    """Draw the growth of the spread, and for each other algorithm rho with its zero contour."""
    every = np.concatenate([np.ravel(rho) for rho, _ in planes.values()])
    most = float(np.abs(every).max())
    colors = LinearSegmentedColormap.from_list("rho", [LESS, PAPER, MORE])
    with picture(path, (15, 5), columns=1 + len(planes)) as (_, [first, *others]):
        first.plot(ps, growth, color=INK, marker="o", ms=4)
        first.axhline(20, color=FAINT, lw=1, ls="--")
        first.set_ylabel("spread(p) / spread(0)")
        first.spines[["top", "right"]].set_visible(False)
        _label(first, "Spread of the peers")
        for axes, (name, (rho, error)) in zip(others, planes.items(), strict=True):
            mesh = axes.pcolormesh(ps, ks, np.array(rho).T, cmap=colors, vmin=-most, vmax=most)
            _mark_cells(axes, ks, ps, np.array(rho), np.array(error))
            axes.set_ylabel("k")
            _label(axes, f"rho({name}) in %")
            axes.set_xlabel("p in %; bold: three standard errors from 0")
        _color_bar(mesh, others)


def _label(axes: Axes, title: str) -> None:
    axes.set_xlabel("p in %")
    axes.set_title(title, loc="left", size=13, weight="bold", color=INK)


def _mark_cells(axes: Axes, ks: Sequence[int], ps: Sequence[int], rho: Array, error: Array) -> None:
    """Write a value in each cell: bold if it is three standard errors away from zero."""
    if rho.min() < 0 < rho.max():
        axes.contour(ps, ks, rho.T, levels=[0], colors=[INK], linewidths=1.5)
    for i, p in enumerate(ps):
        for j, k in enumerate(ks):
            far = abs(rho[i, j]) > 3 * error[i, j]
            weight, color = ("bold", INK) if far else ("normal", GREY)
            axes.text(
                p, k, f"{rho[i, j]:.1f}", ha="center", va="center", size=7, color=color,
                weight=weight,
            )  # fmt: skip


def _color_bar(mesh: QuadMesh, axes: Sequence[Axes]) -> None:
    bar = axes[0].figure.colorbar(mesh, ax=list(axes), pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("below 0: Dk-means++ costs less")
