"""The private methods by the names of ``PrivateKMeans(method=...)``.

A method with other choices is an object: ``PrivateKMeans(..., method=NoisyLloyd(steps=3))``. A
method that needs a choice has `check()`, which raises before a budget is spent. `theorem` is the
proof page in `privacy/proofs`.
"""

from __future__ import annotations

from kvariates.private_methods.auto_method import AutoMethod
from kvariates.private_methods.noisy_forgy import NoisyForgy
from kvariates.private_methods.noisy_grid import GridMethod
from kvariates.private_methods.noisy_kvariates import Conditional, Floored, WithLaplace
from kvariates.private_methods.noisy_lloyd import NoisyLloyd
from kvariates.private_methods.noisy_tree import TreeMethod
from kvariates.private_methods.sample_aggregate import Gupt, SampleAggregate
from kvariates.private_methods.task import Method
from kvariates.tables import Entry, Table

PRIVATE_METHODS: Table[Method] = Table(
    "method",
    {
        "auto": Entry(
            AutoMethod(),
            "Chooses tree, grid or lloyd by the budget, n_clusters and the size of the data.",
            theorem="auto.md",
        ),
        "tree": Entry(
            TreeMethod(),
            "An adaptive partition with noisy moments, along noisy principal axes; k-means on its "
            "leaves; noisy Lloyd steps from there.",
            theorem="tree.md",
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
