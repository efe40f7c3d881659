"""Pearson's chi-square test: are these draws from that law? And a test of means.

Every test of a law uses ALPHA: a correct sampler with fresh seeds fails one test in a million. The
seeds are fixed, so a test that passes keeps passing until the draws change.
"""

import math

import numpy as np
from scipy import stats

ALPHA = 1e-6
SMALLEST_CELL = 8.0


def chi_square(counts, probabilities):
    """Return the p-value of `counts`, if cell i had the probability `probabilities[i]`.

    Cells that expect few draws are merged, rarest first. The p-value is zero if a cell of
    probability zero was drawn.
    """
    counts = np.asarray(counts, dtype=np.float64)
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if not np.isclose(probabilities.sum(), 1.0, rtol=1e-9):
        raise ValueError(f"the probabilities sum to {probabilities.sum()}, not to 1")
    if counts[probabilities == 0].any():
        return 0.0
    counts, expected = merge_rare(counts, probabilities * counts.sum())
    if len(counts) < 2:
        raise ValueError("fewer than two cells are left: draw more")
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, len(counts) - 1))


def merge_rare(counts, expected):
    """Return the cells, those below SMALLEST_CELL merged with one another, rarest first."""
    cells, count, mass = [], 0.0, 0.0
    for i in np.argsort(expected, kind="stable"):
        count, mass = count + counts[i] * (expected[i] > 0), mass + expected[i]
        if mass >= SMALLEST_CELL:
            cells.append([count, mass])
            count, mass = 0.0, 0.0
    if mass > 0 and cells:
        cells[-1][0] += count
        cells[-1][1] += mass
    return np.array(cells).reshape(-1, 2).T


def uniform(values, bins=20):
    """Return the p-value of `values`, if they were independent and uniform on [0, 1)."""
    counts = np.histogram(values, bins=bins, range=(0.0, 1.0))[0]
    return chi_square(counts, np.full(bins, 1.0 / bins))


def follows(draws, law):
    """Return the p-value of `draws`, if `law` (a dict from outcome to probability) made them."""
    cell = {key: i for i, key in enumerate(law)}
    counts = np.zeros(len(law) + 1)  # the last cell: outcomes that the law does not know
    for draw in draws:
        counts[cell.get(draw, len(law))] += 1
    return chi_square(counts, [*law.values(), 0.0])


def unbiased(samples, mean):
    """Return whether all means of columns are `mean`; false alarms: 1e-6 for all of them."""
    runs, columns = samples.shape
    error = np.abs(samples.mean(axis=0) - mean)
    deviation = samples.std(axis=0) / math.sqrt(runs)
    allowed = stats.norm.isf(ALPHA / 2 / columns) * deviation + 1e-9 * np.abs(mean)
    return bool((error <= allowed).all())
