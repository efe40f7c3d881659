"""Colours and markers that tell clusters apart, also for colour-blind eyes and in print."""

from __future__ import annotations

from typing import Any

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
