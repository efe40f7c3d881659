"""Draws in proportion to integers, exactly, from the operating system's random bits.

A float cannot be scaled to a total without rounding, and a generator's state can be guessed; here
weights are integers, their sums are exact, and an index of weight w out of W has probability w / W
to the last bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvariates.privacy.noise_source import random_bits, random_words

I64 = NDArray[np.int64]

MOST = 2**62  # of all weights together: sums of 64-bit integers stay exact


def below(total: int) -> int:
    """A fair integer in 0..total - 1, by rejection."""
    if total < 1:
        raise ValueError(f"below needs a total of at least 1; got {total}.")
    bits = (total - 1).bit_length()
    size = max(8, -(-bits // 8) * 8)
    while (value := random_bits(size) >> (size - bits)) >= total:
        pass
    return value


def draw(weights: I64) -> int:
    """An index, with probability proportional to its weight. Pre: weights >= 0, their sum < 2^62.

    If all of them are 0, any index is as likely as any other.
    """
    sums = np.cumsum(weights, dtype=np.int64)
    total = int(sums[-1])
    if total == 0:
        return below(len(sums))
    return int(np.searchsorted(sums, below(total), side="right"))


def subset(n: int, size: int) -> I64:
    """`size` of n row numbers, in order: those with the smallest of n random keys.

    One row more, with a key of its own, changes the chosen rows by one at most.
    """
    keys = random_words(n)
    return np.sort(np.argsort(keys, kind="stable")[:size])
