"""What the tests of private fits share: the methods, the sides, some rows, and a model to fit."""

import numpy as np
import pytest

from kvariates import PrivateKMeans
from kvariates.private_methods.methods import METHODS
from kvariates.private_methods.noisy_kvariates import Conditional

SIDES = ("add-remove", "replace-one")
DELTAS = (0.0, 1e-6)
CHOICES = {**METHODS, "kvariates-conditional": Conditional(delta_w=0.5)}

every_method = pytest.mark.parametrize("name", CHOICES)
both_sides = pytest.mark.parametrize("adjacency", SIDES)
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


def model_of(name="lloyd", **options):
    how = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "method": CHOICES[name], **options}
    return PrivateKMeans(how.pop("n_clusters", 3), **how)
