"""Audits of a mechanism on the smallest pair of neighbours."""

import numpy as np
from privacy.mutants import on_grid

from kvariates.privacy.auditing import audit

PAIR = (np.array([1.0]), np.array([0.0]))


def run(mechanism, pair=PAIR, *, epsilon=1.0, runs=4000, batch=True, **options):
    return audit(mechanism, pair, epsilon=epsilon, runs=runs, batch=batch, **options)


def laplace(scale, seed=0):
    rng = np.random.default_rng(seed)
    return lambda data, runs: data[0] + on_grid(rng.laplace(scale=scale, size=runs))
