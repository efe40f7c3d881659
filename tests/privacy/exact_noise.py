"""The exact laws of discrete noise, from their formulas."""

import math

import numpy as np
import pytest
from sampling.chi_square import chi_square

DRAWS = 6000
ADJACENCIES = ("add-remove", "replace-one")
both_adjacencies = pytest.mark.parametrize("adjacency", ADJACENCIES)


def pmf(law, scale):
    """Values and their probabilities, up to where they are negligible."""
    far = math.ceil(45 * scale if law == "laplace" else 10 * scale) + 3
    z = np.arange(-far, far + 1)
    p = np.exp(-np.abs(z) / scale if law == "laplace" else -((z / scale) ** 2) / 2)
    return z, p / p.sum()


def p_value(draws, law, scale):
    z, p = pmf(law, scale)
    counts = np.bincount(np.clip(draws - z[0], 0, len(z) - 1), minlength=len(z))
    return chi_square(counts, p)
