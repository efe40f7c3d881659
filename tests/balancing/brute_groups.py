"""All groupings of few rows, and the objectives by their definitions, without the package."""

from functools import cache
from itertools import permutations, product

import numpy as np


@cache
def groupings(n, sizes):
    """All labels of n rows with these sizes of groups, one a row."""
    labels = [g for g, size in enumerate(sizes) for _ in range(size)]
    if n <= 6:
        return np.array(sorted(set(permutations(labels))))
    table = np.array(list(product(range(len(sizes)), repeat=n)), dtype=np.int8)
    counts = np.stack([(table == g).sum(axis=1) for g in range(len(sizes))], axis=1)
    return table[(counts == sizes).all(axis=1)]


def even_sizes(n, groups):
    return tuple(n // groups + (g < n % groups) for g in range(groups))


def within_squares(X, table):
    """The sum of squared distances to the means of the groups, for each row of the table."""
    total = np.zeros(len(table))
    for g in range(table.max() + 1):
        member = (table == g).astype(float)
        mean = member @ X / member.sum(axis=1, keepdims=True)
        total += (member * np.square(X[None] - mean[:, None]).sum(axis=2)).sum(axis=1)
    return total


def standardised(X):
    X = X - X.mean(axis=0)
    return X[:, X.std(axis=0) > 1e-9] / X.std(axis=0)[X.std(axis=0) > 1e-9]


def kplus(X, table):
    Z = standardised(X)
    return within_squares(np.hstack([Z, standardised(Z**2)]), table)


def distances(X):
    return np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2))


def diversity(X, table):
    same = table[:, :, None] == table[:, None, :]
    return (same * distances(X)).sum(axis=(1, 2)) / 2


def dispersion(X, table):
    same = (table[:, :, None] == table[:, None, :]) & ~np.eye(len(X), dtype=bool)
    return np.where(same, distances(X), np.inf).min(axis=(1, 2))


OBJECTIVES = {
    "variance": within_squares,
    "kplus": kplus,
    "diversity": diversity,
    "dispersion": dispersion,
}


def feasible(table, category, must, cannot, groups):
    """The groupings that keep links, and rows of a category even."""
    keep = np.ones(len(table), dtype=bool)
    for i, j in must:
        keep &= table[:, i] == table[:, j]
    for i, j in cannot:
        keep &= table[:, i] != table[:, j]
    for c in set(category):
        here = table[:, np.asarray(category) == c]
        counts = np.stack([(here == g).sum(axis=1) for g in range(groups)], axis=1)
        keep &= (counts.max(axis=1) <= -(-here.shape[1] // groups)) & (
            counts.min(axis=1) >= here.shape[1] // groups
        )
    return table[keep]
