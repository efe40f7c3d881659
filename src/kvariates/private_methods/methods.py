"""The private methods by the names of ``PrivateKMeans(method=...)`` and ``PrivateKMedian``.

A method with other choices is an object: ``PrivateKMeans(..., method=NoisyLloyd(steps=3))``,
``PrivateKMedian(..., method=DemandCells(first=40))``. `theorem` is the proof page in
`privacy/proofs`. `AutoMethod` chooses for k-means:

| budget | features | epsilon n / (k d) | method |
|---|---|---|---|
| delta > 0 | any | any | `tree` |
| pure epsilon | up to three | below 3000 | `grid` |
| pure epsilon | more | below 50 | `candidates` |
| pure epsilon | any | above | `tree` |

With pure epsilon the noise of sums of d features is sqrt(d) times as wide, and every level and step
needs a share of epsilon. So with few rows the noise is too large for the tree. A grid has a single
release of counts, and `candidates` has few sums and no second moments. (Both release a
number of rows for themselves, too.) `docs/private.md` has the figures. For k-median "cells" had the
least cost in every row of the figures of `docs/kmedian.md`, so "auto" is "cells".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvariates.private_methods.candidates import Candidates
from kvariates.private_methods.demand_candidates import DemandCandidates
from kvariates.private_methods.demand_counts import DemandCells, DemandHst
from kvariates.private_methods.noisy_grid import GridMethod
from kvariates.private_methods.noisy_kvariates import Conditional, Floored, NoisyForgy, WithLaplace
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.private_methods.noisy_tree import TreeMethod
from kvariates.private_methods.private_swaps import DemandLocalSearch
from kvariates.private_methods.sample_aggregate import Gupt, SampleAggregate
from kvariates.private_methods.task import (
    DemandTask,
    PrivateMethod,
    PrivateResult,
    PrivateTask,
    Traits,
)
from kvariates.tables import Entry, Table

COUNT_SHARE = 0.01  # of the budget, if the number of rows is secret
FEW = 3  # features up to which a grid is used
ENOUGH_FEW, ENOUGH = 3000.0, 50.0  # epsilon n / (k d) from which the tree is used


# proof: auto.md
@dataclass(frozen=True)
class AutoMethod(PrivateMethod[PrivateTask]):
    """The method that was best in tests, by a rule that looks at no data but a noisy count."""

    traits = Traits(counts=True)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        if not task.pure:
            return TreeMethod()(task)
        task, d = task.without_charges(), task.domain.d
        count = task.row_count(COUNT_SHARE)
        rest = task.with_part(count.costs[0])
        enough, otherwise = (ENOUGH_FEW, GridMethod()) if d <= FEW else (ENOUGH, Candidates())
        many = task.loss.epsilon * count.n >= enough * task.k * d
        result = (TreeMethod() if many else otherwise)(rest)
        return replace(result, charges=(*task.charges, *result.charges))


PRIVATE_METHODS: Table[PrivateMethod[PrivateTask]] = Table(
    "method",
    {
        "auto": Entry(
            AutoMethod(),
            "Chooses tree, grid or candidates by the budget, n_clusters and the size of the data.",
            theorem="auto.md",
        ),
        "tree": Entry(
            TreeMethod(),
            "An adaptive partition with noisy moments, along noisy principal axes; k-means on its "
            "leaves; noisy Lloyd steps from there.",
            theorem="tree.md",
        ),
        "candidates": Entry(
            Candidates(),
            "Cubes with a random shift in few dimensions, private swaps of their centres, noisy "
            "means, noisy Lloyd steps (Balcan et al. 2017). Takes CSR rows, too.",
            theorem="candidates.md",
        ),
        "forgy": Entry(
            NoisyForgy(), "Rows drawn uniformly, with noise (Nock et al. 2016).", theorem="forgy.md"
        ),
        "gupt": Entry(
            Gupt(),
            "The noisy mean of k-means on many blocks of rows (Mohan et al. 2012).",
            theorem="aggregate.md",
        ),
        "sample-aggregate": Entry(
            SampleAggregate(),
            "Private medians of k-means on many blocks of rows (Nissim et al. 2007).",
            theorem="aggregate.md",
        ),
        "lloyd": Entry(
            NoisyLloyd(),
            "DP-Lloyd, SuLQ (Su et al. 2016; Blum et al. 2005): noisy means, from a public start.",
            theorem="lloyd.md",
        ),
        "grid": Entry(
            GridMethod(),
            "EUGkM (Su et al. 2016): noisy counts of a uniform grid, k-means on its cells.",
            theorem="grid.md",
        ),
        "kvariates": Entry(
            Floored(),
            "Floored k-variates++: rows drawn by distance, none too likely, with noise.",
            theorem="floored.md",
        ),
        "kvariates-laplace": Entry(
            WithLaplace(),
            "k-variates++ with noise that holds for any data (Nock et al. 2016, sigma_2).",
            theorem="kvariates.md",
        ),
        "kvariates-conditional": Entry(
            Conditional(),
            "k-variates++ with noise for a spread of the data that you assert (sigma_1).",
            theorem="kvariates.md",
            lost="It is private only if the data have the asserted spread.",
        ),
    },
)


PRIVATE_KMEDIAN_METHODS: Table[PrivateMethod[DemandTask]] = Table(
    "method",
    {
        "auto": Entry(
            DemandCells(),
            'The method with the least cost in tests: "cells".',
            theorem="demand_cells.md",
        ),
        "cells": Entry(
            DemandCells(),
            "Noisy demand of public cells, then of cells where the demand is; k-median on the "
            "estimated demand.",
            theorem="demand_cells.md",
        ),
        "hst": Entry(
            DemandHst(),
            "DP-HST (Fan et al. 2023): noisy counts on a random tree, then private swaps.",
            theorem="hst_counts.md",
        ),
        "local-search": Entry(
            DemandLocalSearch(),
            "Private swaps from random points (Gupta et al. 2010).",
            theorem="local_search.md",
        ),
        "candidates": Entry(
            DemandCandidates(),
            "Candidates of noisy cubes in few dimensions, then a private 1-median of each cell "
            "(Balcan et al. 2017, section 6.2). Euclidean distances only.",
            theorem="demand_candidates.md",
        ),
    },
)
