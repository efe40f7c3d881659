"""Pictures in files, without a window: the format is that of the file's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from kvariates.palette import FAINT, INK

PAPER = "#fcfbf8"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.hashsalt": "kvariates",
}
# Without the date, the same picture gives the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": "kvariates"},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


@contextmanager
def picture(
    path: str | Path, size: tuple[float, float], paper: str = PAPER, columns: int = 1
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure without a window and its axes, side by side; write it as PNG, SVG or PDF.

    The same picture gives the same bytes.
    """
    with mpl.rc_context(STYLE):
        margins = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15)
        figure = Figure(figsize=size, facecolor=paper, layout=margins)
        FigureCanvasAgg(figure)
        style = {"facecolor": paper}
        yield figure, list(figure.subplots(1, columns, squeeze=False, subplot_kw=style)[0])
        kind = Path(path).suffix[1:] or "png"
        figure.savefig(path, dpi=150, format=kind, metadata=METADATA.get(kind))
