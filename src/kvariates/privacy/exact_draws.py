"""Exact draws in proportion to integer weights, from random bits of the operating system.

Sums of integer weights are exact, so an index of weight w out of W has probability w / W exactly.
(Floats cannot be scaled to a total without rounding, and the state of a generator can be guessed.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvariates.privacy.noise_source import random_bits, random_words

I64 = NDArray[np.int64]


def below(total: int) -> int:
    """A uniform integer in 0..total - 1, by rejection."""
    if total < 1:
        raise ValueError(f"below needs a total of at least 1; got {total}.")
    bits = (total - 1).bit_length()
    size = max(8, -(-bits // 8) * 8)
    while (value := random_bits(size) >> (size - bits)) >= total:
        pass
    return value


def draw(weights: I64) -> int:
    """An index, with probability proportional to its weight; uniform if all weights are 0.

    Pre: weights >= 0, and their sum is below 2^62.
    """
    sums = np.cumsum(weights, dtype=np.int64)
    total = int(sums[-1])
    if total == 0:
        return below(len(sums))
    return int(np.searchsorted(sums, below(total), side="right"))


def subset(n: int, size: int) -> I64:
    """`size` of n row numbers, ascending: those with the smallest of n random keys.

    One more row, with a key of its own, changes at most one of the chosen rows.
    """
    keys = random_words(n)
    return np.sort(np.argsort(keys, kind="stable")[:size])
