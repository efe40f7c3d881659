"""Tests whether words of 64 bits are uniform."""

import numpy as np
from sampling.chi_square import uniform
from scipy import stats


def p_uniform(values):
    """The p-value of `values`, if they were uniform on Z_2^64: high bits, low bits, low byte."""
    values = values.ravel()
    high, low = values / 2.0**64, (values & np.uint64(2**32 - 1)) / 2.0**32
    p_values = [stats.kstest(part, "uniform").pvalue for part in (high, low)]
    p_values.append(uniform((values & np.uint64(255)) / 256, bins=256))
    return 3 * min(p_values)


def worst(values):
    """The p-value of several arrays together."""
    values = list(values)
    return len(values) * min(map(p_uniform, values))
