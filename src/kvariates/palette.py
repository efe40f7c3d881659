"""Colours and markers that tell clusters apart, also for colour-blind eyes and in print."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

# Twelve colours, 0.1 or more apart in OKLab for normal, protan and deutan eyes.
PALETTE = (
    "#3977c2", "#cc8200", "#059499", "#d13e53", "#9d92f4", "#f7d22e",
    "#4bd2ff", "#893d0a", "#d5b25a", "#932c7e", "#3943bf", "#efa5ba",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # matplotlib's names
INK, FAINT = "#22262e", "#757a85"
