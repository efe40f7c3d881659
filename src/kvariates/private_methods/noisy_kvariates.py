"""Centres that are drawn rows with noise: private k-variates++, and Forgy-DP.

    potential:  rows are drawn exactly, by squared distance to the nearest centre plus a floor
    density:    Laplace noise around the drawn row, on the lattice of the domain

The methods differ in the bound on the probability of one row in a draw (`mechanisms.noisy_rows`):

| method | probability of a row | noise at epsilon = 1, k = 5, m = 169,308 |
|---|---|---|
| `WithLaplace` | 1: nothing is assumed | 10 R |
| `Floored` | (1 + a) / (1 + a + (m - 1) a), for weights in [a, 1 + a] | 0.24 R |
| `Conditional` | follows from a spread of the data that the caller asserts | depends on it |

All three are pure: with delta > 0 they spend epsilon, and no delta. `NoisyForgy` (Nock et al. 2016,
section 5) picks k rows uniformly. A pick may change from any row to any other, so each of the k
releases has the diameter of the domain as its sensitivity; that rows are picked at random is not
used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kvariates.data.lattice_rows import quantize
from kvariates.data.row_costs import RowCosts
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import NoisyRows, Share, noisy_rows
from kvariates.privacy.noise_source import draw, subset
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain
from kvariates.private_methods.noisy_centers import DRAWN_ROW, CenterErrors
from kvariates.private_methods.task import PrivateMethod, PrivateResult, PrivateTask, Traits
from kvariates.seeding.sampler import EuclideanPotential, sample
from kvariates.seeding.seedings import forgy

UNIT = 2**30  # the weight of the domain's squared diameter; 2^31 rows add up to less than 2^62
COUNT_SHARE = 0.05  # of epsilon, if the number of rows is secret
MOST_ROWS = 2**31 - 1
ROUNDING = Fraction(2**20 + 1, 2**20)  # more than the relative rounding error of a distance


class FlooredPotential(EuclideanPotential):
    """Draws rows by squared distance plus a floor: integers in [floor, floor + UNIT].

    Draws use random bits of the operating system, and distances are those to clipped centres.
    """

    def __init__(self, rows: Rows, weight: F64 | None, k: int, domain: Domain, floor: int) -> None:
        self._rows_costs = RowCosts(rows, weight)
        super().__init__(rows, weight, k, costs=self._rows_costs)
        self.domain, self.floor = domain, floor

    def add(self, centers: F64) -> None:
        super().add(self.domain.clip(centers))

    def draw(self, rng: np.random.Generator) -> int:
        """A row, exactly in proportion to its weight; `rng` is not used."""
        return draw(self.weights())

    def weights(self) -> I64:
        """The weight of each row; it depends only on that row and the centres."""
        if not len(self.centers):
            each = np.ones(self.points.n, dtype=np.int64)
        else:
            self.flush()
            part = np.minimum(self._rows_costs.cost / (4 * self.domain.radius**2), 1.0)
            each = np.ceil(part * UNIT).astype(np.int64) + self.floor
        return each if self.weight is None else each * self.weight.astype(np.int64)


@dataclass(frozen=True, eq=False)
class LatticeLaplace:
    """`Laplace` with noise from OpenDP instead of a generator, on the lattice of the domain."""

    noisy: NoisyRows

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: np.random.Generator) -> F64:
        return self.noisy(rows.take(picked))


# proof: floored.md
@dataclass(frozen=True)
class Floored(PrivateMethod[PrivateTask]):
    """Floored k-variates++: no row is more than (1 + alpha) / alpha times as likely as another.

    Rows are drawn with weight min(D, D_max) + alpha D_max, D_max the squared diameter of the
    domain. The proof is for replace-one and a public number of rows. Under add-remove a noisy
    number M is released first, and the data are made M rows: rows at the centre of the domain are
    added, or random rows are left out. One row more or less is then one row replaced.
    """

    traits = Traits(pure=True)

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise ValueError(f"Floored: alpha must be in (0, 1]; got {self.alpha!r}.")

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task = task.without_charges()
        cost, m, name = _pure_cost(task), task.public_n, "floored k-variates++"
        if m is None:
            counting, cost = cost.split([COUNT_SHARE, 1 - COUNT_SHARE])
            m = min(max(task.number_of_rows(counting), 1), MOST_ROWS)
        rows = task.rows.map(lambda X: resize(X, m))
        return _drawn(task, rows, self.shares(m, task.k), cost, name, floor=self._floor)

    def shares(self, m: int, k: int) -> tuple[Share, ...]:
        """The first row is drawn uniformly, the others by distance."""
        most = self._floor + UNIT
        others = (max(m, 1) - 1) * self._floor
        return Share(Fraction(1, max(m, 1)), 1), Share(Fraction(most, most + others), k - 1)

    @property
    def _floor(self) -> int:
        return math.ceil(Fraction(self.alpha) * UNIT)


# proof: kvariates.md
@dataclass(frozen=True)
class WithLaplace(PrivateMethod[PrivateTask]):
    """k-variates++ with Laplace noise of scale 2kR / epsilon (Nock et al., Theorem 12, sigma_2).

    It holds for any two data sets, and its centres are mostly noise.
    """

    traits = Traits(pure=True)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        name, shares = "k-variates++ with Laplace noise", (Share(Fraction(1), task.k),)
        task = task.without_charges()
        return _drawn(task, task.rows.map(Resized), shares, _pure_cost(task), name)


# proof: kvariates.md
@dataclass(frozen=True)
class Conditional(PrivateMethod[PrivateTask]):
    """k-variates++ with noise for data that the caller knows to be spread (Theorem 12, sigma_1).

    delta_w : float
        Asserted, not checked: for every row left out and any at most k - 1 rows (at least one)
        taken as centres, the squared distances of the other rows to them add up to at least the
        domain's squared diameter / delta_w (Definition 7). So there are more than k - 1 rows. Rows
        are clipped to the domain and rounded to its lattice. Must not be estimated from the data.

    If the data are not so spread, nothing is promised: `traits.condition` says so.
    """

    delta_w: float | None = None

    @property
    def traits(self) -> Traits:
        if self.delta_w is None or not 0 < self.delta_w < math.inf:
            missing = (
                f"Conditional: delta_w must be a number > 0; got {self.delta_w!r}. It is a spread "
                "of the data that you know without looking at them: method=Conditional(delta_w=...)"
                ". If you do not know it, use method='kvariates'."
            )
            return Traits(pure=True, missing=missing)
        claim = f"conditional: delta_w = {self.delta_w:g} asserted, not checked"
        return Traits(pure=True, condition=claim)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task, shares, cost = task.without_charges(), self.shares(task.k), _pure_cost(task)
        asserted = f" (conditional: delta_w = {self.delta_w:g} asserted)"
        return _drawn(task, task.rows.map(Resized), shares, cost, "k-variates++", asserted)

    def shares(self, k: int) -> tuple[Share, ...]:
        """At least 1 / delta_w rows; and some of them cost at most twice what any centres do."""
        first = Fraction(self.delta_w or 0.0)  # given: see `traits`
        later = 2 * first * ROUNDING
        return Share(first / (1 + first), 1), Share(later / (1 + later), k - 1)


class Resized(NamedTuple):
    """Rows and their weights."""

    rows: F64
    weight: F64 | None = None


def resize(rows: F64, m: int) -> Resized:
    """M rows and their weights: random rows are left out, or a weighted row at 0 is added."""
    if len(rows) >= m:
        return Resized(rows if len(rows) == m else rows[subset(len(rows), m)])
    weight = np.ones(len(rows) + 1)
    weight[-1] = m - len(rows)
    return Resized(np.concatenate([rows, np.zeros((1, rows.shape[1]))]), weight)


def _pure_cost(task: PrivateTask) -> Cost:
    """The epsilon that may be spent. These methods have no use for a rho."""
    return (
        task.part if task.part is not None and task.part.pure else Cost(epsilon=task.loss.epsilon)
    )


def _drawn(
    task: PrivateTask, rows: Secret[Resized], shares: tuple[Share, ...], cost: Cost, name: str,
    asserted: str = "", floor: int = 0,
) -> PrivateResult:  # fmt: skip
    """Drawn rows with noise for the largest l1 distance of two rows of the domain.

    To move a centre into a box brings each of its numbers nearer to that of the row. One that was
    moved to the border of a ball may be anywhere in it.
    """
    noisy = noisy_rows(task.domain.lattice, task.domain.widest, shares, cost.value)
    charge = noisy.charge(f"{task.k} centres{asserted}", name, task.adjacency)
    domain = task.domain
    centers = task.accountant.publish(rows.map(lambda of: _centers(task, of, noisy, floor)), charge)
    outside = domain.ball & (np.linalg.norm(centers, axis=1) >= domain.radius * (1 - 1e-9))
    released = centers + np.where(outside, np.inf, 0.0)[:, None]
    errors = CenterErrors.of_noise(centers, released, charge, 1.0, 2 * domain.half, DRAWN_ROW)
    return PrivateResult(centers, task.charges, errors=errors)


def _centers(task: PrivateTask, resized: Resized, noisy: NoisyRows, floor: int) -> F64:
    rows, weight = resized
    if not len(rows):
        rows = np.zeros((1, task.domain.d))  # the centre of the domain
    potential = FlooredPotential(Rows.of(rows), weight, task.k, task.domain, floor)
    unused = np.random.default_rng()  # all randomness here comes from `privacy`
    return sample(potential, LatticeLaplace(noisy), task.k, unused).centers


# proof: forgy.md
@dataclass(frozen=True)
class NoisyForgy(PrivateMethod[PrivateTask]):
    """If there are fewer than k rows, rows at the centre of the domain are added."""

    def __call__(self, task: PrivateTask) -> PrivateResult:
        task, lattice, noisy = task.without_charges(), task.narrowest_lattice, []
        rng = np.random.default_rng()
        picked = task.rows.map(lambda rows: quantize(_picked(rows, task.k, rng), lattice))
        for j, cost in enumerate(task.cost.split([1.0] * task.k)):
            row, label = picked.map(itemgetter(j)), f"row {j + 1}"
            # For both adjacencies a pick is replaced by another.
            made = task.sums(row, lattice, label, cost, "replace-one")
            noisy.append(made.value)
        released, most, charges = np.array(noisy), 2 * task.domain.half, task.charges
        centers = task.domain.clip(released)
        errors = CenterErrors.of_noise(centers, released, charges[-1], 1.0, most, DRAWN_ROW)
        return PrivateResult(centers, charges, errors=errors)


def _picked(rows: F64, k: int, rng: np.random.Generator) -> F64:
    missing = np.zeros((max(0, k - len(rows)), rows.shape[1]))
    rows = np.concatenate([rows, missing]) if len(missing) else rows
    return rows[forgy(len(rows), k, None, rng)]
