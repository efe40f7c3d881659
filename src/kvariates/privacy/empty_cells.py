"""Samples the empty cells whose noisy counts pass a threshold, without visiting the others.

Each of m empty cells passes with the same probability q. So the gaps between passing cells are
geometric, and the value of a passing cell has the law of the noise above the threshold. Both are
drawn *exactly*: a uniform number is a string of random bits, of which as many are read as decide
the answer, against bounds of increasing precision. The first 53 bits are compared in floats, which
decides all but a few cases.

    Laplace    q = a^(t+1) / (1 + a), a = exp(-1/scale), for a threshold t >= 0;
               the value above t is t + 1 + g, g geometric
    Gaussian   q is a quotient of sums of exp(-z^2 / 2 scale^2);
               the value above t is t + 1 + g, g drawn by rejection from a geometric law

Below t = 0 at least half of the cells pass, and noise is drawn for every cell.
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

from kvariates.numerics.draws import I64
from kvariates.privacy.noise_source import Calibrated, measurement, random_bits, random_words
from kvariates.privacy.rounding import up

TailLaw = Literal["laplace", "gaussian"]
Bounds = tuple[Fraction, Fraction]

MOST_ENUMERATED = 64  # up to so many cells get noise one by one
SLACK = 2.0**-44  # relative; logarithms, quotients and products of floats have smaller errors
FIRST_BITS = 53
TINY = 2.0**-1000
LARGEST = 2**52


@dataclass(frozen=True)
class Passing:
    """The cells that pass, ascending, and their noisy counts."""

    cells: NDArray[Any]  # int64, or Python's integers if there are 2^63 cells or more
    counts: I64


# proof: empty_cells.md
def sample_passing(
    how_many: int, threshold: float, scale: float, *, law: TailLaw = "laplace"
) -> Passing:
    """The result of adding noise to `how_many` zeros and keeping the values above the threshold.

    It has no charge of its own: `histogram_query` uses it for the empty cells of a histogram whose
    occupied cells get noise of the same law and scale.
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


# --- gaps between passing cells ---------------------------------------------------------------


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
    """How many cells in a row fail, at most `most`: floor(E / rate), E exponential.

    With rate = -ln(1 - q), P(E >= g rate) = (1 - q)^g.
    """
    words = random_words(batch) >> np.uint64(64 - FIRST_BITS)
    low, high = (float(end) for end in _rate(law, t, scale, 40))
    if low < TINY:  # too small for a float
        low, high = 0.0, TINY
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ends = -np.log(np.stack([words + 1.0, words.astype(np.float64)]) * 2.0**-FIRST_BITS)
        floors = np.floor(np.maximum(ends, 0.0) / [[high], [low]] * [[1 - SLACK], [1 + SLACK]])
    floors = np.minimum(floors, float(most)) if most < LARGEST else floors
    decided = (floors[0] == floors[1]) & (floors[1] < 2.0**52)
    gaps: list[int] = np.where(decided, floors[0], 0.0).astype(np.int64).tolist()
    for i in np.flatnonzero(~decided):
        gaps[i] = _decide(
            int(words[i]), lambda u, p: _gap_bounds(u, most, _rate(law, t, scale, p), p)
        )
    return gaps


def _gap_bounds(u: Bounds, most: int, rate: Bounds, digits: int) -> tuple[int, int]:
    low = math.floor(_minus_log(u[1], digits)[0] / rate[1])
    high = math.floor(_minus_log(u[0], digits)[1] / rate[0]) if u[0] and rate[0] else most
    return min(low, most), min(high, most)


def _decide(bits: int, bounds: Callable[[Bounds, int], tuple[int, int]]) -> int:
    """The answer for a uniform number that begins with `bits`; further bits are drawn as needed."""
    length = FIRST_BITS
    while True:
        digits = length // 3 + 20
        u = Fraction(bits, 1 << length), Fraction(bits + 1, 1 << length)
        low, high = bounds(u, digits)
        if low == high:
            return low
        bits, length = (bits << 64) | random_bits(64), length + 64


# --- values of passing cells ------------------------------------------------------------------


def _geometric(how_many: int, scale: float) -> I64:
    """P(g) ~ exp(-g / scale). Discrete Laplace noise z is folded: z and -1-z are equally likely."""
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

    return bool(_decide(word, bounds))


# --- bounds as rationals: Decimal's exp and ln are correctly rounded, so two units enclose -----


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
    # 1 - u may be small, and its logarithm then has fewer digits than the quotient.
    inner = digits + len(str(u.denominator))
    context = _context(inner)
    return _enclosed(-context.ln(context.divide(u.numerator, u.denominator)), digits)


@lru_cache(maxsize=256)
def _rate(law: TailLaw, t: int, scale: float, digits: int) -> Bounds:
    """-ln(1 - q), where q is the chance that noise is above t; t >= 0."""
    # q <= exp(-far): the discrete Gaussian, too, is sub-Gaussian (Canonne, Kamath, Steinke).
    far = (t + 1) / scale if law == "laplace" else (t / scale) ** 2 / 2
    if far > 150 * digits:  # the bounds are wide; more digits give closer ones
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

    A term takes two products: term(z+1) = term(z) ratio(z), ratio(z+1) = ratio(z) exp(-1/scale^2).
    """
    square = Fraction(scale) ** 2
    inner = digits + 15  # a million products lose fewer digits
    context = _context(inner)

    def exp_minus(h: Fraction) -> Decimal:
        return Decimal(context.exp(-context.divide(h.numerator, h.denominator)))

    term = exp_minus(start * start / (2 * square))
    ratio, fall = exp_minus((2 * start + 1) / (2 * square)), exp_minus(1 / square)
    total, smallest = Decimal(0), Decimal(1).scaleb(-digits - 2)
    while True:
        total = context.add(total, term)
        term = context.multiply(term, ratio)
        # The other terms are below the geometric series term / (1 - ratio).
        if term <= context.multiply(total, context.multiply(smallest, 1 - ratio)):
            return _enclosed(total, digits)
        ratio = context.multiply(ratio, fall)
