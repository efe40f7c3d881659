"""Models, tasks and rows for the tests of private methods, for every entry of PRIVATE_METHODS."""

import numpy as np
import pytest
from api import PRIVATE_METHODS, Conditional, Domain, Loss, PrivateTask

from kvariates import PrivateKMeans

DELTAS = (0.0, 1e-6)
METHODS = {name: entry.run for name, entry in PRIVATE_METHODS.items()}
METHODS["kvariates-conditional"] = Conditional(delta_w=0.5)

every_method = pytest.mark.parametrize("name", METHODS)
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


def blobs(n=600, d=4, k=3, seed=0):
    """Rows of k groups in the unit ball."""
    rng = np.random.default_rng(seed)
    middles = rng.uniform(-0.5, 0.5, (k, d))
    X = middles[rng.integers(k, size=n)] + 0.05 * rng.normal(size=(n, d))
    return X / max(1.0, np.linalg.norm(X, axis=1).max())


def make_model(name="lloyd", n_clusters=3, **options):
    defaults = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "method": METHODS[name]}
    return PrivateKMeans(n_clusters, **defaults | options)


def make_task(X, k=3, adjacency="add-remove", epsilon=1.0, delta=0.0, ball=False):
    """A task in the box from -1 to 1, or in the unit ball."""
    d = X.shape[1]
    domain = Domain.around(np.zeros(d), 1.0) if ball else Domain.box(-np.ones(d), np.ones(d))
    return PrivateTask(domain.rows(X), domain, k, adjacency, Loss(epsilon, delta))


def seen(secret):
    """The value of a secret: a test may read it."""
    return secret.reveal("for a test")
