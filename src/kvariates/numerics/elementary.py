"""Elementary functions with the same bits on every machine.

NumPy's differ in the last bit from one instruction set to another. These use only +, -, *, / and
square roots, which IEEE 754 defines to the last bit. Errors are below two units in the last place.

The coefficients are those of fdlibm. Copyright (C) 1993 by Sun Microsystems, Inc. All rights
reserved. Permission to use, copy, modify, and distribute this software is freely granted, provided
that this notice is preserved.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates.numerics.draws import F64

BLOCK = 2**15  # distances converted at once, which fit into a cache

QUARTER = 1.57079632673412561417  # the first 33 bits of pi / 2
QUARTER_REST = 6.07710050650619224932e-11
HALF_PI, HALF_PI_REST = 1.57079632679489655800, 6.12323399573676603587e-17
SINE = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COSINE = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
ARCSINE_TOP = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
ARCSINE_BOTTOM = (
    1.0, -2.40339491173441421878e+00, 2.02094576023350569471e+00, -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)  # fmt: skip
LOG2, LOG2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log(2) in two parts
LOG1P = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
EXPM1 = (
    1.0, -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05,
    4.00821782732936239552e-06, -2.01099218183624371326e-07,
)  # fmt: skip
VANISHED = -800.0  # the exponential of less is zero in float64


class SineCosine(NamedTuple):
    """The sine and the cosine of every angle."""

    sine: F64
    cosine: F64


def sine_cosine(angle: F64) -> SineCosine:
    """Pre: angles in radians, from -100 to 100."""
    quarters = np.rint(angle * (2 / np.pi))
    rest = (angle - quarters * QUARTER) - quarters * QUARTER_REST
    square = rest * rest
    sine = rest + rest * square * _polynomial(square, SINE)
    half = 0.5 * square
    near = 1 - half
    cosine = near + (((1 - near) - half) + square * square * _polynomial(square, COSINE))
    turn = quarters.astype(np.int64) % 4
    swapped = turn % 2 == 1
    return SineCosine(
        np.where(swapped, cosine, sine) * np.where(turn >= 2, -1.0, 1.0),
        np.where(swapped, sine, cosine) * np.where((turn == 1) | (turn == 2), -1.0, 1.0),
    )


def arcsine(x: F64) -> F64:
    """Of numbers from 0 to 1, in radians."""
    large = x > 0.5
    root = np.sqrt(np.where(large, (1 - x) * 0.5, 0.0))
    base = np.where(large, root, x)
    square = np.where(large, (1 - x) * 0.5, x * x)
    ratio = _polynomial(square, ARCSINE_TOP) / _polynomial(square, ARCSINE_BOTTOM)
    small = base + base * (square * ratio)
    return np.where(large, HALF_PI - (2 * small - HALF_PI_REST), small)


def arc_lengths(chords: NDArray[Any]) -> NDArray[Any]:
    """The great-circle distances for straight ones; the array is reused."""
    flat = chords.reshape(-1)
    for first in range(0, len(flat), BLOCK):
        part = flat[first : first + BLOCK]
        part[:] = 2 * arcsine(np.minimum(0.5 * part, 1.0))
    return chords


def log1p(x: F64) -> F64:
    """log(1 + x), for x from 0 down to above -1."""
    sum_ = 1 + x
    mantissa, exponent = np.frexp(sum_)
    low = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    near = exponent == 0
    f = np.where(near, x, mantissa - 1)
    lost = np.where(near, 0.0, (x - (sum_ - 1)) / sum_)  # by the rounding of 1 + x
    s, half = f / (2 + f), 0.5 * f * f
    square = s * s
    high = s * (half + square * _polynomial(square, LOG1P))
    log: F64 = exponent * LOG2 - ((half - (high + (exponent * LOG2_REST + lost))) - f)
    return log


def expm1(x: F64 | float) -> F64:
    """exp(x) - 1, for x up to 0."""
    x = np.maximum(x, VANISHED)
    halvings = np.rint(x * (1 / (LOG2 + LOG2_REST)))
    rest = (x - halvings * LOG2) - halvings * LOG2_REST
    power = np.ldexp(1.0, halvings.astype(np.int64))
    out: F64 = (power - 1) + power * _expm1_near_zero(rest)
    return out


def exp2(x: F64 | float) -> F64:
    """2 to the power of x."""
    whole = np.rint(x)
    part = 1 + _expm1_near_zero((x - whole) * (LOG2 + LOG2_REST))
    return np.ldexp(part, whole.astype(np.int64))


def _expm1_near_zero(x: F64) -> F64:
    """exp(x) - 1, for x up to about log(2) / 2 in absolute value."""
    half = 0.5 * x
    square = x * half
    ratio = _polynomial(square, EXPM1)
    t = 3 - ratio * half
    out: F64 = x - (x * (square * ((ratio - t) / (6 - x * t))) - square)
    return out


def _polynomial(x: F64, coefficients: tuple[float, ...]) -> F64:
    out = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        out *= x
        out += coefficient
    return out
