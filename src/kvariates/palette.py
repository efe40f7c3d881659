"""What pictures share: colours and markers that tell clusters apart, and texts on one line.

Clusters can be told apart by colour-blind eyes and in print, too.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Twelve colours. The distance in OKLab of the two most alike (tests/test_report_clusters.py):
#                                    normal  protan  deutan  tritan
#     on a light background           0.109   0.107   0.107   0.041
#     on a dark one (22 % white)      0.091   0.081   0.071   0.029
# For tritan eyes, which are rare, colours alone are not enough; clusters also have marks.
PALETTE = (
    "#3977c2", "#cc8200", "#059499", "#d13e53", "#9d92f4", "#f7d22e",
    "#4bd2ff", "#893d0a", "#d5b25a", "#932c7e", "#3943bf", "#efa5ba",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # matplotlib's names
INK, FAINT = "#22262e", "#757a85"
LONGEST_NAME = 60  # letters of a name that are shown
MOST_VECTORS = 5_000  # more points than this are pixels in an SVG or PDF file
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # of matplotlib: a $ is a $
MANY = 1000  # centres
MARKS = ("circle", "square", "triangle", "diamond", "cross")


class Look(NamedTuple):
    """The look of a cluster: indices into `PALETTE` and into the marks."""

    color: int
    mark: int


def lighter(color: str, part: float = 0.22) -> str:
    """A colour for a dark background: `color` with a part of white."""
    mixed = (round(v + part * (255 - v)) for v in bytes.fromhex(color[1:]))
    return "#" + bytes(mixed).hex()


def spread_colors(centers: Array, marks: int = len(MARKS)) -> Array:
    """Return an index into the palette for each centre; centres of one colour are far apart.

    The first twelve centres get the twelve colours in order. No colour has more centres than there
    are marks, if there are at most twelve times as many centres as marks.
    """
    if len(centers) > MANY:  # nobody can tell them apart
        return np.arange(len(centers)) % len(PALETTE)
    places = np.zeros(len(centers), dtype=np.intp)
    nearest = np.full((len(PALETTE), len(centers)), np.inf)
    most = marks * max(1, -(-len(centers) // (marks * len(PALETTE))))
    centers = centers / (np.abs(centers).max(initial=0.0) or 1.0)  # squares stay finite
    used = np.zeros(len(PALETTE), dtype=np.intp)
    for i, center in enumerate(centers):
        places[i] = np.where(used >= most, -1.0, nearest[:, i]).argmax()
        used[places[i]] += 1
        gaps = np.square(centers - center).sum(axis=1)
        nearest[places[i]] = np.minimum(nearest[places[i]], gaps)
    return places


def looks(centers: Array, marks: int = len(MARKS)) -> tuple[Look, ...]:
    """The look of each cluster. Up to twelve times as many clusters as marks all differ."""
    counters = [itertools.cycle(range(marks)) for _ in PALETTE]
    colors = spread_colors(centers, marks).tolist()
    return tuple(Look(color, next(counters[color])) for color in colors)


def cut(words: str, most: int = LONGEST_NAME) -> str:
    """The words, or their beginning if they are long."""
    return words if len(words) <= most else words[: most - 1] + "…"


def one_line(name: Any, most: int = LONGEST_NAME) -> str:
    """A name of at most so many characters on one line."""
    return cut(" ".join("".join(c if c.isprintable() else " " for c in str(name)).split()), most)


def write_note(ax: Any, words: str) -> None:
    """Write small words above matplotlib's axes."""
    style: dict[str, Any] = {"color": FAINT, "size": "small", "ha": "left", "va": "bottom"}
    ax.text(0, 1.01, words, transform=ax.transAxes, **style, **PLAIN)
