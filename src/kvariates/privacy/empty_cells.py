"""The empty cells whose noisy counts pass a threshold, without visiting the others.

m cells get noise each; those above the threshold pass, each with the same probability q. So the
gaps between passing cells are geometric, and a passing cell's value has the noise's law above the
threshold. Both are drawn *exactly*: a uniform number is a string of random bits that is read as far
as the answer needs it, against bounds of ever higher precision. What is read first are 53 bits in
floats, which settle all but a few cases.

    Laplace    q = a^(t+1) / (1 + a), a = exp(-1/scale), for a threshold t >= 0;
               above t it is t + 1 + g, g geometric: both halves of OpenDP's noise are
    Gaussian   q is a quotient of sums of exp(-z^2 / 2 scale^2);
               above t it is t + 1 + g, g geometric and accepted or not

Below t = 0 half of the cells pass or more, and every cell gets its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kvariates.privacy.noise_source import Calibrated, measurement, random_bits, random_words
from kvariates.privacy.rounding import up

I64 = NDArray[np.int64]
TailLaw = Literal["laplace", "gaussian"]
Bounds = tuple[Fraction, Fraction]

MOST_ENUMERATED = 64  # so few cells are noised one by one
SLACK = 2.0**-44  # relative: log, quotient and product in floats are off by far less
FIRST_BITS = 53
TINY = 2.0**-1000
LARGEST = 2**52


@dataclass(frozen=True)
class Passing:
    """Which empty cells pass, by number from 0 on, ascending, and their noisy counts."""

    cells: NDArray[Any]  # int64; Python's integers where there are 2^63 cells or more
    counts: I64


def empty_cells(
    how_many: int, threshold: float, scale: float, *, law: TailLaw = "laplace"
) -> Passing:
    """Cells and values as if `how_many` zeros were noised and only those above were kept.

    It has no charge of its own: it is the other half of a histogram whose occupied cells were
    noised with the same law and scale. `cells_above` does both.
    """
    if how_many < 0 or not 0 < scale < math.inf or not math.isfinite(threshold):
        raise ValueError("how_many must be >= 0, scale > 0, and the threshold finite.")
    t = math.floor(threshold)
    if t < 0 or how_many <= MOST_ENUMERATED:
        values = _drawn(law, scale, how_many)
        which = np.flatnonzero(values > t)
        return Passing(which, values[which])
    cells = _passing(how_many, law, t, scale)
    many = len(cells)
    above = _geometric(many, scale) if law == "laplace" else _gaussian_tail(many, t, scale)
    return Passing(np.array(cells, dtype=np.int64 if how_many < 2**63 else object), t + 1 + above)


def _drawn(law: TailLaw, scale: float, how_many: int) -> I64:
    noise = Calibrated(law, scale, math.inf, measurement(law, scale))
    return np.array(noise([0] * how_many) if how_many else [], dtype=np.int64)


# Gaps


def _passing(how_many: int, law: TailLaw, t: int, scale: float) -> list[int]:
    """The numbers of the cells that pass."""
    expected = up(how_many * min(_rate(law, t, scale, 40)[1], Fraction(1)))
    batch = 16 + math.ceil(expected + 4 * math.sqrt(expected))
    cells: list[int] = []
    at = -1
    while True:
        for gap in _gaps(batch, how_many, law, t, scale):
            at += gap + 1
            if at >= how_many:
                return cells
            cells.append(at)


def _gaps(batch: int, most: int, law: TailLaw, t: int, scale: float) -> list[int]:
    """How many cells in a row fail, `most` if more: floor(E / rate), E exponential.

    With rate = -ln(1 - q), P(E >= g rate) = (1 - q)^g.
    """
    words = random_words(batch) >> np.uint64(64 - FIRST_BITS)
    low, high = (float(end) for end in _rate(law, t, scale, 40))
    if low < TINY:  # no digits are left
        low, high = 0.0, TINY
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ends = -np.log(np.stack([words + 1.0, words.astype(np.float64)]) * 2.0**-FIRST_BITS)
        floors = np.floor(np.maximum(ends, 0.0) / [[high], [low]] * [[1 - SLACK], [1 + SLACK]])
    floors = np.minimum(floors, float(most)) if most < LARGEST else floors
    settled = (floors[0] == floors[1]) & (floors[1] < 2.0**52)
    gaps: list[int] = np.where(settled, floors[0], 0.0).astype(np.int64).tolist()
    for i in np.flatnonzero(~settled):
        gaps[i] = _settled(
            int(words[i]), lambda u, p: _gap_bounds(u, most, _rate(law, t, scale, p), p)
        )
    return gaps


def _gap_bounds(u: Bounds, most: int, rate: Bounds, digits: int) -> tuple[int, int]:
    low = math.floor(_minus_log(u[1], digits)[0] / rate[1])
    high = math.floor(_minus_log(u[0], digits)[1] / rate[0]) if u[0] and rate[0] else most
    return min(low, most), min(high, most)


def _settled(bits: int, bounds: Callable[[Bounds, int], tuple[int, int]]) -> int:
    """What a uniform number that begins with `bits` leads to, read as far as it takes."""
    length = FIRST_BITS
    while True:
        digits = length // 3 + 20
        u = Fraction(bits, 1 << length), Fraction(bits + 1, 1 << length)
        low, high = bounds(u, digits)
        if low == high:
            return low
        bits, length = (bits << 64) | random_bits(64), length + 64


# Values


def _geometric(how_many: int, scale: float) -> I64:
    """P(g) ~ exp(-g / scale): discrete Laplace noise has P(z) ~ a^|z|, so z and -1-z are alike."""
    noise = _drawn("laplace", scale, how_many)
    return np.where(noise >= 0, noise, -1 - noise)


def _gaussian_tail(how_many: int, t: int, scale: float) -> I64:
    """Z - t - 1 given Z > t, by rejection from a geometric law that is at least as wide.

    exp(-(t+1+g)^2 / 2s^2) ~ exp(-g / w) exp(-h), w the proposal's scale, rounded up, and
    h = g^2 / 2s^2 + g ((t+1)/s^2 - 1/w) >= 0 a rational.
    """
    square = Fraction(scale) ** 2
    width = up(square / (t + 1))
    lean = Fraction(t + 1) / square - 1 / Fraction(width)
    found: list[int] = []
    while len(found) < how_many:
        proposed = _geometric(how_many - len(found), width).tolist()
        found += [g for g in proposed if _accepted(g * g / (2 * square) + g * lean)]
    return np.array(found, dtype=np.int64)


def _accepted(h: Fraction) -> bool:
    """True with probability exp(-h)."""
    if h == 0:
        return True
    word = int(random_words(1)[0]) >> (64 - FIRST_BITS)
    chance = math.exp(-float(h)) * 2.0**FIRST_BITS
    if word + 1 <= chance * (1 - SLACK):
        return True
    if word >= chance * (1 + SLACK) + 1e-300:
        return False

    def bounds(u: Bounds, digits: int) -> tuple[int, int]:
        low, high = _exp_minus(h, digits)
        return int(u[1] <= low), int(u[0] < high)

    return bool(_settled(word, bounds))


# Bounds, as rationals. Decimal's exp and ln are correctly rounded, so one unit either way encloses.


def _context(digits: int) -> Context:
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _enclosed(value: Decimal, digits: int, units: int = 2) -> Bounds:
    slack = Fraction(units, 10 ** (digits - 1))
    exact = Fraction(value)
    return exact * (1 - slack), exact * (1 + slack)


def _exp_minus(h: Fraction, digits: int) -> Bounds:
    """exp(-h), h >= 0."""
    # The argument's rounding error is multiplied by its size.
    inner = digits + len(str(math.ceil(h)))
    context = _context(inner)
    value = context.exp(-context.divide(h.numerator, h.denominator))
    return _enclosed(value, digits)


def _minus_log(u: Fraction, digits: int) -> Bounds:
    """-ln u, 0 < u <= 1."""
    if u == 1:
        return Fraction(), Fraction()
    # 1 - u may be small: its logarithm has few digits of the quotient's.
    inner = digits + len(str(u.denominator))
    context = _context(inner)
    return _enclosed(-context.ln(context.divide(u.numerator, u.denominator)), digits)


@lru_cache(maxsize=256)
def _rate(law: TailLaw, t: int, scale: float, digits: int) -> Bounds:
    """-ln(1 - q), where q is the chance that noise is above t; t >= 0."""
    # q <= exp(-far): the discrete Gaussian, too, is sub-Gaussian (Canonne, Kamath, Steinke).
    far = (t + 1) / scale if law == "laplace" else (t / scale) ** 2 / 2
    if far > 150 * digits:  # a number this small is as good as none, until someone asks again
        return Fraction(), Fraction(1, 10 ** (50 * digits))
    low, high = (_laplace_chance if law == "laplace" else _gaussian_chance)(t, scale, digits + 10)
    if high * 10**digits < 1:
        return low, high * (1 + high)  # q <= -ln(1 - q) <= q + q^2 for q <= 1/2
    return _minus_log(1 - low, digits)[0], _minus_log(1 - high, digits)[1]


def _laplace_chance(t: int, scale: float, digits: int) -> Bounds:
    one = _exp_minus(1 / Fraction(scale), digits)
    top = _exp_minus((t + 1) / Fraction(scale), digits)
    return top[0] / (1 + one[1]), top[1] / (1 + one[0])


def _gaussian_chance(t: int, scale: float, digits: int) -> Bounds:
    above, right = _gaussian_sum(t + 1, scale, digits), _gaussian_sum(1, scale, digits)
    return above[0] / (1 + 2 * right[1]), above[1] / (1 + 2 * right[0])


def _gaussian_sum(start: int, scale: float, digits: int) -> Bounds:
    """The sum of exp(-z^2 / 2 scale^2) over z >= start > 0.

    Terms by two products each: term(z+1) = term(z) ratio(z), ratio(z+1) = ratio(z) exp(-1/scale^2).
    """
    square = Fraction(scale) ** 2
    inner = digits + 15  # products of a million terms lose fewer digits than that
    context = _context(inner)

    def exp_minus(h: Fraction) -> Decimal:
        return Decimal(context.exp(-context.divide(h.numerator, h.denominator)))

    term = exp_minus(start * start / (2 * square))
    ratio, fall = exp_minus((2 * start + 1) / (2 * square)), exp_minus(1 / square)
    total, smallest = Decimal(0), Decimal(1).scaleb(-digits - 2)
    while True:
        total = context.add(total, term)
        term = context.multiply(term, ratio)
        # The rest is below the geometric series term / (1 - ratio).
        if term <= context.multiply(total, context.multiply(smallest, 1 - ratio)):
            return _enclosed(total, digits)
        ratio = context.multiply(ratio, fall)
