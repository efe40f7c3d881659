"""`price`: costs of private fits divided by the non-private cost, for each epsilon."""

from types import SimpleNamespace

import numpy as np
import pytest
from api import price
from api import price_of_squared_distances as squared_distances


class Middle:
    """A private mean, as an estimator."""

    def __init__(self, epsilon, rng=None):
        self.epsilon, self.rng = epsilon, rng

    def fit(self, X):
        noise = self.rng.laplace(scale=1 / self.epsilon, size=(1, X.shape[1])) if self.rng else 0
        self.cluster_centers_ = X.mean(axis=0, keepdims=True) + noise
        return self


def test_a_larger_budget_gives_lower_costs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    table = price(lambda e: Middle(e, rng), X, [0.5, 1, 8], against=Middle(1), runs=40)
    assert table.ratios.shape == (3, 40)
    assert (table.ratios >= 1).all()
    assert (np.diff(table.mean) < 0).all()
    assert (np.diff(table.quartiles, axis=1) > 0).all()
    assert table.cheapest(table.mean[1]) == 1.0
    assert table.cheapest(1.0) is None
    assert list(table.frame()["epsilon"]) == [0.5, 1, 8]
    assert len(str(table).splitlines()) == 4


def test_costs_are_those_of_the_nearest_center():
    rng = np.random.default_rng(0)
    X, centers = rng.normal(size=(3000, 3)), rng.normal(size=(700, 3))
    brute = sum(((x - centers) ** 2).sum(axis=1).min() for x in X)
    assert squared_distances(SimpleNamespace(cluster_centers_=centers), X) == pytest.approx(brute)
    costs = price(Middle, X, [1.0], cost=lambda model, X: 7.0, runs=2)
    assert costs.ratios.tolist() == [[7.0, 7.0]]


def test_bad_input_raises():
    with pytest.raises(ValueError, match="shape"):
        price(Middle, np.zeros(3), [1.0])
    with pytest.raises(ValueError, match="at least one"):
        price(Middle, np.zeros((3, 1)), [])
    with pytest.raises(ValueError, match="above 0"):
        price(Middle, np.zeros((3, 1)), [1.0], against=Middle(1))
