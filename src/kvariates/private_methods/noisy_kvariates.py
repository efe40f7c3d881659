"""Private k-variates++: the sampler with another probe and another density.

    probe:    every row, by its squared distance to the nearest centre, floored; drawn exactly
    density:  Laplace noise around the drawn row, on the domain's grid

A method is a bound on the share that one row may have in a draw (`privacy.mixture`):

| method | share of a row | noise at epsilon = 1, k = 5, m = 169,308 |
|---|---|---|
| `WithLaplace` | 1: nothing is said about the draw | 10 R |
| `Floored` | (1 + a) / (1 + a + (m - 1) a), for weights in [a, 1 + a] | 0.24 R |
| `Conditional` | by a spread of the data that the caller asserts | by that |

All three are pure: with delta > 0 they spend epsilon, and no delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64
from kvariates.privacy import mechanisms
from kvariates.privacy.exact_draws import draw, subset
from kvariates.privacy.ledger import split
from kvariates.privacy.mixture import NoisyRows, Share, noisy_rows
from kvariates.private_methods.task import Accountant, Domain, PrivateResult, PrivateTask
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.sampler import sample

UNIT = 2**30  # the weight of a squared distance as large as the domain; 2^31 rows add up to < 2^62
COUNTING = 0.05  # of epsilon, where the number of rows is secret
MOST_ROWS = 2**31 - 1
ROUNDING = Fraction(2**20 + 1, 2**20)  # floats put a distance too low by far less


@dataclass(frozen=True, eq=False)
class FlooredProbe:
    """Every row, by its squared distance and a floor: integers in [floor, floor + UNIT]."""

    domain: Domain
    floor: int

    def potential(self, space: Rows, weight: F64 | None, k: int) -> EuclideanPotential:
        return _FlooredPotential(space, weight, k, self)


class _FlooredPotential(EuclideanPotential):
    """Draws from the system's random bits; centres are pulled into the domain as they come."""

    def __init__(self, space: Rows, weight: F64 | None, k: int, probe: FlooredProbe) -> None:
        super().__init__(space, weight, k)
        self.probe = probe

    def add(self, centers: F64) -> None:
        super().add(self.probe.domain.inside(centers))

    def draw(self, rng: np.random.Generator) -> int:
        """A row by its weight, exactly; `rng` decides nothing."""
        return draw(self.weights())

    def weights(self) -> NDArray[np.int64]:
        """A row's depends on that row and the centres alone: nothing is added up in floats."""
        if not len(self.centers):
            each = np.ones(self.points.n, dtype=np.int64)
        else:
            part = np.minimum(self.costs / _squared_diameter(self.probe.domain), 1.0)
            each = np.ceil(part * UNIT).astype(np.int64) + self.probe.floor
        return each if self.weight is None else each * self.weight.astype(np.int64)


@dataclass(frozen=True, eq=False)
class GridLaplace:
    """`Laplace` with OpenDP's noise, on the domain's grid, instead of a generator's."""

    noisy: NoisyRows

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: np.random.Generator) -> F64:
        return self.noisy(rows.take(picked))


@dataclass(frozen=True)
class Floored:
    """Floored k-variates++: no row's odds are above (1 + alpha) / alpha times another's.

    Indices are drawn with weight min(D, D_max) + alpha D_max, D_max the domain's squared diameter.
    The proof is for replace-one and a public number of rows. Under add-remove a noisy number M is
    released first, and the data are made M rows: rows at the domain's centre are added, or rows
    chosen at random are left out. One row more or less is then one row replaced.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise ValueError(f"Floored: alpha must be in (0, 1]; got {self.alpha!r}.")

    def __call__(self, task: PrivateTask) -> PrivateResult:
        accountant = Accountant()
        rows, weight, epsilon = task.rows, None, task.loss.epsilon
        if task.adjacency == "add-remove":
            counting, epsilon = split(epsilon, [COUNTING, 1 - COUNTING])
            m = accountant.record(
                mechanisms.scalar(
                    len(rows), epsilon=counting, adjacency="add-remove", label="number of rows"
                )
            )
            rows, weight = of_size(rows, min(max(m, 1), MOST_ROWS))
        m = len(rows) if weight is None else int(weight.sum())
        noisy = _noise(task, self.shares(m, task.k), epsilon)
        accountant.charges.append(noisy.charge(f"{task.k} centres", "floored k-variates++"))
        centers = _centers(task, rows, weight, noisy, self._floor)
        return PrivateResult(centers, tuple(accountant.charges))

    def shares(self, m: int, k: int) -> tuple[Share, ...]:
        """The first row is drawn evenly, the others by distance."""
        most = self._floor + UNIT
        others = (max(m, 1) - 1) * self._floor
        return _shares(Fraction(1, max(m, 1)), Fraction(most, most + others), k)

    @property
    def _floor(self) -> int:
        return math.ceil(Fraction(self.alpha) * UNIT)


@dataclass(frozen=True)
class WithLaplace:
    """k-variates++ with Laplace noise of scale 2kR / epsilon (Nock et al., Theorem 12, sigma_2).

    Right for any two data sets, and so noisy that centres are mostly noise.
    """

    def __call__(self, task: PrivateTask) -> PrivateResult:
        noisy = _noise(task, (Share(Fraction(1), task.k),), task.loss.epsilon)
        charge = noisy.charge(f"{task.k} centres", "k-variates++ with Laplace noise")
        return PrivateResult(_centers(task, task.rows, None, noisy, 0), (charge,))


@dataclass(frozen=True)
class Conditional:
    """k-variates++ with noise for data that the caller knows to be spread (Theorem 12, sigma_1).

    delta_w : float
        Asserted, not checked: whichever row is left out and whichever k - 1 rows (at least one) are
        made centres, the squared distances of the others to them add up to the domain's squared
        diameter / delta_w at least (Definition 7). Indices are meant as they are in the domain,
        clipped and on its grid. Must not be estimated from the data.

    For data that are not so spread there is no promise at all: `condition` says so.
    """

    delta_w: float | None = None

    def check(self) -> None:
        """ValueError if nothing was asserted; asked before a budget is spent."""
        self._asserted()

    def __call__(self, task: PrivateTask) -> PrivateResult:
        delta_w = self._asserted()
        noisy = _noise(task, self.shares(task.k), task.loss.epsilon)
        claim = f"delta_w = {delta_w:g} asserted"
        charge = noisy.charge(f"{task.k} centres (conditional: {claim})", "k-variates++")
        centers = _centers(task, task.rows, None, noisy, 0)
        return PrivateResult(centers, (charge,), f"conditional: {claim}, not checked")

    def shares(self, k: int) -> tuple[Share, ...]:
        """There are 1 / delta_w rows; and some rows cost no more than twice what centres do."""
        first, later = Fraction(self._asserted()), 2 * Fraction(self._asserted()) * ROUNDING
        return _shares(first / (1 + first), later / (1 + later), k)

    def _asserted(self) -> float:
        if self.delta_w is None or not 0 < self.delta_w < math.inf:
            raise ValueError(
                f"Conditional: delta_w must be a number > 0; got {self.delta_w!r}. It is a spread "
                "of the data that you know without looking at them: method=Conditional(delta_w=...)"
                ". If you do not know it, use method='kvariates'."
            )
        return float(self.delta_w)


def of_size(rows: F64, m: int) -> tuple[F64, F64 | None]:
    """The rows and their weights, made m: by one row at the centre for all that lack, or fewer."""
    if len(rows) >= m:
        return (rows if len(rows) == m else rows[subset(len(rows), m)]), None
    weight = np.ones(len(rows) + 1)
    weight[-1] = m - len(rows)
    return np.concatenate([rows, np.zeros((1, rows.shape[1]))]), weight


def _shares(first: Fraction, later: Fraction, k: int) -> tuple[Share, ...]:
    return Share(first, 1), Share(later, k - 1)


def _noise(task: PrivateTask, shares: tuple[Share, ...], epsilon: float) -> NoisyRows:
    """Noise that hides how far apart two rows of the domain can be."""
    grid = task.domain.grid
    widest = grid.l1("add-remove")
    if not task.domain.ball:
        sides = (math.floor(Fraction(side) / Fraction(grid.step)) for side in task.domain.half)
        widest = min(widest, sum(sides))
    return noisy_rows(grid, 2 * widest, shares, epsilon)


def _squared_diameter(domain: Domain) -> float:
    return 4 * domain.radius**2


def _centers(task: PrivateTask, rows: F64, weight: F64 | None, noisy: NoisyRows, floor: int) -> F64:
    if not len(rows):
        rows = np.zeros((1, task.domain.d))  # the domain's centre stands for nobody
    potential = FlooredProbe(task.domain, floor).potential(Rows.of(rows), weight, task.k)
    unused = np.random.default_rng()  # all that is random here comes from `privacy`
    return sample(potential, GridLaplace(noisy), task.k, unused).centers
