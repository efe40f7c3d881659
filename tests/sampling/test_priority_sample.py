"""Priority samples: different indices, heavy ones for sure, and sums without bias."""

import math
from itertools import combinations

import numpy as np
import pytest
from api import priority_sample
from sampling.chi_square import ALPHA, chi_square
from scipy.stats import norm

RUNS = 20_000


def test_equal_masses_give_a_uniform_sample_without_replacement():
    rng, pairs = np.random.default_rng(0), list(combinations(range(6), 2))
    seen = [tuple(priority_sample(np.full(6, 0.3), 2, rng).indices) for _ in range(RUNS)]
    counts = np.array([seen.count(pair) for pair in pairs])
    assert chi_square(counts, np.full(15, 1 / 15)) > ALPHA


MASSES = [1.0, 2, 3, 4, 5, 6], [1.0, 1, 1, 1, 1e9, 0], [1e100, 1, 2, 3, 1e100, 0.5]


@pytest.mark.parametrize("mass", MASSES)
def test_sums_are_estimated_without_bias(mass):
    """The mean of the estimate of every single mass; false alarms: 1e-6 for all of them."""
    mass, rng = np.array(mass), np.random.default_rng(1)
    estimates = np.zeros((RUNS, 6))
    for run in estimates:
        sample = priority_sample(mass, 3, rng)
        assert len(np.unique(sample.indices)) == 3
        run[sample.indices] = sample.weight
    error = np.abs(estimates.mean(axis=0) - mass)
    deviation = estimates.std(axis=0) / math.sqrt(RUNS)
    assert (error <= norm.isf(1e-6 / 12) * deviation + 1e-12 * mass).all()
    heavy = mass > 1e6  # left out with a probability below 1e-18
    assert (estimates[:, heavy] == mass[heavy]).all()
