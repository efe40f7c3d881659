"""`choose`: the suggested number of clusters, how sure it is, and the criteria for each k.

| step | what |
|---|---|
| search | the k at which no cluster divides further (`search`) |
| confirm | two halves of the rows agree, and all neighbours have a valley (`confirmation`) |
| copies | few distinct rows, all of them repeated, are clusters (`confirmation`) |
| criteria | elbow and silhouette: a guess where the answer is not clear |

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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Floats, Labels, Rows
from kvariates.extras import pandas_for
from kvariates.k_selection.confirmation import FALSE_ALARM, Confirmation, are_copies, confirm
from kvariates.k_selection.search import Search, SelectionOptions
from kvariates.notebook_html import boxed, shortened
from kvariates.numerics.draws import I64
from kvariates.objectives.objective import Objective
from kvariates.refining.lloyd import StopRule
from kvariates.seeding.sampler import SeedingProblem

WEAK = 0.25  # a silhouette below this shows no substantial structure (Kaufman and Rousseeuw 1990)
SHALLOW = 0.02  # an elbow below this is none


@dataclass(frozen=True, eq=False)
class Choice:
    """A suggested number of clusters, the reason, and the criteria for each k that was tried.

    Attributes
    ----------
    k : int
        The suggestion. If it is not clear, it is 1, or `guess` if ``k_range`` begins above 1.
    clear : bool
        Whether k separate clusters were found and confirmed. Groups that overlap count as one.
        k = 1 is never clear. If not clear, the reason begins with "no clear answer".
    reason : str
        The reason, in words: how sure the answer is, or what speaks against it.
    ks, inertia, elbow, silhouette, dividing : ndarray of shape (n_ks,)
        The numbers of clusters; the cost of all rows; the depth of the elbow; the mean silhouette
        of sampled rows (NaN for one cluster); how many clusters divide.
    solutions : tuple of ndarray of shape (k, n_features)
        The centres for each k.
    guess : int
        `k` if it is clear. Otherwise the best k of at least 2, for those who need groups anyway.
    """

    k: int
    clear: bool
    reason: str
    ks: I64
    inertia: F64
    elbow: F64
    silhouette: F64
    dividing: I64
    solutions: tuple[Floats, ...]
    guess: int

    @property
    def centers(self) -> Floats:
        """The centres for the suggested k."""
        return self.solutions[self.k - int(self.ks[0])]

    def frame(self) -> Any:
        """The criteria as a pandas DataFrame, a row for each k. Needs pandas."""
        return pandas_for("Choice.frame").DataFrame(self._columns())

    def __str__(self) -> str:
        lines = ["".join(f"{name:>12}" for name in self._columns())]
        for k, words in zip(self.ks, self._words(), strict=True):
            line = "".join(f"{word:>12}" for word in words)
            lines.append(line + ("  <" if k == self.k else ""))
        return "\n".join([*lines, f"k = {self.k}: {self.reason}"])

    def __repr__(self) -> str:
        told = f"tried={self.ks[0]} to {self.ks[-1]}, reason={shortened(self.reason, 250)!r}"
        return f"Choice(k={self.k}, clear={self.clear}, {told})"

    def _repr_html_(self) -> str:
        title = f"k = {self.k}{'' if self.clear else ' (no clear answer)'}"
        chosen = self.k - int(self.ks[0])
        return boxed(title, [self.reason], list(self._columns()), self._words(), chosen)

    def _words(self) -> list[list[str]]:
        return [
            [
                str(k), f"{inertia:.6g}",
                *("-" if math.isnan(value) else f"{value:.3f}" for value in criteria),
                str(dividing),
            ]
            for k, inertia, *criteria, dividing in zip(*self._columns().values(), strict=True)
        ]  # fmt: skip

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {
            "k": self.ks, "inertia": self.inertia, "elbow": self.elbow,
            "silhouette": self.silhouette, "dividing": self.dividing,
        }  # fmt: skip


def choose(
    rows: Rows, weight: F64 | None, objective: Objective, ks: range,
    options: SelectionOptions, rng: np.random.Generator,
) -> Choice:  # fmt: skip
    """The choice among `ks`. The rows are in the objective's coordinates.

    Pre: at least max(ks) distinct rows, all weights > 0, max(ks) <= options.sample_size.
    """
    stop = StopRule(300, 1e-4 * rows.spread())
    problem = SeedingProblem(
        HostData(rows, weight), ks[-1],
        lloyd=lambda part, centers: objective.lloyd(part, centers, stop), rng=rng,
    )  # fmt: skip
    # The order in which BLAS adds depends on its threads, so it gets one.
    with threadpool_limits(1, user_api="blas"):
        search, confirmed = Search.of(problem, options), Confirmation()
        copies = are_copies(rows, search.found[-1].labels)
        if search.k is not None and search.k > 1 and not copies:
            confirmed = confirm(problem, search, options.every_row)
        picked = np.arange(rows.n)
        if rows.n > options.sample_size:
            picked = np.sort(rng.choice(rows.n, options.sample_size, replace=False))
        sample, mass = rows.subset(picked), None if weight is None else weight[picked]
        apart = objective.distances(sample, sample.take(np.arange(sample.n)))
        silhouette = silhouettes(apart, mass, [end.labels[picked] for end in search.found])
    tried, found = np.array(ks), search.found[ks[0] - 1 :]
    inertia = np.array([objective.cost(solution.inertia) for solution in found])
    elbow, silhouette = elbow_of(tried, inertia), silhouette[ks[0] - 1 :]
    other = guess(tried, elbow, silhouette)
    if copies:
        reason = f"the {rows.n} rows are copies of {ks[-1]} distinct ones."
        answer = Suggestion(ks[-1], True, reason)
    else:
        answer = suggest(tried, search.k, confirmed, other)
    centers = tuple(solution.centers for solution in found)
    dividing = search.dividing[ks[0] - 1 :]
    return Choice(
        *answer, tried, inertia, elbow, silhouette, dividing, centers,
        answer.k if answer.clear else other.k,
    )  # fmt: skip


class Suggestion(NamedTuple):
    k: int
    clear: bool
    reason: str


def suggest(ks: I64, k: int | None, confirmed: Confirmation, guess: Suggestion) -> Suggestion:
    """The suggested k, whether it is clear, and the reason.

    `k` is the result of the search; None if some clusters divide at the highest of `ks`.
    """
    doubt, pairs = confirmed
    if k is not None and ks[0] <= k > 1 and not doubt:
        gaps = {1: "the pair", 2: "both pairs"}.get(pairs, f"all {pairs} pairs")
        return Suggestion(
            k, True, f"the {k} clusters are well separated: none of them divides, two halves of"
            f" the rows lead to the same clusters, and {gaps} of neighbours"
            f" {'has' if pairs == 1 else 'have'} a gap between them (false-alarm rate"
            f" {FALSE_ALARM:g} for all pairs).",
        )  # fmt: skip
    why = "no separate clusters were found."
    if k is None:
        why = (
            f"at k = {ks[-1]}, the highest tried, some clusters still divide. Try a larger k_range."
        )
    elif k > 1 and doubt:
        why = f"{k} clusters were found, but {doubt}."
    elif k > 1:
        why = f"{k} separate clusters were found, but k_range begins at {ks[0]}."
    elif ks[0] == 1:
        why += " X may be one group (k = 1) or have no clusters."
    alone = ks[0] == 1
    if len(ks) > 1:
        offer = "If you need groups anyway" if alone else "Best guess"
        why += f" {offer}: k = {guess.k} ({guess.reason})."
    return Suggestion(1 if alone else guess.k, False, f"no clear answer: {why}")


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


def guess(ks: I64, elbow: F64, silhouette: F64) -> Suggestion:
    """The best k of at least 2: by the silhouette; if all silhouettes are weak, by the elbow."""
    if ks[0] == 1 < len(ks):
        ks, elbow, silhouette = ks[1:], elbow[1:], silhouette[1:]
    if len(ks) == 1:
        return Suggestion(int(ks[0]), False, "no other k was tried")
    best = int(np.argmax(np.nan_to_num(silhouette, nan=-1)))
    if silhouette[best] >= WEAK or np.isnan(elbow).all():
        return Suggestion(int(ks[best]), False, "largest mean silhouette")
    k, depth = int(ks[np.nanargmax(elbow)]), float(np.nanmax(elbow))
    reason = f"all silhouettes are below {WEAK:g}; the elbow value is largest, {depth:.2g}"
    if depth < SHALLOW:
        k, weak = int(ks[best]), "neither the silhouette nor the elbow helps; this is the largest"
        reason = f"{weak} mean silhouette, {silhouette[best]:.2g}"
    return Suggestion(k, False, reason)
