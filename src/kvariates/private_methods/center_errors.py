"""How far noise may have moved each number of a centre: error bars, from releases alone.

An error bar is half the width of an interval around a number of a centre. The interval holds what
the number would be without noise, with a probability of at least `RATE`, each number by itself.

| centre | without noise it would be | error bar |
|---|---|---|
| by noisy sums over noisy counts | the mean of the same rows | `of_steps` |
| a row with noise, or a sum over a public number | the row, or the sum over it | `of_noise` |
| anything else | - | not known |

What is done to a centre after a release (it is shrunken, or moved into the domain) is known, and
added. Scales of noise are public and counts are released, so an error bar costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kvariates.privacy.ledger import Charge
from kvariates.private_methods.noisy_counts import Mask

F64 = NDArray[np.float64]

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
            wide = noise_width(steps[0].summed) / math.sqrt(steps[0].summed.variance)
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
        return (
            f"Error bars are about noise alone: {self.about} is within them with a probability of "
            f"at least {100 * RATE:g} %, each number by itself. They do not cover which rows "
            "happen to be in the data, rows that were clipped, and which rows went to which centre."
        )

    def lines(self) -> tuple[str, ...]:
        """A line for each centre, with the features x0, x1, ...; of the first ones if many."""
        if self.values is None:
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
