"""Centres among all features, from labels that were found elsewhere (Balcan et al. 2017).

| recovery | what is released of every cluster |
|---|---|
| `dense` (Algorithm 4) | its number of rows, the sums of all features |
| `threshold` | the same; sums that noise alone could reach become 0 |
| `picks` (Algorithm 5) | its number of rows, its largest features one by one, their sums |

One row moves sums by its radius in l2, and in l1 by sqrt(d) times as much, or by sqrt(s) times if
rows have at most s values that are not 0. Clusters are disjoint: what is released of all of them
costs as much as of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.data.lattice_rows import (
    Lattice,
    LatticeSums,
    largest_values,
    lattice_sums,
    sparse_sums,
)
from kvariates.data.rows import F64, Labels
from kvariates.numerics.draws import I64
from kvariates.privacy.budget import Cost
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import shrink
from kvariates.privacy.query import Scores
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain
from kvariates.private_methods.noisy_centers import (
    CenterErrors,
    Mask,
    NoisyStep,
    is_clear,
    passed_by_noise,
)
from kvariates.private_methods.noisy_lloyd import count_share
from kvariates.private_methods.task import PrivateTask

COUNTED = "rows of each cluster"
FALSE_VALUES = 1.0  # expected number of a cluster's sums that pass by noise alone
PICK_SHARE, VALUE_SHARE = 0.5, 0.5  # of what is left after the counts


@dataclass(frozen=True, eq=False, kw_only=True)
class Clusters(NoisyStep):
    """Noisy numbers of rows and sums of features of every cluster.

    clear : whether a count is more than noise.
    reach : sums that are not above it are left out, since noise alone could reach it; 0 for all.
    released : (k, d): which sums were released; the others are 0.
    """

    clear: Mask
    reach: float
    released: Mask

    def errors(self, centers: F64, domain: Domain) -> CenterErrors:
        found = CenterErrors.of_steps(centers, [self], 2 * domain.half)
        return found.without(~self.released)

    def means(self) -> F64:
        """Noisy means (Algorithm 4)."""
        return np.asarray(_above(self.sums, self.reach) / np.maximum(self.counts, 1.0)[:, None])

    def shrunken_means(self, guess: Callable[[F64], F64]) -> F64:
        """The mean of all rows, and from there as far as noise is not likely to explain.

        A cluster whose count may be noise gets its point of `guess`, a function of that mean.
        """
        by, k = np.maximum(self.counts, 1.0)[:, None], len(self.sums)
        n = max(float(self.counts.sum()), 1.0)
        whole = _above(self.sums.sum(axis=0, keepdims=True), self.reach * math.sqrt(k))
        middle = self._shrunken(whole, k) / n
        moved = middle + self._shrunken(_above(self.sums - by * middle, self.reach), 1) / by
        return np.where(self.clear[:, None], moved, guess(middle[0]))

    def _shrunken(self, sums: F64, clusters: int) -> F64:
        """Sums of so many clusters, shrunken by the noise of those that were not left out."""
        noisy = (sums != 0).sum(axis=1, keepdims=True)
        return shrink(sums, clusters * self.summed.variance * noisy)


def _above(sums: F64, reach: float) -> F64:
    return np.where(np.abs(sums) > reach, sums, 0.0)


@dataclass(frozen=True)
class Recovery:
    """How clusters are released. Public numbers.

    kind : "dense", "threshold" or "picks".
    nonzeros : the largest number of values of a row that are not 0; None: all may be.
    largest : the largest absolute value of a row, a multiple of the domain's lattice step. Of dense
        rows it is the radius of the domain, which they keep anyway.
    picks : features of every cluster that are picked.
    """

    kind: str
    nonzeros: int | None
    largest: float
    picks: int

    def __call__(self, task: PrivateTask, labels: Secret[Labels], cost: Cost) -> Clusters:
        """Release the clusters of these labels, 0 .. k - 1."""
        # The rows of another recovery are the same: its parallel groups have other names.
        name = f"recovery {1 + sum(COUNTED in charge.label for charge in task.charges)}"
        lattice = self._lattice(task)
        exact = task.rows.with_(labels).map(partial(_sums, task.k, lattice))
        features = self.picks if self.kind == "picks" else task.domain.d
        share = count_share(features, pure=cost.pure)
        counting, rest = cost.split([share, 1.0])
        counted, totals = exact.map(lambda of: of.counts), exact.map(lambda of: of.totals)
        counts = task.counts(counted, f"{name}: {COUNTED}", counting)
        if self.kind == "picks":
            sums, released, charge = self._picked(task, totals, rest, name)
        else:
            noisy = task.sums(totals, lattice, f"{name}: sums of rows", rest)
            sums, released, charge = noisy.value, np.ones(noisy.value.shape, bool), noisy.charge
        reach = _reach(charge, task.domain.d) if self.kind == "threshold" else 0.0
        return Clusters(
            sums, counts.value.astype(np.float64), charge, counts.charge,
            clear=is_clear(counts.value, counts.charge.scale), reach=reach, released=released,
        )  # fmt: skip

    def few_values(self, rows: Any) -> Any:
        """Sparse rows with `nonzeros` values at most, none above `largest`, each row by itself."""
        if self.nonzeros is None:
            return rows
        few = largest_values(rows, self.nonzeros).copy()
        few.data = np.clip(few.data, -self.largest, self.largest)
        return few

    def _lattice(self, task: PrivateTask) -> Lattice:
        """The lattice of the sums: the narrowest one, or that of rows with few values."""
        if self.kind == "dense" and self.nonzeros is None:
            return task.narrowest_lattice
        return Lattice(task.domain.radius, task.domain.d, "l2", nonzeros=self.nonzeros)

    def _picked(
        self, task: PrivateTask, totals: Secret[F64], cost: Cost, name: str
    ) -> tuple[F64, NDArray[np.bool_], Charge]:
        """Algorithm 5: features by the exponential mechanism, each cluster in turn, then sums."""
        k, d = task.k, task.domain.d
        picks = min(self.picks, d)
        choosing, valuing = cost.split([PICK_SHARE, VALUE_SHARE])
        left = np.ones((k, d), dtype=bool)
        picked = np.empty((k, picks), dtype=np.int64)
        scores = Scores(self.largest, monotone=False)  # one more row moves each by this at most
        for number, part in enumerate(choosing.split([1.0] * picks)):
            group = f"{name}: clusters, feature {number + 1}"
            for j in range(k):
                others = np.flatnonzero(left[j])
                sizes = totals.map(partial(_sizes, j, others))
                chosen = task.choose(sizes, scores, group, part, parallel=group)
                picked[j, number] = others[chosen]
                left[j, picked[j, number]] = False
        lattice = Lattice(task.domain.radius, picks, "l2", nonzeros=self.nonzeros)
        valued, label = totals.map(lambda of: np.take_along_axis(of, picked, 1)), "sums of features"
        noisy = task.sums(valued, lattice, f"{name}: {label}", valuing)
        sums = np.zeros((k, d))
        np.put_along_axis(sums, picked, noisy.value, 1)
        return sums, ~left, noisy.charge


def _sizes(cluster: int, features: I64, totals: F64) -> F64:
    return np.asarray(np.abs(totals[cluster, features]))


def _sums(k: int, lattice: Lattice, data: tuple[Any, Labels]) -> LatticeSums:
    rows, labels = data
    if sparse.issparse(rows):
        return sparse_sums(rows, labels, k)
    return lattice_sums(rows, labels, k, lattice)


def _reach(charge: Charge, numbers: int) -> float:
    """What noise alone exceeds in about one of so many numbers."""
    share = min(0.5, FALSE_VALUES / numbers) / 2  # on either side
    return passed_by_noise(share, laplace=charge.mechanism == "laplace") * charge.scale
