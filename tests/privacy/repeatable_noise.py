"""Noise of about the right law from a seeded generator, for tests only: it protects nobody."""

import math
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from api import Calibrated
from api import noise_source_module as noise_source


@contextmanager
def repeatable_noise(seed):
    """All noise, and all random bytes for privacy, come from one generator."""
    rng = np.random.default_rng(seed)

    def draw(noise, values):
        return LAWS[noise.law](rng, values, noise.scale)

    with (
        patch.object(Calibrated, "__call__", draw),
        patch.object(noise_source, "urandom", rng.bytes),
    ):
        yield


def _laplace(rng, values, scale):
    p = -math.expm1(-1 / scale)
    noise = rng.geometric(p, len(values)) - rng.geometric(p, len(values))
    return (np.asarray(values, dtype=np.int64) + noise).tolist()


def _gaussian(rng, values, scale):
    noise = np.rint(rng.normal(0.0, scale, len(values))).astype(np.int64)
    return (np.asarray(values, dtype=np.int64) + noise).tolist()


def _flip(rng, values, scale):
    return int(np.argmax(np.asarray(values) + rng.exponential(scale, len(values))))


def _gumbel(rng, values, scale):
    return int(np.argmax(np.asarray(values) + rng.gumbel(0.0, scale, len(values))))


LAWS = {"laplace": _laplace, "gaussian": _gaussian, "permute-and-flip": _flip,
        "exponential": _gumbel}  # fmt: skip
