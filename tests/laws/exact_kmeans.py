"""Optimal k-means costs of tiny sets, in whole numbers."""

import functools
import itertools
import math

import numpy as np

MOST = 24  # the largest weight of all points together
MULTIPLE = math.lcm(*range(1, MOST + 1))  # times a cost is a whole number


@functools.cache
def labelings(n, k):
    """All labellings into at most k clusters, as masks of points: an array (labellings, k)."""
    masks = set()
    for labels in itertools.product(range(k), repeat=n):
        parts = [sum(1 << i for i in range(n) if labels[i] == j) for j in range(k)]
        masks.add(tuple(sorted(parts)))
    return np.array(sorted(masks))


def subset_costs(X, weight):
    """MULTIPLE times the cost of one mean, for every set of points. X, weight: small integers."""
    n = len(X)
    inside = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    mass = inside * weight
    total, squares = mass.sum(axis=1), mass @ (X**2).sum(axis=1)
    length = ((mass @ X) ** 2).sum(axis=1)
    return MULTIPLE * squares - length * (MULTIPLE // np.maximum(total, 1))


def optimum(X, weight, k):
    """MULTIPLE times the least cost of k centres."""
    return int(subset_costs(X, weight)[labelings(len(X), k)].sum(axis=1).min())


def optimum_with_outliers(X, weight, k, price):
    """The same, where a point may be left out for `price` times its weight (integers)."""
    n, costs = len(X), subset_costs(X, weight)
    best = costs.sum()
    for out in range(2**n):
        left = [i for i in range(n) if not out >> i & 1]
        paid = MULTIPLE * sum(int(weight[i] * price[i]) for i in range(n) if out >> i & 1)
        inner = optimum(X[left], weight[left], k) if left else 0
        best = min(best, paid + inner)
    return int(best)


def line_optimum(x, k):
    """The optimal cost of numbers, and centres of that cost (dynamic programming)."""
    x = np.sort(x)
    n = len(x)
    sums, squares = (np.concatenate([[0.0], np.cumsum(x**p)]) for p in (1, 2))

    def one(i, j):
        return squares[j] - squares[i] - (sums[j] - sums[i]) ** 2 / (j - i)

    cost, cut = np.full((k + 1, n + 1), np.inf), np.zeros((k + 1, n + 1), dtype=int)
    cost[0, 0] = 0
    for m in range(1, k + 1):
        for j in range(m, n + 1):
            starts = np.arange(m - 1, j)
            options = cost[m - 1, starts] + one(starts, j)
            cut[m, j] = starts[options.argmin()]
            cost[m, j] = options.min()
    centers, j = [], n
    for m in range(k, 0, -1):
        i = cut[m, j]
        centers.append(x[i:j].mean())
        j = i
    return cost[k, n], np.array(centers)[:, None]
