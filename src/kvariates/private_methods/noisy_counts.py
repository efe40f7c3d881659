"""Noisy numbers of the rows of each centre, and whether noise alone could give them.

Counts, thresholds and deviations are releases or public. So what is said about them is
post-processing: it costs nothing, and tells no more than the releases do.

A count is doubtful unless noise alone gives such a count, or a larger one, with a probability of at
most `CHANCE` / k. So if no centre has a row, all k are doubtful in at least 98 of 100 fits.

| counts | what noise alone gives, and its law |
|---|---|
| with noise of a deviation s | the noise; Laplace tails, which are wider than Gaussian ones here |
| of m cells whose counts are t at least, with such noise | m t and more; at most a gamma law of m |

Noise is whole numbers: a Laplace count is t at least with probability p^t / (1 + p), where
p = exp(-1 / scale), for whole t. For large scales this is half of p^t, for small ones all of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, gammaincc

from kvariates.data.rows import Rows

F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

ONLY_NOISE = "may be only noise"
MISREAD = (
    "Perhaps the data were not read as you think ({0} that cannot be read give no message): try a "
    "fit that is not private, in the command without --epsilon, on {0} that you may look at."
)
CHANCE = 0.02  # that noise alone makes any of k centres without rows look as if it had some


class Kind(NamedTuple):
    """What is counted, in words, and what helps besides more of it."""

    centers: str
    data: str
    helps: str


OF_ROWS = Kind("centres", "rows", "fewer clusters or tighter bounds")
OF_DEMAND = Kind("medoids", "entries of the demand", "or fewer clusters")


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy numbers of the rows of each centre, at least 0; `doubtful`: noise alone could be it."""

    values: F64
    doubtful: Mask

    @classmethod
    def of(cls, counts: F64, deviation: float | F64) -> NoisyCounts:
        """Counts with noise of this deviation; or of these, one for each count."""
        scale = np.asarray(deviation) / math.sqrt(2)  # of Laplace noise
        least = scale * np.log(len(counts) / (CHANCE * (1 + np.exp(-1 / scale))))
        return cls(np.maximum(counts, 0.0), np.asarray(counts < least))

    @classmethod
    def of_steps(cls, counts: Sequence[F64], variances: Sequence[float]) -> NoisyCounts:
        """The means of the counts of several steps, with noise of these variances."""
        deviation = math.sqrt(sum(variances)) / len(counts)
        return cls.of(np.mean(counts, axis=0, dtype=np.float64), deviation)

    def notes(self, *, pure: bool, kind: Kind = OF_ROWS) -> tuple[str, ...]:
        """What to say about doubtful centres, and what to try; empty if there are none."""
        many, k = int(self.doubtful.sum()), len(self.values)
        if not many:
            return ()
        counts = "its noisy count is" if many == 1 else "their noisy counts are"
        words = f"{many} of {k} {kind.centers} {ONLY_NOISE}: {counts} too small to tell from zero."
        hint = f"{MISREAD.format(kind.data)} Otherwise use" if 2 * many >= k else "Use"
        helps = f"a larger epsilon, {'a delta, ' * pure}{kind.helps}"
        return (f"{words} {hint} more {kind.data}, {helps}.",)


@dataclass(frozen=True, eq=False)
class PassedCells:
    """Points of cells whose noisy counts, the weights, passed a threshold."""

    points: F64
    weights: F64
    threshold: float
    deviation: float  # of the noise of a count

    def counts(self, centers: F64) -> NoisyCounts:
        """The weights of the cells that are nearest to each centre."""
        nearest = self.nearest(centers)
        return NoisyCounts(
            np.bincount(nearest, self.weights, minlength=len(centers)).astype(np.float64),
            self._chances(nearest, len(centers)) > CHANCE / len(centers),
        )

    def nearest(self, centers: F64) -> NDArray[np.int32]:
        """The centre of every cell."""
        if not len(self.points):
            return np.empty(0, dtype=np.int32)
        return Rows.of(np.ascontiguousarray(self.points)).nearest(centers)

    def _chances(self, nearest: NDArray[np.int32], k: int) -> F64:
        """How likely as many cells without rows are so far above the threshold, at most.

        What noise has above the least count that passes is geometric for Laplace noise, which is
        less than exponential, and less again for Gaussian noise, whose tail falls faster.
        """
        least = math.floor(self.threshold) + 1  # the least whole number that passes
        above = np.bincount(nearest, self.weights - least, minlength=k)
        cells = np.maximum(np.bincount(nearest, minlength=k), 1)
        far = self.threshold / (math.sqrt(2) * self.deviation)
        gaussian = math.sqrt(math.pi / 2) * float(erfcx(far))  # 1 / hazard rate, in deviations
        mean = self.deviation * max(math.sqrt(0.5), gaussian)
        return np.asarray(gammaincc(cells, np.maximum(above, 0.0) / mean))

    def faint(self, nearest: NDArray[np.int32], k: int, deviations: float) -> Mask:
        """The centres whose cells are not so many deviations above the threshold, all in all."""
        above = np.bincount(nearest, self.weights - self.threshold, minlength=k)
        noise = self.deviation * np.sqrt(np.maximum(np.bincount(nearest, minlength=k), 1))
        return np.asarray(above < deviations * noise)

    def take(self, which: Mask) -> PassedCells:
        """Some of the cells."""
        return PassedCells(self.points[which], self.weights[which], self.threshold, self.deviation)
