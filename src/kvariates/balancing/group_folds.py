"""Folds that keep groups of rows together, and are as alike as possible.

Sizes are those of scikit-learn's GroupKFold: the largest group first, always to the smallest fold.
Then groups of any size change places, as long as no fold gets smaller than the smallest or larger
than the largest was.
"""

from __future__ import annotations

import numpy as np

from kvariates.balancing.anticlusters import GroupResult, SearchOptions, improved
from kvariates.balancing.group_objectives import MakeObjective
from kvariates.balancing.group_problem import group_problem
from kvariates.balancing.units import Links
from kvariates.data.exchanges import ExchangeUnits, Ints
from kvariates.data.rows import Floats, Labels


def grouped_folds(
    data: Floats, make: MakeObjective, group: Ints, n_folds: int, options: SearchOptions,
    rng: np.random.Generator,
) -> GroupResult:  # fmt: skip
    """The fold of each row. `group`: a number for each row; `data`: what the objective takes."""
    rows = np.argsort(group, kind="stable")
    same = np.flatnonzero(np.diff(group[rows]) == 0)
    links = Links(np.stack([rows[same], rows[same + 1]], axis=1), np.empty((0, 2), dtype=np.int64))
    problem = group_problem(np.zeros(len(group), dtype=np.int64), links, n_folds)
    size = problem.units.size
    starts = np.stack([evenly_packed(size, n_folds, rng) for _ in range(options.n_restarts)])
    sizes = np.bincount(starts[0], weights=size, minlength=n_folds).astype(np.int64)
    n = len(size)
    units = ExchangeUnits(
        rng.permutation(n), np.array([0, n]), size, np.full(n_folds, sizes.min()),
        np.full(n_folds, sizes.max()), np.zeros(n + 1, dtype=np.int64), np.empty(0, np.int64),
    )  # fmt: skip
    return improved(problem, make(data, problem.units), units, starts, options, rng)


def evenly_packed(size: Ints, n_bins: int, rng: np.random.Generator) -> Labels:
    """The bin of each item: the largest first, each into the bin with the least in it."""
    filled = np.zeros(n_bins)
    labels = np.empty(len(size), dtype=np.int32)
    for item in np.lexsort([rng.random(len(size)), -size]):
        labels[item] = int(np.lexsort([rng.random(n_bins), filled])[0])
        filled[labels[item]] += size[item]
    return labels
