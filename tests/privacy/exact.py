"""The laws of discrete noise, by the book."""

import math

import numpy as np
from sampling.chi_square import chi_square

DRAWS = 6000
ADJACENCIES = ["add-remove", "replace-one"]


def weights(law, z, scale):
    z = np.asarray(z, dtype=np.float64)
    return np.exp(-np.abs(z) / scale if law == "laplace" else -((z / scale) ** 2) / 2)


def pmf(law, scale):
    """Values and their probabilities, as far out as matters."""
    far = math.ceil(45 * scale if law == "laplace" else 10 * scale) + 3
    z = np.arange(-far, far + 1)
    p = weights(law, z, scale)
    return z, p / p.sum()


def p_value(draws, law, scale):
    z, p = pmf(law, scale)
    counts = np.bincount(np.clip(draws - z[0], 0, len(z) - 1), minlength=len(z))
    return chi_square(counts, p)
