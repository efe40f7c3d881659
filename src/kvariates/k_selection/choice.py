"""`choose`: the suggested number of clusters, how sure it is, and the criteria for each k.

| step | what |
|---|---|
| search | the k at which no cluster divides further (`search`) |
| confirm | two halves of the rows agree, and all neighbours have a valley (`confirmation`) |
| copies | few distinct rows, all of them repeated, are clusters (`confirmation`) |
| criteria | elbow and silhouette: a guess where the answer is not clear (`criteria`) |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Floats, Rows
from kvariates.notebook_html import HtmlTable, boxed, shortened
from kvariates.numerics.draws import I64
from kvariates.objectives.objective import Objective
from kvariates.progress import Report
from kvariates.refining.lloyd import StopRule
from kvariates.seeding.seeding_problem import SeedingProblem

from .confirmation import FALSE_ALARM, Confirmation, are_copies, confirm
from .criteria import Guess, elbow_of, guess, sampled, silhouettes
from .search import KSearchOptions, Search


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
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Choice.frame needs pandas: pip install pandas.") from error
        return pd.DataFrame(self._columns())

    def __str__(self) -> str:
        lines = ["".join(f"{name:>12}" for name in self._columns())]
        for k, words in zip(self.ks, self._words(), strict=True):
            line = "".join(f"{word:>12}" for word in words)
            lines.append(line + ("  <" if k == self.k else ""))
        return "\n".join([*lines, f"k = {self.k}: {self.reason}"])

    def __repr__(self) -> str:
        tried = f"{self.ks[0]} to {self.ks[-1]}"
        reason = shortened(self.reason, 250)
        return f"Choice(k={self.k}, clear={self.clear}, tried={tried}, reason={reason!r})"

    def _repr_html_(self) -> str:
        words = self._words()
        title = f"k = {self.k}{'' if self.clear else ' (no clear answer)'}"
        table = HtmlTable(list(self._columns()), words, marked=self.k - int(self.ks[0]))
        return boxed(title, [self.reason], table)

    def _words(self) -> list[list[str]]:
        """The table of criteria as text."""
        return [
            [
                str(k), f"{inertia:.6g}",
                *("-" if math.isnan(value) else f"{value:.3f}" for value in criteria),
                str(dividing),
            ]
            for k, inertia, *criteria, dividing in zip(*self._columns().values(), strict=True)
        ]  # fmt: skip

    def _columns(self) -> dict[str, NDArray[Any]]:
        names = ("inertia", "elbow", "silhouette", "dividing")
        return {"k": self.ks} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class SelectionOptions:
    """The parameters of `choose`, with the meaning they have in `kvariates.choose_k`."""

    method: str
    sample_size: int
    report: Report | None = None  # called for each k, and for each test whether clusters divide


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
    how = KSearchOptions(options.method == "global", report=options.report)
    # The order in which BLAS adds depends on its threads, so it gets one.
    with threadpool_limits(1, user_api="blas"):
        search, confirmed = Search.of(problem, how), Confirmation()
        copies = are_copies(rows, search.found[-1].labels)
        if search.k is not None and search.k > 1 and not copies:
            confirmed = confirm(problem, search, how.every_row)
        picked = sampled(rows.n, options.sample_size, rng)
        sample, mass = rows.subset(picked), None if weight is None else weight[picked]
        apart = objective.distances(sample, sample.take(np.arange(sample.n)))
        silhouette = silhouettes(apart, mass, [end.labels[picked] for end in search.found])
    tried, found = np.array(ks), search.found[ks[0] - 1 :]
    inertia = np.array([objective.cost(solution.inertia) for solution in found])
    elbow, silhouette = elbow_of(tried, inertia), silhouette[ks[0] - 1 :]
    other = guess(tried, elbow, silhouette)
    if copies:
        answer = Suggestion.of_copies(ks[-1], rows.n)
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

    @classmethod
    def of_copies(cls, k: int, n: int) -> Suggestion:
        return cls(k, True, f"the {n} rows are copies of {k} distinct ones.")


def suggest(ks: I64, k: int | None, confirmed: Confirmation, guess: Guess) -> Suggestion:
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
