"""Neighbours: pairs of data sets that differ in one row, chosen to show the largest leak.

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

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.numerics.lattice import Adjacency, Norm

F64 = NDArray[np.float64]

KINDS = ("corner", "axis", "lone", "between", "spread", "first", "empty")


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two data sets that differ in one row: `first, second = neighbours`."""

    first: F64
    second: F64
    kind: str
    adjacency: Adjacency

    def __iter__(self) -> Iterator[F64]:
        return iter((self.first, self.second))


def neighbours(
    kind: str,
    n: int,
    d: int,
    adjacency: Adjacency = "add-remove",
    *,
    radius: float = 1.0,
    norm: Norm = "linf",
) -> Neighbours:
    """A pair of data sets that differ in one row.

    Parameters
    ----------
    kind : str
        One of ``KINDS``; see the table above.
    n, d : int
        Rows of the first data set, with the row in question, and columns. A pair of kind "empty"
        has one row for every n.
    adjacency : {"add-remove", "replace-one"}
        The second data set does not have the row, or has another in its place.
    radius, norm : float, {"l1", "l2", "linf"}
        The domain: a ball around 0.

    Returns
    -------
    Neighbours
        The two data sets.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    if n < 1 or d < 1:
        raise ValueError(f"n and d must be at least 1, got n={n}, d={d}.")
    rest = 0 if kind == "empty" else n - 1
    corner = _corner(d, radius, norm)
    axis = np.eye(d)[0] * radius
    middle = np.zeros(d)
    others = {
        "lone": np.tile(-corner, (rest, 1)),
        "between": np.where(np.arange(rest)[:, None] % 2 == 0, corner, -corner),
        "spread": _all_over(rest, d, corner),
        "first": _all_over(rest, d, corner),
    }.get(kind, np.zeros((rest, d)))
    row, moved = {
        "axis": (axis, -axis),
        "between": (middle, corner),
    }.get(kind, (corner, -corner))
    place = 0 if kind == "first" else rest
    first = np.insert(others, place, row, axis=0)
    second = others if adjacency == "add-remove" else np.insert(others, place, moved, axis=0)
    return Neighbours(first, second, kind, adjacency)


def _corner(d: int, radius: float, norm: Norm) -> F64:
    if norm == "l1":
        return np.asarray(np.eye(d)[0] * radius)
    each = radius / math.sqrt(d) if norm == "l2" else radius
    # Rounded towards zero, so that it stays inside.
    return np.full(d, each if norm == "linf" else np.nextafter(each, 0.0))


def _all_over(rest: int, d: int, corner: F64) -> F64:
    """Rows spread over the domain: Kronecker's sequence."""
    steps = np.sqrt(np.arange(2.0, d + 2.0)) + np.arange(d) / math.e
    fractions = np.modf(np.arange(1.0, rest + 1.0)[:, None] * steps)[0]
    inside = 1.0 / d if d > 1 and corner[-1] == 0 else 1.0  # for an l1 ball
    return np.asarray((2.0 * fractions - 1.0) * np.abs(corner).max() * inside)
