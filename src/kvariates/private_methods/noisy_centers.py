"""What noise may have done: whether a count is above its noise, and error bars of centres.

Counts, scales of noise, thresholds and deviations are releases or public. So what is said about
them is post-processing: it costs nothing, and tells no more than the releases do.

A count is doubtful unless noise alone gives such a count, or a larger one, with a probability of at
most `CHANCE` / k. So if no centre has a row, all k are doubtful in at least 98 of 100 fits.

| counts | what noise alone gives, and its law |
|---|---|
| with noise of a deviation s | the noise; Laplace tails, which are wider than Gaussian ones here |
| of m cells whose counts are t at least, with such noise | m t and more; at most a gamma law of m |

Noise is whole numbers: a Laplace count is t at least with probability p^t / (1 + p), where
p = exp(-1 / scale), for whole t. For large scales this is half of p^t, for small ones all of it.

An error bar is half the width of an interval around a number of a centre. The interval holds what
the number would be without noise, with a probability of at least `RATE`, each number by itself.

| centre | without noise it would be | error bar |
|---|---|---|
| by noisy sums over noisy counts | the mean of the same rows | `of_steps` |
| a row with noise, or a sum over a public number | the row, or the sum over it | `of_noise` |
| anything else | - | not known |

What is done to a centre after a release (it is shrunken, or moved into the domain) is known, and
added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, gammaincc, ndtri

from kvariates.data.rows import F64, nearest_centers
from kvariates.privacy.ledger import Charge

Mask = NDArray[np.bool_]

ONLY_NOISE = "may be only noise"
MISREAD = (
    "Perhaps the data were not read as you think ({0} that cannot be read give no message): try a "
    "fit that is not private, in the command without --epsilon, on {0} that you may look at."
)
CLEAR = 4.0  # a count is clear above so many scales of its noise; a total, above deviations
CHANCE = 0.02  # that noise alone makes any of k centres without rows look as if it had some


# --- is a count above its noise? -------------------------------------------------------------


def is_clear(counts: NDArray[Any], scale: float) -> Mask:
    """Which counts are more than noise of this scale: only then a centre follows its rows."""
    return np.asarray(counts > max(1.0, CLEAR * scale))


def passed_by_noise(share: float, *, laplace: bool) -> float:
    """What noise alone is above with this probability, at most 1/2; in scales of the noise."""
    return -math.log(2 * share) if laplace else -float(ndtri(share))


def passed_by_few(number: float, many: int, *, laplace: bool) -> float:
    """What noise alone is above in at most so many of `many` cells; `many` may be no float."""
    # P(noise > t) is at most exp(-t / scale) / 2, or exp(-(t / scale)^2 / 2) / 2.
    far = max(0.0, math.log(many) - math.log(2 * number))
    return far if laplace else math.sqrt(2 * far)


def about_total(counts: NDArray[Any], deviation: float, what: str) -> tuple[str, ...]:
    """What to say if all counts together are not above their noise; else nothing."""
    total, noise = float(counts.sum()), deviation * math.sqrt(len(counts))
    if total >= CLEAR * noise:
        return ()
    words = (
        f"The noise of the counts of the {what} is about {noise:.3g} in all, and what was counted "
        f"is {total:.3g}: the answer is close to a public one. Use a larger epsilon or more demand."
    )
    return (words,)


def about_swaps(reach: float, total: float) -> tuple[str, ...]:
    """What to say if the noise of a swap weighs as much as `reach` far rows, all or more."""
    if reach <= max(total, 1.0):
        return ()
    words = (
        f"The noise of a swap weighs as much as {reach:.3g} far points of the demand, which has "
        f"about {max(total, 0.0):.3g}: the swaps were drawn almost at random. Use a larger epsilon "
        "or fewer swaps, or method='cells'."
    )
    return (words,)


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
    def of(cls, counts: NDArray[Any], deviation: float | F64) -> NoisyCounts:
        """Counts with noise of this deviation; or of these, one for each count."""
        scale = np.asarray(deviation) / math.sqrt(2)  # of Laplace noise
        least = scale * np.log(len(counts) / (CHANCE * (1 + np.exp(-1 / scale))))
        return cls(np.maximum(counts, 0.0), np.asarray(counts < least))

    @classmethod
    def of_steps(cls, counts: Sequence[F64], variances: Sequence[float]) -> NoisyCounts:
        """The means of the counts of several steps, with noise of these variances."""
        deviation = math.sqrt(sum(variances)) / len(counts)
        return cls.of(np.asarray(np.mean(counts, axis=0, dtype=np.float64)), deviation)

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
        if not len(self.points):
            return np.empty(0, dtype=np.int32)
        return nearest_centers(self.points, centers)

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


def mean_costs(labels: NDArray[np.int32], costs: F64, weights: F64, k: int, other: float) -> F64:
    """The weighted mean of the costs of each label; `other` without weight."""
    mass, sums = (np.bincount(labels, of, minlength=k) for of in (weights, weights * costs))
    return np.where(mass > 0, sums / np.maximum(mass, 1e-300), other)


# --- error bars ------------------------------------------------------------------------------

RATE = 0.95
_GAUSSIAN = -float(ndtri((1 - RATE) / 2))
MEANS = "the exact mean of the rows that were nearest to the centre in the last steps"
DRAWN_ROW = "the row that was drawn"
SHOWN_CENTERS, SHOWN_FEATURES = 20, 8  # in words


@dataclass(frozen=True, eq=False)
class NoisyStep:
    """Noisy sums (k, d) and counts (k,) of rows, or of residuals from `start` in units `radii`."""

    sums: F64
    counts: F64
    summed: Charge
    counted: Charge
    start: F64 | float = 0.0
    radii: F64 | float = 1.0  # a column

    def sums_around(self, points: F64) -> F64:
        """The sums of the differences of the rows from these points."""
        return self.radii * self.sums + self.counts[:, None] * (self.start - points)

    def variance(self, points: F64) -> F64:
        """Of the noise of the sums around these points."""
        return np.asarray(
            self.radii**2 * self.summed.variance
            + (self.start - points) ** 2 * self.counted.variance
        )


@dataclass(frozen=True, eq=False)
class CenterErrors:
    """Error bars (k, d), NaN where nothing can be said; None if nothing is known of any centre.

    `about`: what a centre would be without noise, or why its error is not known.
    """

    values: F64 | None
    about: str

    @classmethod
    def of_steps(cls, centers: F64, steps: Sequence[NoisyStep], most: F64) -> CenterErrors:
        """Of centres that were made from the noisy sums and counts of these steps.

        Let A be all sums relative to the centre, N all counts, and R = A / N. With the exact ones,
        R - A / N is (noise of A - R noise of N) / exact N: a sum of noise over a number that is
        known up to noise. `most`: how far from each other two points of the domain can be.
        """
        counts = np.sum([step.counts for step in steps], axis=0)[:, None]
        parts = [step.sums_around(centers) for step in steps]
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.sum(parts, axis=0) / counts
            variance = np.sum([step.variance(centers + off) for step in steps], axis=0)
            count_noise = math.sqrt(sum(step.counted.variance for step in steps))
            # Tails of sums of Laplace noise are narrower than those of one.
            wide = noise_width(steps[0].summed) / steps[0].summed.deviation
            least = counts - wide * count_noise
            values = np.minimum(np.abs(off) + wide * np.sqrt(variance) / least, most)
        return cls(np.where(least > 0, values, np.nan), MEANS)

    @classmethod
    def of_noise(
        cls, centers: F64, noisy: F64, charge: Charge, unit: float, most: F64, about: str
    ) -> CenterErrors:
        """Of centres that are released numbers in so many units, moved into the domain."""
        values = unit * noise_width(charge) + np.abs(centers - noisy)
        return cls(np.minimum(values, most), about)

    def without(self, numbers: Mask) -> CenterErrors:
        """The same, with NaN for these numbers: a mask of (k, d), or of (k, 1) for centres."""
        if self.values is None:
            return self
        return CenterErrors(np.where(numbers, np.nan, self.values), self.about)

    def words(self) -> str:
        """What error bars say and do not say; or why there are none."""
        if self.values is None:
            return f"The error of the centres by noise is not known: {self.about}."
        if np.isnan(self.values).all():
            return "No centre has an error bar: all of them may be only noise."
        return (
            f"Error bars are about noise alone: {self.about} is within them with a probability of "
            f"at least {100 * RATE:g} %, each number by itself. They do not cover which rows "
            "happen to be in the data, rows that were clipped, and which rows went to which centre."
        )

    def lines(self) -> tuple[str, ...]:
        """A line for each centre, with the features x0, x1, ...; of the first ones if many."""
        if self.values is None or np.isnan(self.values).all():
            return ()
        k, d = self.values.shape
        more = ", ..." if d > SHOWN_FEATURES else ""
        lines = [
            f"centre {i}: "
            + (", ".join(f"x{j} +- {v:.3g}" for j, v in enumerate(row[:SHOWN_FEATURES])) + more)
            for i, row in enumerate(self.values[:SHOWN_CENTERS])
        ]
        lines += [f"and {k - SHOWN_CENTERS} centres more"] * (k > SHOWN_CENTERS)
        return tuple(line.replace("+- nan", "not known") for line in lines)


UNKNOWN = CenterErrors(None, "the method does not tell the noise of a single centre")


def noise_width(charge: Charge) -> float:
    """The noise of a released number is at most this, with the probability `RATE`."""
    gaussian = charge.mechanism == "gaussian"
    return charge.scale * (_GAUSSIAN if gaussian else -math.log(1 - RATE))
