"""Guarantees as values: which theorem holds for a fit, and what it says about this fit.

    E[cost] <= (2 + ln k) * Phi,    Phi by theorem (Nock et al. 2016):

| theorem | setting | Phi |
|---|---|---|
| 2 | any density, any eta-stretching probe | (6 + 4 eta) opt + 2 bias + 2 var |
| 4 | peers | 10 opt + 6 spread; with noise: 10 opt + 4 spread + 2 var |
| 5 | stream | (8 + 4 eta) opt + 2 spread |
| 6 | on-line | (4 + 32 / varsigma^2) opt |

The expectation is over the draws of the seeding, for fixed data; refinements that never raise the
cost keep it. `opt` is the cost of the best k centres, which is not known. If the cost of found
centres is given for it, which is at least `opt`, `bound` holds too, but it says nothing about these
centres: it is many times their own cost. So texts do not give it.

The paper's (19) and (20) leave out the dimension; nothing here uses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvariates.notebook_html import boxed, shortened

Term = float | None  # None: not known
Parts = dict[str, tuple[Term, Term]]  # coefficient and term, by name
Notes = tuple[str, ...]

MEAN = "On average over the random draws, the cost is at most"
PAPER = "Nock, Canyasse, Boreli, Nielsen: k-variates++, ICML 2016"


@dataclass(frozen=True)
class Guarantee:
    """A theorem that holds for a fit, in words and in numbers; None stands for what is not known.

    Attributes
    ----------
    theorem, source : str
        The name of the theorem, and where it is stated.
    promise : str
        What is known about this fit, in one or two sentences.
    factor : float or None
        The cost is at most so many times the lowest possible one: always, or on average over the
        random draws (see `promise`).
    bound : float or None
        A number that the mean cost over the random draws does not exceed. If the lowest cost is not
        known, the cost of the found centres stands for it, and the number is far too large to say
        how good they are.
    lower_bound : float or None
        No other choice of as many centres costs less.
    assumes : str or None
        What has to be true of the data and was not checked, or only in part.
    terms, notes : mapping, tuple of str
        The terms of the theorem, and what they mean.
    """

    theorem: str
    source: str
    promise: str
    factor: float | None = None
    bound: float | None = None
    lower_bound: float | None = None
    assumes: str | None = None
    terms: Mapping[str, Term] = field(default_factory=dict)
    notes: Notes = ()

    def explain(self) -> str:
        """The promise in plain words, what it assumes, its terms, and where it comes from."""
        lines = [self.promise]
        if self.assumes is not None:
            lines.append(f"It assumes {self.assumes}")
        lines += self.notes
        words = [
            self._term(name, value)
            for name, value in self.terms.items()
            if value != 0 or re.search(rf"\b{name}\b", self.promise)
        ]
        if words:
            lines.append("Terms: " + ", ".join(words) + ".")
        if self.bound is not None and OPT_IS_FOUND not in self.notes:
            lines.append(f"In numbers: at most {self.bound:.6g}, on average over the random draws.")
        return "\n".join([*lines, f"({self.theorem}; {self.source})"])

    __str__ = explain

    def __repr__(self) -> str:
        return f"Guarantee({self.theorem!r}, {shortened(self.promise, 300)!r})"

    def _repr_html_(self) -> str:
        return boxed(self.theorem, self.explain().splitlines())

    def _term(self, name: str, value: Term) -> str:
        """A term: its name, what it is, and its value."""
        meaning = f"{name} ({MEANINGS[name]})" if name in MEANINGS else name
        found = "not known" if value is None else f"{value:.6g}"
        if name == "opt" and OPT_IS_FOUND in self.notes:
            return f"{meaning} <= {found} (the cost of these centres)"
        return f"{meaning} = {found}"


COST = "The cost is the sum of squared distances of the rows to their nearest centres."
WORST = "This is a worst case: it holds for all data, and does not measure this fit."
OPT_IS_FOUND = (
    "The lowest cost, opt, is not known, only that it is at most the cost of these centres. So "
    "this is a worst case for all data, and no estimate of how good these centres are."
)
MEANINGS = {
    "opt": "the lowest cost",
    "var": "the variance of the densities, summed over the rows",
    "bias": "the squared distances of the densities' means to the best centres",
    "eta": "how much the probe can change costs; 0 if it does not",
}


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
        notes=(COST, *(notes if OPT_IS_FOUND in notes else (*notes, WORST))),
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
        f"{MEAN} 8 (2 + ln k) = {8 * log_factor(k):.3g} times the lowest cost of any {k} centres."
        if centred and var == 0 and eta == 0
        else f"{MEAN} (2 + ln k) ({'(8 + 4 eta) opt' if centred else '(6 + 4 eta) opt + 2 bias'} "
        f"+ 2 var), opt being the lowest cost of any {k} centres."
    )
    return _theorem(2, k, promise, parts, notes, eta=eta)


def plain_seeding(k: int, *, certifiable: bool, certificate: object = None) -> Guarantee:
    """Theorem 2 for a fit that starts from plain k-means++.

    certifiable: certify=True works. certificate: of this fit, if there is one.
    """
    advice = how_to_measure(certifiable=certifiable)
    if certificate is not None:
        advice = f"How good this fit is, certificate_ says: {certificate}."
    what = (
        f"The cost is inertia_. The lowest cost, of the best {k} centres there are, is not known."
    )
    return replace(theorem_2(k, opt=None), terms={}, notes=(what, f"{WORST} {advice}"))


def how_to_measure(*, certifiable: bool) -> str:
    """How to find out how good a fit is; certifiable: certify=True works."""
    if not certifiable:
        return "To compare, fit again with n_init=10 and look at inertia_."
    return (
        "To see how good this fit is, fit with certify=True, or compare its inertia_ with that of "
        "n_init=10."
    )


def streamed_seeding(k: int) -> Guarantee:
    """Theorem 2 on synopses whose weights are unbiased.

    The cost of the best centres of the rows is, on average, the same on the synopses; the lowest
    cost on the synopses is at most that.
    """
    promise = (
        "On average over the random draws, inertia_ (the cost of these centres on the synopses) "
        f"is at most 8 (2 + ln k) = {8 * log_factor(k):.3g} times the lowest cost of any {k} "
        "centres on the rows."
    )
    note = (
        "The cost on the rows themselves is not bounded by this. inertia_ estimates it, a little "
        "too low, since the centres were chosen for the synopses."
    )
    return replace(theorem_2(k, opt=None), promise=promise, terms={}, notes=(note, WORST))


def theorem_4(
    k: int, *, opt: Term, spread: Term, var: Term = 0.0, noisy: bool = False, notes: Notes = ()
) -> Guarantee:
    """Peers. spread: the sum of the rows' squared distances to the mean of their peer."""
    phi = "10 opt + 4 spread + 2 var" if noisy else "10 opt + 6 spread"
    promise = (
        f"{MEAN} (2 + ln k) ({phi}), opt being the lowest cost of any {k} centres for all peers' "
        "rows, and spread the rows' squared distances to the means of their peers."
    )
    parts: Parts = {"opt": (10.0, opt), "spread": (4.0 if noisy else 6.0, spread)}
    if noisy:
        parts["var"] = (2.0, var)
    return _theorem(4, k, promise, parts, notes)


def theorem_5(k: int, *, opt: Term, spread: Term, eta: Term, notes: Notes = ()) -> Guarantee:
    """Streams. spread: the sum of the rows' squared distances to their synopses."""
    promise = (
        f"{MEAN} (2 + ln k) ((8 + 4 eta) opt + 2 spread), opt being the lowest cost of any {k} "
        "centres, and spread the rows' squared distances to their synopses."
    )
    parts: Parts = {"opt": (_stretched(8, eta), opt), "spread": (2.0, spread)}
    return _theorem(5, k, promise, parts, notes, eta=eta)


def theorem_6(k: int, *, opt: Term, varsigma: Term, notes: Notes = ()) -> Guarantee:
    """On-line. 0 < varsigma <= 1: the larger, the more alike batches and clusters are."""
    promise = (
        f"{MEAN} (2 + ln k) (4 + 32 / varsigma^2) opt, opt being the lowest cost of any {k} "
        "centres; the more alike the batches, the larger varsigma is (at most 1)."
    )
    factor = None if varsigma is None else 4 + 32 / varsigma**2
    return _theorem(6, k, promise, {"opt": (factor, opt)}, notes, varsigma=varsigma)


def local_optimum(
    cost: float, k: int, *, slack: float = 0.0, assumes: str | None = None,
    certificate: object = None,
) -> Guarantee:  # fmt: skip
    """k-median where no swap of one medoid helps: the cost is at most 5 opt + slack.

    If every triangle keeps the inequality but for an error t, and the weights add up to W, the
    proof gives slack = 4 W t: it swaps every medoid out at most twice, and each time a point's new
    distance is bounded by two triangles.
    """
    least = max(0.0, cost - slack) / 5
    allowance = " minus an allowance for inexact distances" if slack > 0 else ""
    fifth = f"So no choice of {k} medoids costs less than {least:.6g}, a fifth of it{allowance}."
    advice = "certify=True computes how close"
    if certificate is not None:
        advice = f"how close, certificate_ says: {certificate}"
    what = "The cost is inertia_, the sum of distances of the points to their nearest medoids."
    note = (
        "This is a worst case: it holds for all distances. The lowest possible cost can be "
        f"anywhere between a fifth of this cost and this cost; {advice}."
    )
    return Guarantee(
        theorem="The locality gap of single swaps",
        source="Arya, Garg, Khandekar, Meyerson, Munagala, Pandit: SIAM J. Comput. 33 (2004)",
        promise=f"No swap of a medoid for another point lowers the cost, {cost:.6g}. {fifth}",
        factor=5.0 if slack == 0 else None,
        lower_bound=least,
        assumes=assumes,
        notes=(what, note),
    )


# Why a fit carries no theorem. Tables of choices hold the reasons that belong to their entries.
LOST = {
    "summary": (
        "the first centres were drawn from weighted points that stand for the rows, not from all "
        "rows."
    ),
    "size limits": (
        "the theorem compares the cost with that of the best centres without size limits, and "
        "limits can raise it."
    ),
    "array": "nothing is known about centres that were given.",
    "callable": "nothing is known about centres that a function made.",
    "not a local optimum": (
        "the search compared some candidates only, so a swap that helps may be left; "
        "certify=True computes a bound all the same."
    ),
    "not a metric": (
        "the bound is about distances that obey the triangle inequality, and these do not; "
        "certify=True computes a bound all the same."
    ),
    "density": (
        "Theorems 5 and 6, about synopses and mini-batches, are about centres that are the picked "
        "points themselves (density Dirac)."
    ),
    "not all drawn": (
        "Theorem 6 is about all n_clusters centres, and a batch is needed for each; the stream had "
        "fewer so far."
    ),
    "moved": (
        "Theorem 6 is about centres that are rows of the stream, and these moved to the means of "
        "the rows assigned to them, which may cost more; update=False leaves them in place."
    ),
    "synopses": (
        "Theorem 5 is about rows that are measured at their nearest synopsis; some row's is not."
    ),
}
