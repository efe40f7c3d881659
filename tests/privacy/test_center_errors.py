"""Error bars of private centres: they hold the value without noise as often as they say."""

import warnings

import numpy as np
import pytest
from api import RATE, Candidates, NoisyLloyd
from privacy.private_models import DELTAS, METHODS, make_model
from scipy import sparse
from scipy.stats import binom

from kvariates import PrivateKMeans

GROUPS = np.array([[-0.5, -0.4], [0.6, -0.5], [0.1, 0.7]])
SPREAD = np.repeat(GROUPS, 100, axis=0)  # around one centre
APART = np.repeat(GROUPS, 3000, axis=0)
# Rows that are all alike: which of them are drawn, or are in a block, does not matter.
ALIKE = np.repeat(GROUPS[:1], 2000, axis=0)
CASES = {
    "one step": (NoisyLloyd(steps=1), SPREAD, SPREAD.mean(axis=0)[None], {}),
    "few rows": (NoisyLloyd(steps=1), SPREAD, SPREAD.mean(axis=0)[None], {"epsilon": 0.1}),
    "lloyd": ("lloyd", SPREAD, SPREAD.mean(axis=0)[None], {}),
    "in a ball": (
        NoisyLloyd(steps=1), ALIKE, GROUPS[:1], {"bounds": None, "radius": 0.65, "epsilon": 0.01},
    ),
    "no steps": (Candidates(steps=0), SPREAD, SPREAD.mean(axis=0)[None], {"epsilon": 4.0}),
    "tree": ("tree", APART, GROUPS, {"epsilon": 2.0}),
    "candidates": ("candidates", APART, GROUPS, {"epsilon": 2.0}),
    "forgy": ("forgy", ALIKE, GROUPS[:1], {"epsilon": 20.0}),
    "gupt": ("gupt", ALIKE, GROUPS[:1], {"adjacency": "replace-one"}),
    "kvariates": ("kvariates", ALIKE, GROUPS[:1], {"adjacency": "replace-one", "epsilon": 20.0}),
    "kvariates-laplace": ("kvariates-laplace", ALIKE, GROUPS[:1], {"epsilon": 20.0}),
}  # fmt: skip


def held(method, X, truth, options, runs):
    """For each number of each fit whether its interval holds the value without noise."""
    model = make_model(n_clusters=len(truth), method=METHODS.get(str(method), method), **options)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(runs):
            model.fit(X)
            centers, errors = model.cluster_centers_, model.center_errors_
            nearest = ((centers[:, None] - truth) ** 2).sum(axis=2).argmin(axis=1)
            known = np.isfinite(errors)
            found.append((np.abs(centers - truth[nearest]) <= errors)[known])
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_value_without_noise_at_the_stated_rate(name, delta):
    """A test of this law fails by chance once in 1e6 times, at most.

    Numbers of one fit may be dependent: so only one number of each fit is counted.
    """
    method, X, truth, options = CASES[name]
    options, runs = {"epsilon": 1.0, "delta": delta} | options, 200
    inside = held(method, X, truth, options, runs)
    for column in range(2):
        some = inside[column :: 2 * len(truth)]
        assert len(some) > runs / 3  # not all are unknown
        assert some.sum() >= binom.ppf(1e-6 / 2, len(some), RATE)


def test_the_rate_is_that_of_the_noise():
    """One step and many rows: nothing but the noise of one sum is left, so the rate is exact."""
    inside = held(NoisyLloyd(steps=1), ALIKE, GROUPS[:1], {"epsilon": 1.0, "delta": 1e-6}, 400)
    held_by = inside[::2].sum()
    assert binom.ppf(1e-6, 400, RATE - 0.005) <= held_by <= binom.isf(1e-6, 400, RATE + 0.01)


def test_errors_of_few_rows_are_wide_and_of_none_not_known():
    errors = [
        make_model("lloyd", 1, epsilon=0.5, method=NoisyLloyd(steps=1)).fit(X).center_errors_
        for X in (np.repeat(ALIKE, 10, axis=0), ALIKE[:200])
    ]
    assert (errors[1] > 10 * errors[0]).all()
    with pytest.warns(UserWarning, match=r"of 30 centres may be only noise"):
        model = make_model("lloyd", 30, epsilon=0.01).fit(ALIKE[:5])
    assert np.isnan(model.center_errors_[model.doubtful_]).all()
    assert "- No centre has an error bar" not in model.ledger_.report()
    assert model.ledger_.report().count("No centre has an error bar: all of them") == 1


@pytest.mark.parametrize("name", ["grid", "sample-aggregate"])
def test_a_method_that_cannot_tell_says_why(name):
    model = make_model(name, 1, epsilon=4.0).fit(ALIKE)
    assert model.center_errors_ is None
    assert model.center_errors_about_.startswith("The error of the centres by noise is not known: ")
    assert model.center_errors_about_ in " ".join(model.ledger_.report().split())


def test_features_that_were_not_released_have_no_error():
    X = sparse.csr_array(np.tile([0.5, 0.0, 0.0, 0.0], (5000, 1)))
    method = Candidates(recovery="picks", picks=2)
    model = PrivateKMeans(1, epsilon=5.0, radius=1.0, method=method).fit(X)
    assert np.isfinite(model.center_errors_).sum() == 2
