"""The exact laws of discrete noise, from their formulas, and whether noise repeats."""

import math
import random

import numpy as np
import pytest
from api import gather
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


def repeatable(mechanism, data, view=lambda output: output, runs=64):
    """Whether it gives the same outputs twice when the global generators are seeded."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        series = []
        for _ in range(2):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            series.append([view(mechanism(data)) for _ in range(runs)])
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
    a, b = gather(*series)
    return np.array_equal(a.labels, b.labels)
