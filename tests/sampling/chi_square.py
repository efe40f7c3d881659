"""Is this sampler's law that law? Pearson's chi-square, at a false-alarm rate written down.

Every test of a law uses ALPHA: a right sampler with fresh seeds fails one test in a million. The
seeds are fixed, so a test that passes keeps passing until the draws themselves change.
"""

import numpy as np
from scipy import stats

ALPHA = 1e-6
SMALLEST_CELL = 8.0


def chi_square(counts, probabilities):
    """Return the p-value of `counts`, if cell i had the probability `probabilities[i]`.

    Cells that expect few draws are merged, rarest first, for the chi-square law is a limit. A
    draw where the probability is zero is no matter of chance: its p-value is zero.
    """
    counts = np.asarray(counts, dtype=np.float64)
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if not np.isclose(probabilities.sum(), 1.0, rtol=1e-9):
        raise ValueError(f"the probabilities sum to {probabilities.sum()}, not to 1")
    if counts[probabilities == 0].any():
        return 0.0
    expected = probabilities * counts.sum()
    counts, expected = merge_rare(counts, expected)
    if len(counts) < 2:
        raise ValueError("fewer than two cells are left: draw more, or ask something else")
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, len(counts) - 1))


def merge_rare(counts, expected):
    """Return the cells, those below SMALLEST_CELL merged with one another, rarest first."""
    order = np.argsort(expected, kind="stable")
    order = order[expected[order] > 0]
    cells, count, mass = [], 0.0, 0.0
    for i in order:
        count, mass = count + counts[i], mass + expected[i]
        if mass >= SMALLEST_CELL:
            cells.append((count, mass))
            count, mass = 0.0, 0.0
    if mass > 0 and cells:
        # Only when all the rest is rare: the left-over goes to the last cell.
        last = cells.pop()
        cells.append((last[0] + count, last[1] + mass))
    merged = np.array(cells)
    return (merged[:, 0], merged[:, 1]) if len(cells) else (np.empty(0), np.empty(0))


def uniform(values, bins=20):
    """Return the p-value of `values`, if they were independent and uniform on [0, 1)."""
    counts = np.histogram(values, bins=bins, range=(0.0, 1.0))[0]
    return chi_square(counts, np.full(bins, 1.0 / bins))


def tally(draws, law):
    """Return the counts of `draws` (rows or tuples) in the order of the keys of `law`.

    A draw outside the law counts in a last cell; give it probability zero (see `follows`).
    """
    cell = {key: i for i, key in enumerate(law)}
    counts = np.zeros(len(law) + 1)
    for draw in draws:
        counts[cell.get(draw, len(law))] += 1
    return counts


def follows(draws, law):
    """Return the p-value of `draws`, if `law` (a dict from outcome to probability) made them."""
    return chi_square(tally(draws, law), [*law.values(), 0.0])
