"""Audits: attack a mechanism and certify a lower bound on its privacy loss.

An audit combines a mechanism, a pair of neighbours and testers, and compares the bound with a
claim. The mechanism runs many times on each of two data sets that differ in one row. Each run is
used once:

| runs | use |
|---|---|
| first quarter | testers learn statistics of the output (`testers.py`) |
| second quarter | an event "statistic at least t" is chosen for each direction |
| second half | exact (Clopper-Pearson) bounds of the probabilities of these events |

| claim | an event of probability p on one data set and q on its neighbour shows |
|---|---|
| (epsilon, delta) | epsilon >= log((p - delta) / q) |
| rho-zCDP | rho >= D_a(p, q) / a for every order a > 1, D_a Renyi's divergence of two coins |

The last holds by data processing: whether the event happened is a function of the output.

Two events with two bounds each share the error 1 - confidence. If the mechanism keeps its claim and
its runs are independent, the certified bound exceeds the claim with probability at most
1 - confidence, whatever the testers do. An audit that finds nothing proves nothing; `most` is what
it could have found.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kvariates.numerics.draws import F64
from kvariates.privacy.testers import TESTERS, Outputs, Statistic, Tester, gather, ordered

ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 8), np.geomspace(2.5, 256, 12)])


@dataclass(frozen=True)
class Approximate:
    """(epsilon, delta); pure where delta is 0."""

    name: ClassVar = "epsilon"
    epsilon: float
    delta: float = 0.0

    @property
    def value(self) -> float:
        return self.epsilon

    def least(self, p: F64, q: F64) -> F64:
        """The smallest value of a mechanism with probabilities at least p and at most q."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(p - self.delta, 0.0)) - np.log(q)).clip(min=0.0)

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else "")


@dataclass(frozen=True)
class Concentrated:
    """rho-zCDP (Bun and Steinke 2016)."""

    name: ClassVar = "rho"
    rho: float

    @property
    def value(self) -> float:
        return self.rho

    def least(self, p: F64, q: F64) -> F64:
        # Renyi's divergence of the coins grows as p grows and q shrinks, while p > q.
        larger = np.asarray(p > q)
        p, q, order = p[..., None], q[..., None], ORDERS
        with np.errstate(divide="ignore", invalid="ignore"):
            heads = order * np.log(p) + (1 - order) * np.log(q)
            tails = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
            rho = np.logaddexp(heads, tails) / ((order - 1) * order)
        return np.where(larger, np.nanmax(np.where(np.isnan(rho), 0.0, rho), axis=-1), 0.0)

    def __str__(self) -> str:
        return f"rho = {self.rho:g}"


Claim = Approximate | Concentrated


# --- bounds of probabilities, from counts ----------------------------------------------------


def low(k: int, n: int, error: float) -> float:
    """Clopper and Pearson's lower bound of the probability of an event seen k times of n."""
    return 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, error))


def high(k: int, n: int, error: float) -> float:
    """Clopper and Pearson's upper bound."""
    return 1.0 if k == n else float(special.betainccinv(k + 1, n - k, error))


def about(k: NDArray[Any], n: float, error: float) -> tuple[F64, F64]:
    """Both bounds, approximately. They only serve to choose an event."""
    with_event, without = _poisson(k, error), _poisson(n - k, error)
    lower = np.maximum(with_event[0], n - without[1]).clip(0.0, n) / n
    upper = np.minimum(with_event[1], n - without[0]).clip(0.0, n) / n
    return lower, upper


def _poisson(k: NDArray[Any], error: float) -> tuple[F64, F64]:
    """Bounds of the mean of a count, by Wilson and Hilferty's approximation."""
    z, some, more = -special.ndtri(error), np.maximum(k, 1e-9), k + 1
    lower = some * (1 - 1 / (9 * some) - z / (3 * np.sqrt(some))).clip(min=0.0) ** 3
    upper = more * (1 - 1 / (9 * more) + z / (3 * np.sqrt(more))) ** 3
    return lower, upper


CONFIDENCE = 1 - 1e-6
BOUNDS = 4  # from the second half: two events, each with a lower and an upper bound
THRESHOLDS = 256
# What fits of few rows warn of; data sets that show a single row are small.
EXPECTED = ".*(may be only noise|budget may be too small for|is close to a public one)"

Mechanism = Callable[[Any], Any]
View = Callable[[Any], Any]
Likelier = Literal["first", "second"]
DIRECTIONS: tuple[Likelier, Likelier] = ("first", "second")


@dataclass(frozen=True)
class Event:
    """The event that a statistic of the output is at least `threshold`; or, if `below`, less.

    It is likelier on one data set. `hits` are the runs with it there and on the other data set,
    `low` and `high` a lower bound of its probability there and an upper bound on the other.
    """

    statistic: Statistic
    threshold: float
    below: bool
    likelier: Likelier
    hits: tuple[int, int] = (0, 0)
    low: float = 0.0
    high: float = 1.0

    def holds(self, outputs: Outputs) -> Any:
        """For which outputs it holds."""
        return (ordered(self.statistic.of(outputs)) >= self.threshold) != self.below

    def __str__(self) -> str:
        side = "<" if self.below else ">="
        return f"{self.statistic.name} {side} {self.threshold:.6g}"


@dataclass(frozen=True)
class Audit:
    """A certified lower bound, and the claim.

    Attributes
    ----------
    lower_bound : float
        The true epsilon (or rho) is at least this, with probability `confidence`.
    claim : Approximate or Concentrated
        The claim.
    event : Event
        The event that gave the bound.
    runs : int
        Runs on each of the two data sets.
    confidence : float
        The confidence of the bound.
    most : float
        The bound that as many runs certify for a mechanism without noise.
    """

    lower_bound: float
    claim: Claim
    event: Event
    runs: int
    confidence: float
    most: float

    @property
    def passed(self) -> bool:
        """Whether no violation was found. This does not prove that there is none."""
        return self.lower_bound <= self.claim.value

    @property
    def finding(self) -> str:
        """What the attack showed, in a sentence."""
        name, bound = self.claim.name, self.lower_bound
        if bound <= 0:
            return "The attack found nothing: this does not prove that the method is private."
        shown = f"The attack showed that {name} is at least {bound:.4g}"
        if not self.passed:
            return f"THE CLAIM IS BROKEN. {shown}, and the claim is {self.claim.value:.4g}."
        return f"{shown}, which the claim allows: this does not prove that the claim holds."

    def __str__(self) -> str:
        name = self.claim.name
        n, event, (here, there) = self.runs - self.runs // 2, self.event, self.event.hits
        lines = [
            f"claim      {self.claim}",
            f"found      {self.finding}",
            f"event      {event}",
            f"seen       {here} times on the {event.likelier} data set (odds >= {event.low:.4g}),",
            f"           {there} times on the other (odds <= {event.high:.4g}), of {n} runs each",
            f"error      at most {1 - self.confidence:.1g}",
            f"power      of a method without noise it would have shown {name} >= {self.most:.4g}",
        ]
        return "\n".join(lines)


def audit(
    mechanism: Mechanism,
    neighbours: Iterable[Any],
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    runs: int = 10_000,
    test: str | Tester | Sequence[str | Tester] = "auto",
    view: View | None = None,
    batch: bool = False,
    confidence: float = CONFIDENCE,
) -> Audit:
    """Attack a mechanism on two neighbouring data sets.

    Parameters
    ----------
    mechanism : callable
        From a data set to an output, with fresh noise at every call. An exception counts as an
        output.
    neighbours : pair of data sets
        Two that differ in one row, in the sense of the claim's adjacency.
    epsilon, delta : float
        The claim; or
    rho : float
        the claim in zero-concentrated privacy. For Gaussian noise this needs far fewer runs.
    runs : int
        Calls on each data set.
    test : "auto", or names of ``TESTERS``, or testers
        The statistics to try; "auto" is all of them.
    view : callable, optional
        From an output to what is compared: a number, an array, text, or lists, tuples and dicts of
        these.
    batch : bool
        The mechanism takes a second argument, how many outputs to return.
    confidence : float
        The confidence of the certified bound.

    Returns
    -------
    Audit
        The bound, whether it breaks the claim, and the event.
    """
    claim = _claim(epsilon, delta, rho)
    error = 1 - confidence
    if not 0 < error < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}.")
    most = _most(claim, runs, error)
    first, second = neighbours
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", EXPECTED, UserWarning)
        both = [_collect(mechanism, data, runs, view, batch) for data in (first, second)]
    if all(isinstance(output, Raised) for outputs in both for output in outputs):
        mechanism(first)  # it always fails: raise its error
    a, b = gather(*both)
    quarter, half = slice(runs // 4), slice(runs // 4, runs // 2)
    statistics = [
        statistic for tester in _testers(test) for statistic in tester(a[quarter], b[quarter])
    ]
    rest = slice(runs // 2, None)
    scale = (runs - runs // 2) / max(runs // 2 - runs // 4, 1)
    chosen = [
        certify(event, a[rest], b[rest], error / BOUNDS)
        for event in choose(statistics, a[half], b[half], claim, error / BOUNDS, scale)
    ]
    bounds = [float(claim.least(np.array(e.low), np.array(e.high))) for e in chosen]
    best = int(np.argmax(bounds))
    return Audit(bounds[best], claim, chosen[best], runs, confidence, most)


def near(points: Any) -> View:
    """A view of centres, or of a model with `cluster_centers_`: the nearest to each of the points.

    For each point it gives the distance to the nearest centre, then the coordinates of this centre;
    so the order of centres does not matter. Without centres it gives infinity.
    """
    points = np.atleast_2d(np.asarray(points, dtype=np.float64))

    def view(output: Any) -> list[Any]:
        centers = np.asarray(getattr(output, "cluster_centers_", output), dtype=np.float64)
        if not len(centers):
            return [np.inf] * len(points)
        distance = np.linalg.norm(points[:, None] - centers, axis=2)
        which = distance.argmin(axis=1)
        return [distance[np.arange(len(points)), which], centers[which]]

    return view


# --- events ----------------------------------------------------------------------------------


def choose(
    statistics: Sequence[Statistic],
    a: Outputs,
    b: Outputs,
    claim: Claim,
    error: float,
    scale: float,
) -> list[Event]:
    """For each direction the event with the largest expected bound from `scale` times the runs."""
    always = Statistic("any output", lambda out: np.zeros(len(out)))
    best: dict[Likelier, Event] = {way: Event(always, 0.0, False, way) for way in DIRECTIONS}
    largest = dict.fromkeys(DIRECTIONS, -1.0)
    for statistic in statistics:
        x, y = (np.sort(ordered(statistic.of(outputs))) for outputs in (a, b))
        cuts = _thresholds(x, y)
        seen = np.stack([len(z) - np.searchsorted(z, cuts) for z in (x, y)])
        for below in (False, True):
            counts = len(x) - seen if below else seen
            p, q = about(scale * counts, scale * len(x), error)
            for way, values in zip(
                DIRECTIONS, (claim.least(p[0], q[1]), claim.least(p[1], q[0])), strict=True
            ):
                i = int(np.argmax(values))
                if values[i] > largest[way]:
                    largest[way] = float(values[i])
                    best[way] = Event(statistic, float(cuts[i]), below, way)
    return list(best.values())


def certify(event: Event, a: Outputs, b: Outputs, error: float) -> Event:
    """The event with exact bounds, each wrong with probability at most `error`."""
    x, y = (a, b) if event.likelier == "first" else (b, a)
    here, there = int(event.holds(x).sum()), int(event.holds(y).sum())
    p, q = low(here, len(x), error), high(there, len(y), error)
    return replace(event, hits=(here, there), low=p, high=q)


def _thresholds(x: F64, y: F64) -> F64:
    """At most about THRESHOLDS of the values, more of them near either end."""
    values = np.unique(np.concatenate([x, y]))
    if len(values) <= THRESHOLDS:
        return values
    ends = np.unique(np.geomspace(1, len(values), THRESHOLDS // 4).astype(np.int64)) - 1
    even = np.linspace(0, len(values) - 1, THRESHOLDS // 2).astype(np.int64)
    chosen = np.unique(np.concatenate([ends, len(values) - 1 - ends, even]))
    return np.asarray(values[chosen])


# --- checks of the input, and runs -----------------------------------------------------------


def _claim(epsilon: float | None, delta: float, rho: float | None) -> Claim:
    if (epsilon is None) == (rho is None):
        raise ValueError("an audit needs the claim: either epsilon (and delta), or rho.")
    value = epsilon if rho is None else rho
    if value is None or not (math.isfinite(value) and value >= 0):
        raise ValueError(f"epsilon or rho must be a finite number >= 0, got {value}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}.")
    return Approximate(value, delta) if rho is None else Concentrated(value)


def _most(claim: Claim, runs: int, error: float) -> float:
    """The bound without noise. ValueError if even that could not break the claim."""

    def at(runs: int) -> float:
        n, each = max(runs - runs // 2, 1), error / BOUNDS
        return float(claim.least(np.array(low(n, n, each)), np.array(high(0, n, each))))

    most = at(runs) if runs >= 4 else 0.0
    if most <= claim.value:
        needed = 8
        while at(needed) <= claim.value and needed < 2**50:
            needed *= 2
        raise ValueError(
            f"{runs} runs cannot show a violation of {claim}, not even without any noise: "
            f"take at least {needed}, and more to find a small one."
        )
    return most


def _testers(test: str | Tester | Sequence[str | Tester]) -> list[Tester]:
    if test == "auto":
        return list(TESTERS.values())
    chosen = [test] if isinstance(test, str) or callable(test) else list(test)
    for name in chosen:
        if isinstance(name, str) and name not in TESTERS:
            raise ValueError(
                f"test must be 'auto', a tester or one of {', '.join(TESTERS)}, got {name!r}."
            )
    return [TESTERS[one] if isinstance(one, str) else one for one in chosen]


@dataclass(frozen=True)
class Raised:
    """An exception, as an output."""

    error: str


def _attempt(mechanism: Mechanism, data: Any, view: View | None) -> Any:
    try:
        output = mechanism(data)
    except Exception as error:  # an attacker sees any error
        return Raised(f"{type(error).__name__}: {error}")
    return output if view is None else view(output)


def _collect(
    mechanism: Callable[..., Any], data: Any, runs: int, view: View | None, batch: bool
) -> list[Any]:
    if not batch:
        return [_attempt(mechanism, data, view) for _ in range(runs)]
    outputs = list(mechanism(data, runs))
    if len(outputs) != runs:
        raise ValueError(f"the mechanism gave {len(outputs)} outputs, not {runs}.")
    return outputs if view is None else [view(output) for output in outputs]
