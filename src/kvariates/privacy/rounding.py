"""Budgets in exact arithmetic: floats are rationals, and results are rounded to the safe side.

A loss is rounded up, a budget down. Concentrated privacy (zCDP) becomes (epsilon, delta) by

    epsilon = alpha rho + ln(1 - 1/alpha) + (ln(1/delta) - ln alpha) / (alpha - 1)

(Canonne, Kamath, Steinke 2020, Corollary 13), which holds for *every* alpha > 1. So the best alpha
may be found in floats (a small error of it costs the square of that error), and only the value at
this alpha needs exact bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

Exact = float | Fraction

DIGITS = 60
MARGIN = Decimal(1).scaleb(15 - DIGITS)  # relative; a dozen operations have a smaller error


def up(value: Fraction) -> float:
    """The smallest float that is not below `value`."""
    near = _nearest(value)
    return math.nextafter(near, math.inf) if near < value else near


def down(value: Fraction) -> float:
    """The largest float that is not above `value`."""
    near = _nearest(value)
    return math.nextafter(near, -math.inf) if near > value else near


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_written(value: float) -> Fraction:
    """The shortest decimal number that becomes this float: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


def written(value: Fraction) -> float:
    """The largest float, about, that is written as a number not above `value` >= 0."""
    near = float(value)
    while as_written(near) > value:
        near = math.nextafter(near, 0.0)
    return near


def at_most(value: float) -> float:
    """The largest float that is not above the number as it is written."""
    return down(as_written(value))


def up_square_half(epsilon: float) -> float:
    """The rho of pure epsilon-privacy: epsilon^2 / 2, rounded up."""
    return up(Fraction(epsilon) ** 2 / 2)


def root_up(value: Fraction) -> float:
    """The smallest float whose square is not below `value`."""
    root = math.sqrt(up(value))
    while root > 0 and Fraction(math.nextafter(root, 0)) ** 2 >= value:
        root = math.nextafter(root, 0)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def split(total: float, shares: Sequence[Exact]) -> list[float]:
    """`total` in parts proportional to `shares`; the exact sum of the parts is never above it."""
    if not (all(0 <= share < math.inf for share in shares) and any(shares)):
        raise ValueError("shares must be numbers >= 0, and not all of them 0.")
    exact = [Fraction(share) for share in shares]
    unit = Fraction(total) / sum(exact)
    parts = [down(unit * share) for share in exact]
    # What rounding left over is added to the largest part.
    largest = max(range(len(parts)), key=parts.__getitem__)
    others = sum((Fraction(part) for part in parts), Fraction()) - Fraction(parts[largest])
    parts[largest] = down(Fraction(total) - others)
    return parts


def epsilon_of(rho: Exact, delta: float) -> float:
    """An epsilon for which `rho`-zCDP implies (epsilon, delta)-DP, rounded up."""
    if rho == 0:
        return 0.0
    if delta == 0:
        return math.inf
    near, log = up(Fraction(rho)), -math.log(delta)
    # The derivative by alpha is rho - (log - ln alpha) / order^2.
    order = _root(lambda order: log - math.log1p(order) - near * order * order)
    return max(0.0, _epsilon_at(order, Fraction(rho), delta))


def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho, rounded down, that `epsilon_of` puts within (epsilon, delta)."""
    if delta == 0:
        raise ValueError("rho_for needs delta > 0: zCDP implies no pure epsilon.")
    log = -math.log(delta)

    def best(order: float) -> float:
        """The rho for which this alpha is the best."""
        return (log - math.log1p(order)) / order / order

    order = _root(lambda order: (1 + 2 * order) * best(order) - math.log1p(1 / order) - epsilon)
    rest = epsilon + math.log1p(1 / order) - (log - math.log1p(order)) / order
    rho = max(rest / (1 + order), 0.0)
    step = rho * 2.0**-53
    while epsilon_of(rho, delta) > epsilon:
        rho, step = max(rho - step, 0.0), 2 * step
    return rho


def _root(falling: Callable[[float], float]) -> float:
    """Where a falling function of alpha - 1 is zero, by bisection, or the nearest end."""
    low, high = -30.0, 90.0
    for _ in range(70):
        middle = (low + high) / 2
        if falling(math.exp(middle)) > 0:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def _epsilon_at(order: float, rho: Fraction, delta: float) -> float:
    """The formula at alpha = 1 + order, with every term's error on the safe side."""
    # 1 + order is exact in DIGITS digits: order has at most 30 and is not below 1e-14.
    order_ = Context(prec=30).create_decimal(order)
    context = Context(prec=DIGITS)
    alpha = context.add(1, order_)
    rho_ = Context(prec=DIGITS, rounding=ROUND_CEILING).divide(rho.numerator, rho.denominator)
    log_delta = context.ln(Decimal(delta))
    terms = [
        context.multiply(alpha, rho_),
        context.ln(context.divide(order_, alpha)),
        context.divide(-log_delta, order_),
        context.divide(-context.ln(alpha), order_),
    ]
    total = sum((Fraction(term) for term in terms), Fraction())
    error = max(abs(Fraction(term)) for term in terms) * Fraction(MARGIN)
    return up(total + error)
