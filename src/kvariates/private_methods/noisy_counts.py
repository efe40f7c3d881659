"""Noisy numbers of the rows of each centre, and whether noise alone could give them.

Counts, thresholds and deviations are releases or public. So what is said about them is
post-processing: it costs nothing, and tells no more than the releases do.

| counts | noise alone gives about |
|---|---|
| with noise of a deviation s | -s to s |
| of m cells that passed a threshold t, with such noise | m t, and less than sqrt(m) s more |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import Rows

F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

ONLY_NOISE = "may be only noise"
SEEN = 1.5  # deviations of noise; a count above them is said to be more than noise


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy numbers of the rows of each centre, at least 0; `doubtful`: noise alone could be it."""

    values: F64
    doubtful: Mask

    @classmethod
    def of(cls, counts: F64, deviation: float) -> NoisyCounts:
        """Counts with noise of this deviation."""
        return cls(np.maximum(counts, 0.0), counts < SEEN * deviation)

    def warning(self, *, pure: bool) -> str | None:
        """What to say about doubtful centres, and what helps; None if there are none."""
        many = int(self.doubtful.sum())
        if not many:
            return None
        counts = "its noisy count is" if many == 1 else "their noisy counts are"
        return (
            f"{many} of {len(self.values)} centres {ONLY_NOISE}: {counts} too small to tell from "
            f"zero. Use more rows, a larger epsilon, {'a delta, ' * pure}fewer clusters or tighter "
            "bounds."
        )


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
            self.doubtful(nearest, len(centers), SEEN),
        )

    def nearest(self, centers: F64) -> NDArray[np.int32]:
        """The centre of every cell."""
        if not len(self.points):
            return np.empty(0, dtype=np.int32)
        return Rows.of(np.ascontiguousarray(self.points)).nearest(centers)

    def doubtful(self, nearest: NDArray[np.int32], k: int, deviations: float) -> Mask:
        """The centres whose cells are not so many deviations above the threshold, all in all."""
        above = np.bincount(nearest, self.weights - self.threshold, minlength=k)
        noise = self.deviation * np.sqrt(np.maximum(np.bincount(nearest, minlength=k), 1))
        return np.asarray(above < deviations * noise)

    def take(self, which: Mask) -> PassedCells:
        """Some of the cells."""
        return PassedCells(self.points[which], self.weights[which], self.threshold, self.deviation)
