"""All choices of KMeans, from the tables, and rows that every one of them takes."""

import numpy as np
import pytest
from api import DISTORTIONS, HOST_SEEDINGS, OBJECTIVES, REFINEMENTS

TABLES = (HOST_SEEDINGS, REFINEMENTS, OBJECTIVES, DISTORTIONS)
CHOICES = [{table.parameter: name} for table in TABLES for name in table]
OF_OBJECTIVE = [c for c in CHOICES if {"metric", "distortion"} & c.keys()]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids=lambda c: "=".join(*c.items()))


def positive_rows(n=300, d=4, dtype=np.float64):
    """Four groups of positive rows, since some distortions take no others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + 3 * rng.integers(0, 4, size=(n, 1))
    return (np.abs(X) + 0.05).astype(dtype)
