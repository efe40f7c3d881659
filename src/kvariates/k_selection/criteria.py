"""Two criteria for each k, and a guess by them where the answer is not clear.

| criterion | what is computed, for every k |
|---|---|
| elbow | how far (log k, log inertia) lies below the line between its ends, both axes 0..1 |
| silhouette | the mean of (b - a) / max(a, b) over a sample of rows, from all pairs of its rows |

In the silhouette, a is the mean distance of a row to the other sampled rows of its cluster, and b
is the mean distance to those of the next cluster. If the cost falls like a power of k, there is no
elbow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvariates.data.rows import F64, Floats, Labels
from kvariates.numerics.draws import I64

WEAK = 0.25  # a silhouette below this shows no substantial structure (Kaufman and Rousseeuw 1990)
SHALLOW = 0.02  # an elbow below this is none


def sampled(n: int, size: int, rng: np.random.Generator) -> I64:
    """At most `size` of n rows, in their order."""
    return np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))


def silhouettes(apart: Floats, weight: F64 | None, solutions: Sequence[Labels]) -> F64:
    """The mean silhouette for each solution, from the distances of all pairs, which change."""
    mass = np.ones(len(apart)) if weight is None else weight
    apart /= apart.max() or 1
    apart = apart.astype(np.float32, copy=False)  # products take half the time
    return np.array([silhouette_of(apart, mass, labels) for labels in solutions])


def silhouette_of(apart: Floats, mass: F64, labels: Labels) -> float:
    """The mean silhouette; a row alone in its cluster has 0. NaN if there is only one cluster."""
    member = np.zeros((len(labels), int(labels.max()) + 1))
    member[np.arange(len(labels)), labels] = mass
    member = member[:, member.any(axis=0)]
    if member.shape[1] == 1:
        return math.nan
    own = member > 0
    others = member.sum(axis=0) - member  # the weight of each cluster without the row
    alone = own.sum(axis=0)[own.argmax(axis=1)] == 1
    total = (apart @ member.astype(apart.dtype)).astype(np.float64)
    a = total[own] / np.where(alone, 1, others[own])
    b = np.where(own, np.inf, total / np.where(own, 1, others)).min(axis=1)
    wide = np.maximum(a, b)
    value = np.where(alone | (wide == 0), 0, (b - a) / np.where(wide > 0, wide, 1))
    return float(np.average(value, weights=mass))


def elbow_of(ks: I64, inertia: F64) -> F64:
    """The depth of the elbow; NaN where inertia is zero, and everywhere for fewer than 3 points."""
    some = np.flatnonzero(inertia > 0)
    if len(some) < 3 or inertia[some[-1]] >= inertia[0]:
        return np.full(len(ks), np.nan)
    x, y, last = np.log(ks), np.log(np.where(inertia > 0, inertia, np.nan)), some[-1]
    return np.asarray((y[0] - y) / (y[0] - y[last]) - (x - x[0]) / (x[last] - x[0]))


class Guess(NamedTuple):
    """A number of clusters, and the reason."""

    k: int
    reason: str


def guess(ks: I64, elbow: F64, silhouette: F64) -> Guess:
    """The best k of at least 2: by the silhouette; if all silhouettes are weak, by the elbow."""
    if ks[0] == 1 < len(ks):
        ks, elbow, silhouette = ks[1:], elbow[1:], silhouette[1:]
    if len(ks) == 1:
        return Guess(int(ks[0]), "no other k was tried")
    best = int(np.argmax(np.nan_to_num(silhouette, nan=-1)))
    if silhouette[best] >= WEAK or np.isnan(elbow).all():
        return Guess(int(ks[best]), "largest mean silhouette")
    k, depth = int(ks[np.nanargmax(elbow)]), float(np.nanmax(elbow))
    if depth < SHALLOW:
        weak = "neither the silhouette nor the elbow helps; this is the largest mean silhouette"
        return Guess(int(ks[best]), f"{weak}, {silhouette[best]:.2g}")
    return Guess(k, f"all silhouettes are below {WEAK:g}; the elbow value is largest, {depth:.2g}")
