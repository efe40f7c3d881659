"""The macros with which kvariates compiles each kernel file.

`every()` lists all combinations; `few()` has any value of any macro in at least one.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from api import CANDIDATE_GROUPS, defines_of, shape_for

Variant = tuple[str, tuple[tuple[str, Any], ...]]  # a file, and its macros in order
REALS = [
    defines_of(SimpleNamespace(dtype=np.dtype(name))) for name in ("float32", "float64", "float16")
]
OF_ROWS = "rows.cu", "sums.cu", "costs.cu", "half.cu", "filter.cu"
WIDTHS = [{"D": 0}, {"D": 0, "CENTERS_IN_SHARED": 1}, *({"D": d} for d in range(1, 16))]
KILOBYTES = 99, 163, 227  # of shared memory: of GPUs for desktops, A100, H100 and newer
SIZES = product(
    (10**3, 10**4, 10**5, 10**6), range(1, 150), (9, 64, 65, 1000), (16, 108, 132), KILOBYTES
)


def variant(file: str, defines: dict[str, Any]) -> Variant:
    return file, tuple(sorted((k, v) for k, v in defines.items()))


def of_rows() -> list[Variant]:
    """Of the kernels that read rows and need nothing else; half.cu and filter.cu only REAL."""
    plain = [{"REAL": real["REAL"]} for real in REALS]
    of_filter = [variant(file, real) for file in ("half.cu", "filter.cu") for real in plain]
    return of_filter + [variant(file, real) for file in OF_ROWS[:3] for real in REALS]


def of_gains() -> list[Variant]:
    """Of the comparison of candidates."""
    cases = product(REALS, CANDIDATE_GROUPS, WIDTHS)
    return [variant("costs.cu", real | {"M": m} | width) for real, m, width in cases]


def of_products() -> list[Variant]:
    """Of the products of halves."""
    shapes = {
        shape_for(n, d, k, processors, 1024 * shared) for n, d, k, processors, shared in SIZES
    }
    return sorted(variant("filter.cu", shape.defines()) for shape in shapes)


def every() -> list[Variant]:
    return [*of_rows(), *of_gains(), *of_products()]


def few() -> list[tuple[Variant, str]]:
    """With an architecture each."""
    chosen = [(v, "sm_90a") for v in of_rows()] + [(v, "sm_80") for v in of_rows()[::3]]
    for i, width in enumerate(WIDTHS):
        real, group = REALS[i % len(REALS)], CANDIDATE_GROUPS[i % len(CANDIDATE_GROUPS)]
        gains = variant("costs.cu", real | {"M": group} | width)
        chosen.append((gains, ("sm_90a", "sm_80")[i % 2]))
    for d in (*range(16, 144, 16), 1000):
        large = shape_for(10**6, d, 1000, 132, 227 * 1024)
        chosen.append((variant("filter.cu", large.defines()), "sm_90a"))
    for d in (48, 128, 1000):
        large = shape_for(10**6, d, 1000, 108, 163 * 1024)
        chosen.append((variant("filter.cu", large.defines()), "sm_80"))
    return chosen
