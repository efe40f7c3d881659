"""The seedings of k-median, by the names they have in ``KMedian(init=...)``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64
from kvariates.seeding.hst import hst_seed
from kvariates.seeding.medoid_potential import kmedian_plusplus
from kvariates.tables import Entry, Table

MedoidSeeding = Callable[[MetricSpace, int, F64 | None, np.random.Generator], Ints]
"""Takes a space, k, the weights of its points and randomness; returns k different points."""


MEDOID_SEEDINGS: Table[MedoidSeeding] = Table(
    "init",
    {
        "hst": Entry(
            lambda space, k, weight, rng: hst_seed(space, k, weight, 1, rng),
            "Points chosen on a random tree over all points.",
            theorem="The expected cost is O(log n) times the optimum (Fan et al. 2023).",
        ),
        "k-median++": Entry(
            lambda space, k, weight, rng: kmedian_plusplus(space, k, weight, 1, rng),
            "Points drawn in proportion to their distance to those drawn before.",
            theorem="The expected cost is O(log k) times the optimum (Arthur, Vassilvitskii 2007).",
        ),
        "random": Entry(
            lambda space, k, _, rng: rng.permutation(space.n)[:k].astype(np.int64),
            "Points drawn uniformly.",
            lost="Points drawn uniformly can miss a far cluster.",
        ),
    },
)
