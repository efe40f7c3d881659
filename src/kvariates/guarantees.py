"""Guarantees as values: which theorem holds for a fit, its terms, and the bound in numbers.

    E[cost] <= (2 + ln k) * Phi,    Phi by theorem (Nock et al. 2016):

| theorem | setting | Phi |
|---|---|---|
| 2 | any density, any eta-stretching probe | (6 + 4 eta) opt + 2 bias + 2 var |
| 4 | peers | 10 opt + 6 spread; with noise: 10 opt + 4 spread + 2 var |
| 5 | stream | (8 + 4 eta) opt + 2 spread |
| 6 | on-line | (4 + 32 / varsigma^2) opt |

The expectation is over the draws of the seeding, for fixed data; refinements that never raise the
cost keep it. `opt` is the cost of the best k centres, which is not known. If the cost of found
centres is given for it, which is at least `opt`, the bound holds too.

The paper's (19) and (20) leave out the dimension; nothing here uses them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

Term = float | None  # None: not known
Parts = dict[str, tuple[Term, Term]]  # coefficient and term, by name
Notes = tuple[str, ...]

PAPER = "Nock, Canyasse, Boreli, Nielsen: k-variates++, ICML 2016"


@dataclass(frozen=True)
class Guarantee:
    """A theorem that holds, with its terms; `bound` is None if a term is not known."""

    theorem: str
    source: str
    promise: str  # one sentence, in plain words
    factor: float | None  # bound / optimum, if the bound depends on nothing else
    bound: float | None
    terms: Mapping[str, Term] = field(default_factory=dict)
    notes: Notes = ()

    def explain(self) -> str:
        """The promise in plain words, its terms, and notes on the numbers."""
        lines = [f"{self.theorem} ({self.source})", self.promise]
        for name, value in self.terms.items():
            lines.append(f"  {name} = {'not known' if value is None else format(value, '.6g')}")
        if self.bound is not None:
            lines.append(f"  bound on the expected cost: {self.bound:.6g}")
        return "\n".join([*lines, *self.notes])

    __str__ = explain


OPT_IS_FOUND = (
    "opt is the cost of the centres that were found: the true optimum is at most that, "
    "so the bound holds, too."
)


ABOUT_THE_METHOD = (
    "It is a promise about the average over many fits, made before the centres are drawn; opt, the "
    "cost of the best k centres, is not known. How far the centres of this fit can be from the "
    "best: KMeans(certify=True)."
)


def log_factor(k: int) -> float:
    """2 + ln k."""
    return 2 + math.log(k)


def _theorem(
    number: int, k: int, promise: str, parts: Parts, notes: Notes, **others: Term
) -> Guarantee:
    """A bound of (2 + ln k) times the sum of coefficient * term."""
    terms = {name: term for name, (_, term) in parts.items()}
    products = [None if c is None or t is None else c * t for c, t in parts.values()]
    bound = sum(p for p in products if p is not None) if None not in products else None
    alone = all(t == 0 for name, t in terms.items() if name != "opt")
    share = parts["opt"][0]
    return Guarantee(
        theorem=f"Theorem {number} of k-variates++",
        source=PAPER,
        promise=promise,
        factor=log_factor(k) * share if alone and share is not None else None,
        bound=None if bound is None else log_factor(k) * bound,
        terms={"k": float(k), **terms, **others},
        notes=notes,
    )


def _stretched(base: float, eta: Term) -> Term:
    return None if eta is None else base + 4 * eta


def theorem_2(
    k: int, *, opt: Term, var: Term = 0.0, eta: Term = 0.0,
    centred: bool = True, bias: Term = None, notes: Notes = (),
) -> Guarantee:  # fmt: skip
    """Any density and probe. centred: every density's mean is its row, and bias is opt."""
    parts: Parts = {"opt": (_stretched(8 if centred else 6, eta), opt), "var": (2.0, var)}
    if not centred:
        parts["bias"] = (2.0, bias)
    promise = (
        f"The expected cost is at most 8 (2 + ln k) = {8 * log_factor(k):.4g} times that of the "
        "best k centres there are."
        if centred and var == 0 and eta == 0
        else "The expected cost is at most (2 + ln k) ((6 + 4 eta) opt + 2 bias + 2 var)"
        + (", with bias = opt." if centred else ".")
    )
    return _theorem(2, k, promise, parts, notes, eta=eta)


def theorem_4(
    k: int, *, opt: Term, spread: Term, var: Term = 0.0, noisy: bool = False, notes: Notes = ()
) -> Guarantee:
    """Peers. spread: the sum of the rows' squared distances to the mean of their peer."""
    promise = (
        "The expected cost over all peers' rows is at most (2 + ln k) "
        + ("(10 opt + 4 spread + 2 var)." if noisy else "(10 opt + 6 spread).")
    )  # fmt: skip
    parts: Parts = {"opt": (10.0, opt), "spread": (4.0 if noisy else 6.0, spread)}
    if noisy:
        parts["var"] = (2.0, var)
    return _theorem(4, k, promise, parts, notes)


def theorem_5(k: int, *, opt: Term, spread: Term, eta: Term, notes: Notes = ()) -> Guarantee:
    """Streams. spread: the sum of the rows' squared distances to their synopses."""
    promise = "The expected cost is at most (2 + ln k) ((8 + 4 eta) opt + 2 spread)."
    parts: Parts = {"opt": (_stretched(8, eta), opt), "spread": (2.0, spread)}
    return _theorem(5, k, promise, parts, notes, eta=eta)


def theorem_6(k: int, *, opt: Term, varsigma: Term, notes: Notes = ()) -> Guarantee:
    """On-line. 0 < varsigma <= 1: the larger, the more alike batches and clusters are."""
    promise = "The expected cost is at most (2 + ln k) (4 + 32 / varsigma^2) opt."
    factor = None if varsigma is None else 4 + 32 / varsigma**2
    return _theorem(6, k, promise, {"opt": (factor, opt)}, notes, varsigma=varsigma)


def local_optimum(cost: float) -> Guarantee:
    """k-median where no swap of one medoid helps: no medoids cost less than a fifth of these."""
    return Guarantee(
        theorem="The locality gap of single swaps",
        source="Arya, Garg, Khandekar, Meyerson, Munagala, Pandit: SIAM J. Comput. 33 (2004)",
        promise="The cost is at most 5 times that of the best k medoids there are, not on average "
        "but always: no swap of a medoid for another point lowers it.",
        factor=5.0,
        bound=cost,
        notes=("A certificate (certify=True) is usually far closer.",),
    )


# Why a fit carries no theorem. Tables of choices hold the reasons that belong to their entries.
LOST = {
    "array": "nothing is known about centres that were given.",
    "callable": "nothing is known about centres that a function made.",
    "not a local optimum": (
        "the search looked at some candidates only, so a swap that helps may be left; "
        "certify=True computes a bound all the same."
    ),
    "not a metric": (
        "the triangle inequality, on which the bound rests, does not hold for these distances."
    ),
    "density": (
        "Theorems 5 and 6, about synopses and mini-batches, are about centres that are the picked "
        "points themselves (density Dirac)."
    ),
    "synopses": (
        "Theorem 5 is about rows that are measured at their nearest synopsis; some row's is not."
    ),
}
