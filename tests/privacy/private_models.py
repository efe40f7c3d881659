"""Models and rows for the tests of private fits. They cover every entry of PRIVATE_METHODS."""

import numpy as np
import pytest
from privacy.exact_noise import ADJACENCIES

from kvariates import PrivateKMeans
from kvariates.private_methods.methods import PRIVATE_METHODS
from kvariates.private_methods.noisy_kvariates import Conditional

DELTAS = (0.0, 1e-6)
METHOD_OBJECTS = {name: entry.run for name, entry in PRIVATE_METHODS.items()}
METHOD_OBJECTS["kvariates-conditional"] = Conditional(delta_w=0.5)

every_method = pytest.mark.parametrize("name", METHOD_OBJECTS)
both_adjacencies = pytest.mark.parametrize("adjacency", ADJACENCIES)
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


def make_model(name="lloyd", n_clusters=3, **options):
    defaults = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "method": METHOD_OBJECTS[name]}
    return PrivateKMeans(n_clusters, **defaults | options)
