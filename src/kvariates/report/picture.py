"""Pictures in files, without a window: the format is that of the file's name."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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
        figure, style = new_figure(size, paper), {"facecolor": paper}
        yield figure, list(figure.subplots(1, columns, squeeze=False, subplot_kw=style)[0])
        _save(figure, path, Path(path).suffix[1:] or "png", 150)


def new_figure(size: tuple[float, float], paper: str, margin: float = 0.15) -> Figure:
    """A figure without a window; `size` and `margin` in inches."""
    margins = ConstrainedLayoutEngine(w_pad=margin, h_pad=margin)
    figure = Figure(figsize=size, facecolor=paper, layout=margins)
    FigureCanvasAgg(figure)
    return figure


def png_bytes(figure: Figure, dpi: int) -> bytes:
    """The figure as a PNG file."""
    file = io.BytesIO()
    _save(figure, file, "png", dpi)
    return file.getvalue()


def _save(figure: Figure, file: str | Path | IO[bytes], kind: str, dpi: int) -> None:
    figure.savefig(file, dpi=dpi, format=kind, metadata=METADATA.get(kind))
