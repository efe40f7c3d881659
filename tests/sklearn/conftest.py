"""The two fixtures that scikit-learn's tests ask their own conftest for."""

import os

import numpy as np
import pytest

# scikit-learn promises its tests for every seed in 0..99; KVARIATES_PEER_SEEDS=0-99 asks them all.
_first, _, _last = os.environ.get("KVARIATES_PEER_SEEDS", "42").partition("-")


@pytest.fixture(params=range(int(_first), int(_last or _first) + 1))
def global_random_seed(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param
