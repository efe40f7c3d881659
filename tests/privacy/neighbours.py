"""Pairs of data sets in a unit ball that differ in one row, chosen to show the largest leak.

| kind | the other rows | the row that is added (or moved) |
|---|---|---|
| corner | at the middle | at the corner (or moves to the opposite one) |
| axis | at the middle | at the end of the first axis (or moves to the other end) |
| lone | at one corner | alone at the opposite corner (or moves to the others) |
| between | half at one corner, half at the opposite one | in the middle (or moves to a corner) |
| spread | all over the domain | at the corner (or moves to the opposite one) |
| first | all over the domain | as above, and before the others, whose indices shift |
| empty | none | the only one |

The corner is the point of the domain with the greatest l1 norm: the corner of a box (norm "linf"),
the point of an l2 ball with all coordinates equal, the end of an axis of an l1 ball.
"""

import math
from typing import NamedTuple

import numpy as np

KINDS = ("corner", "axis", "lone", "between", "spread", "first", "empty")


class Neighbours(NamedTuple):
    first: np.ndarray
    second: np.ndarray


def neighbours(kind, n, d, adjacency="add-remove", *, norm="linf"):
    """The first has n rows (one if "empty"), the second one row less, or another in its place."""
    rest = 0 if kind == "empty" else n - 1
    corner, axis, middle = _corner(d, norm), np.eye(d)[0], np.zeros(d)
    others = {
        "lone": np.tile(-corner, (rest, 1)),
        "between": np.where(np.arange(rest)[:, None] % 2 == 0, corner, -corner),
        "spread": _all_over(rest, d, corner),
        "first": _all_over(rest, d, corner),
    }.get(kind, np.zeros((rest, d)))
    moves = {"axis": (axis, -axis), "between": (middle, corner)}
    row, moved = moves.get(kind, (corner, -corner))
    place = 0 if kind == "first" else rest
    first = np.insert(others, place, row, axis=0)
    second = others if adjacency == "add-remove" else np.insert(others, place, moved, axis=0)
    return Neighbours(first, second)


def _corner(d, norm):
    if norm == "l1":
        return np.eye(d)[0]
    # Rounded towards zero, so that it stays inside.
    return np.full(d, np.nextafter(1 / math.sqrt(d), 0.0) if norm == "l2" else 1.0)


def _all_over(rest, d, corner):
    """Rows spread over the domain: Kronecker's sequence."""
    steps = np.sqrt(np.arange(2.0, d + 2.0)) + np.arange(d) / math.e
    fractions = np.modf(np.arange(1.0, rest + 1.0)[:, None] * steps)[0]
    inside = 1.0 / d if d > 1 and corner[-1] == 0 else 1.0  # for an l1 ball
    return (2.0 * fractions - 1.0) * np.abs(corner).max() * inside
