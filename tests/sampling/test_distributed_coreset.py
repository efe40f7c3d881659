"""Distributed coresets: the exact law of their draws, unbiased weights, totals, and traffic."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from api import SummaryOptions, WeightedPoints
from experiments.distributed_coreset import distributed_coreset, divide_draws
from sampling.chi_square import ALPHA, follows, unbiased

RUNS = 2000
# The places on a line and the weights of the rows of each peer.
CASES = {
    "one peer": [([0.0, 1, 3, 7], [1.0, 2, 1, 3])],
    "two peers": [([0.0, 1, 3], [3.0, 1, 2]), ([10.0, 12, 17], [1.0, 1, 4])],
}


def costs_at(center, places, weights):
    return weights * (places - center) ** 2


def division_law(costs, size):
    """The exact law of `divide_draws`: its number u decides all roundings at once."""
    ends = np.cumsum(costs) / np.sum(costs) * size
    jumps = sorted({0.0, 1.0, *(float(end % 1) for end in ends)})
    law = Counter()
    for low, high in itertools.pairwise(jumps):
        passed = np.ceil(ends - (low + high) / 2)
        law[tuple(np.diff(passed, prepend=0.0).astype(int).tolist())] += high - low
    return law


def multinomial(shares, draws):
    law = Counter()
    for rows in itertools.product(np.flatnonzero(shares).tolist(), repeat=draws):
        law[tuple(sorted(rows))] += math.prod(shares[row] for row in rows)
    return law


def coreset_law(places, weights, size):
    """The exact law of the centre and the drawn rows of each peer, for k = 1."""
    law = Counter()
    for centers in itertools.product(*(range(len(p)) for p in places)):
        peers = list(zip(centers, places, weights, strict=True))
        chance = math.prod(w[c] / w.sum() for c, _, w in peers)
        costs = [costs_at(p[c], p, w) for c, p, w in peers]
        for numbers, of_numbers in division_law([c.sum() for c in costs], size).items():
            parts = [multinomial(c / c.sum(), n) for c, n in zip(costs, numbers, strict=True)]
            for draws in itertools.product(*(part.items() for part in parts)):
                drawn = tuple(rows for rows, _ in draws)
                law[centers, drawn] += chance * of_numbers * math.prod(q for _, q in draws)
    return dict(law)


def outcome(coreset, places, weights, size):
    """Read the centre and the draws of each peer from the points and weights of a coreset."""
    own = [coreset.clusters == i for i in range(len(places))]
    values = [coreset.points[mine, 0] for mine in own]
    centers = [value[-1] for value in values]
    costs = [costs_at(*part) for part in zip(centers, places, weights, strict=True)]
    unit = sum(cost.sum() for cost in costs) / size
    drawn = []
    for mine, value, center, place in zip(own, values, centers, places, strict=True):
        times = coreset.weights[mine][:-1] * (value[:-1] - center) ** 2 / unit
        assert np.allclose(times, np.rint(times), rtol=1e-9)
        rows = np.searchsorted(place, value[:-1])
        drawn.append(tuple(np.repeat(rows, np.rint(times).astype(int)).tolist()))
    return tuple(int(np.searchsorted(p, c)) for p, c in zip(places, centers, strict=True)), tuple(
        drawn
    )


def peers_of(places, weights, repeated):
    if repeated:
        rows = [np.repeat(p, w.astype(int)) for p, w in zip(places, weights, strict=True)]
        return [WeightedPoints.of(row[:, None], None) for row in rows]
    return [WeightedPoints(p[:, None], w) for p, w in zip(places, weights, strict=True)]


def merged(coreset):
    """Add up the weights of equal draws of a peer: repeated rows can be drawn apart."""
    points, weights, clusters = [], [], []
    for cluster in np.unique(coreset.clusters):
        mine = np.flatnonzero(coreset.clusters == cluster)
        values, place = np.unique(coreset.points[mine[:-1], 0], return_inverse=True)
        points += [*values, coreset.points[mine[-1], 0]]
        weights += [*np.bincount(place, coreset.weights[mine[:-1]]), coreset.weights[mine[-1]]]
        clusters += [cluster] * (len(values) + 1)
    columns = np.array(points)[:, None], np.array(weights), np.array(clusters)
    return type(coreset)(*columns, coreset.traffic)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("repeated", [False, True], ids=["weights", "repeats"])
def test_the_draws_follow_their_law(case, repeated):
    """For one peer this is the law of a plain coreset: independent draws by cost."""
    places, weights = (list(map(np.array, part)) for part in zip(*CASES[case], strict=True))
    peers, options = peers_of(places, weights, repeated), SummaryOptions(4, 1)
    law, rng = coreset_law(places, weights, 4), np.random.default_rng(1)
    found = [
        outcome(merged(distributed_coreset(peers, options, rng)), places, weights, 4)
        for _ in range(RUNS)
    ]
    assert follows(found, law) > ALPHA


def test_draws_are_divided_in_proportion():
    costs, rng = np.array([3.0, 0.0, 1.3, 0.2, 7.1]), np.random.default_rng(2)
    found = [tuple(divide_draws(costs, 7, rng).tolist()) for _ in range(RUNS)]
    assert follows(found, dict(division_law(costs, 7))) > ALPHA
    assert unbiased(np.array(found, dtype=float), 7 * costs / costs.sum())
    assert divide_draws(np.zeros(3), 5, rng).tolist() == [0, 0, 0]
    assert {sum(numbers) for numbers in found} == {7}


def three_peers():
    """Peers of different sizes and spreads; the first column is the number of the row."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3)) * np.repeat([1.0, 3, 0.1], [20, 12, 8])[:, None]
    X[:, 0] = np.arange(40) / 16
    weight = rng.integers(1, 6, 40).astype(float)
    cuts = [slice(0, 20), slice(20, 32), slice(32, 40)]
    return X, weight, [WeightedPoints(X[cut], weight[cut]) for cut in cuts]


def test_weights_and_costs_are_unbiased():
    X, weight, peers = three_peers()
    centers = [X[[0, 9]], X[[3, 4, 39]] + 1, np.zeros((1, 3))]

    def costs(points, weights):
        near = [((points[:, None] - c) ** 2).sum(axis=2).min(axis=1) for c in centers]
        return [weights @ cost for cost in near]

    rng, weights, found = np.random.default_rng(4), [], []
    for _ in range(2000):
        coreset = distributed_coreset(peers, SummaryOptions(9, 2), rng)
        numbers = np.rint(coreset.points[:, 0] * 16).astype(int)
        weights.append(np.bincount(numbers, coreset.weights, minlength=40))
        found.append(costs(coreset.points, coreset.weights))
    assert unbiased(np.array(weights), weight)
    assert unbiased(np.array(found), np.array(costs(X, weight)))


def test_total_weight_and_traffic():
    _, weight, peers = three_peers()
    rng, negative = np.random.default_rng(5), 0
    for size in (4, 30, 500):
        for k in (1, 3, 9, 50):
            coreset = distributed_coreset(peers, SummaryOptions(size, k), rng)
            assert math.isclose(coreset.weights.sum(), weight.sum(), rel_tol=1e-9)
            assert len(coreset.points) == sum(t.points for t in coreset.traffic)
            assert len(coreset.points) <= size + sum(min(k, p.n) for p in peers)
            assert all(t.sent == 1 + 4 * t.points for t in coreset.traffic)
            positive = coreset.positive()
            assert (positive.weights > 0).all()
            assert math.isclose(positive.total, weight.sum(), rel_tol=1e-9)
            negative += (coreset.weights < 0).any()
            clusters = np.bincount(coreset.clusters, coreset.weights)
            assert np.allclose(clusters, np.rint(clusters), rtol=1e-9)  # integer weights
    assert negative > 0
    assert coreset.traffic[2].points == 8  # 50 centres asked of 8 rows: all rows, and no draws


def test_rows_without_cost_are_sent_as_they_are():
    equal = WeightedPoints(np.ones((5, 2)), np.arange(1.0, 6))
    single = WeightedPoints(np.zeros((1, 2)), np.array([3.0]))
    coreset = distributed_coreset([equal, single], SummaryOptions(10, 4), np.random.default_rng(6))
    assert coreset.points.tolist() == [[1, 1], [0, 0]]
    assert coreset.weights.tolist() == [15, 3]
