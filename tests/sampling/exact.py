"""The exact laws of the seedings: one conditional law a step, and products of them.

A step is a function (X, weights, chosen) -> probabilities of the next index. From it come
- the law of whole index sequences, by enumeration (small sets);
- the law of one draw given the earlier ones, as a number that must be uniform (any set).
"""

import numpy as np
from sampling import chi_square as chi
from scipy.spatial.distance import cdist


def squared(X):
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    return cdist(X, X, "sqeuclidean")


def potentials(D, weights, chosen):
    """Return each row's share of the potential (weight times squared distance), not normalised."""
    return weights * D[:, chosen].min(axis=1) if len(chosen) else weights.astype(float)


def plain_step(D, weights, chosen):
    """k-means++: the first by weight, then by weight times squared distance."""
    share = potentials(D, weights, chosen)
    return share / share.sum()


def greedy_step(trials):
    """Greedy k-means++: of `trials` plain draws, the one that leaves the least potential wins.

    A candidate wins when no draw is better; among draws equally good the first one wins, and the
    draws being exchangeable, each of the equals in proportion to its own probability.
    """

    def step(D, weights, chosen):
        p = plain_step(D, weights, chosen)
        if not len(chosen):
            return p
        left = np.minimum(D[:, chosen].min(axis=1)[:, None], D).T @ weights
        # Rounded, because two identical rows leave the same potential.
        left = np.round(left / left.max(), 12)
        law = np.zeros_like(p)
        _, rank = np.unique(left[p > 0], return_inverse=True)
        mass = np.bincount(rank, p[p > 0])
        not_better = np.clip(mass[::-1].cumsum()[::-1], 0.0, 1.0)
        wins = not_better**trials - np.append(not_better[1:], 0.0) ** trials
        law[p > 0] = p[p > 0] * (wins / mass)[rank]
        return law / law.sum()

    return step


def forgy_step(D, weights, chosen):
    """Distinct rows, each drawn in proportion to its weight among those that are left."""
    left = weights.astype(float).copy()
    left[list(chosen)] = 0.0
    return left / left.sum()


def sequence_law(step, X, k, weights=None):
    """Return {(i_1, ..., i_k): probability} by enumerating every sequence of positive chance."""
    return sequence_law_of(step, squared(X), k, weights)


def sequence_law_of(step, D, k, weights=None):
    """Return the same from the costs D[i, j] of row i at the centre that row j becomes."""
    weights = np.ones(len(D)) if weights is None else np.asarray(weights, dtype=np.float64)
    law = {(): 1.0}
    for _ in range(k):
        law = {
            (*chosen, i): chance * p
            for chosen, chance in law.items()
            for i, p in enumerate(step(D, weights, list(chosen)))
            if p > 0
        }
    return law


def pushed(law, outcome):
    """Return the law of `outcome(sequence)`."""
    image = {}
    for sequence, chance in law.items():
        key = outcome(sequence)
        image[key] = image.get(key, 0.0) + chance
    return image


class ImpossibleDrawError(AssertionError):
    """A row was drawn that the law never draws."""


def transforms(step, X, runs, weights=None, seed=0):
    """Return {order: one number a draw}, uniform and independent if `step` is the law of `runs`.

    The t-th draw of a run has a known law given the earlier ones, so its place in that law's
    distribution function (a uniform place inside the drawn atom) is uniform, for any set.
    Which errors can be seen depends on the order of the atoms: see ORDERS.
    """
    D, runs = squared(X), np.asarray(runs)
    weights = np.ones(len(D)) if weights is None else np.asarray(weights, dtype=np.float64)
    inside = np.random.default_rng(seed)
    places = {name: np.empty(runs.shape) for name in ORDERS}
    for (r, t), index in np.ndenumerate(runs):
        law = step(D, weights, runs[r, :t])
        if law[index] == 0:
            raise ImpossibleDrawError(f"row {index} has no chance after {runs[r, :t]}")
        for name, order in ORDERS.items():
            rank = order(D, weights, runs[r, :t])
            before = (rank < rank[index]) | ((rank == rank[index]) & (np.arange(len(D)) < index))
            places[name][r, t] = law[before].sum() + inside.random() * law[index]
    return {name: np.clip(place, 0.0, np.nextafter(1.0, 0.0)) for name, place in places.items()}


# By index: tiles lost or read twice. By distance: a wrong power, old costs. By weight.
ORDERS = {
    "index": lambda D, weights, chosen: np.arange(len(D)),
    "distance": lambda D, weights, chosen: D[:, chosen].min(axis=1) if len(chosen) else weights,
    "weight": lambda D, weights, chosen: weights,
}


def worst(places):
    """Return the p-value of all of `places` together: the least p-value, times their number.

    For each order: the uniformity of every draw, that of all draws in smaller bins, and the
    independence of consecutive draws.
    """
    p_values = []
    for place in places.values():
        p_values += [chi.uniform(place[:, t], bins=10) for t in range(place.shape[1])]
        p_values.append(chi.uniform(place, bins=64))
        pairs = np.floor(place[:, :-1] * 6) * 6 + np.floor(place[:, 1:] * 6)
        counts = np.bincount(pairs.astype(int).ravel(), minlength=36)
        p_values.append(chi.chi_square(counts, np.full(36, 1 / 36)))
    return min(1.0, min(p_values) * len(p_values))


def judge(step, X, runs, weights=None):
    """Return the p-value of `runs`, if `step` were their law; zero if a draw is impossible."""
    try:
        return worst(transforms(step, X, runs, weights))
    except ImpossibleDrawError:
        return 0.0
