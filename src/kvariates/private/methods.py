"""The private methods by name: what `PrivateKMeans(method=...)` takes, and what every test walks.

A method with other choices is made by hand: ``PrivateKMeans(..., method=Lloyd(steps=3))``. One that
cannot do without a choice has `check()`, which raises before a budget is spent.
"""

from __future__ import annotations

from kvariates.private.aggregate import Gupt, SampleAggregate
from kvariates.private.auto import Auto
from kvariates.private.forgy import Forgy
from kvariates.private.grid import Grid
from kvariates.private.kvariates import Conditional, Floored, WithLaplace
from kvariates.private.lloyd import Lloyd
from kvariates.private.task import Method
from kvariates.private.tree import Tree

METHODS: dict[str, Method] = {
    "auto": Auto(),
    "tree": Tree(),
    "forgy": Forgy(),
    "gupt": Gupt(),
    "sample-aggregate": SampleAggregate(),
    "lloyd": Lloyd(),
    "grid": Grid(),
    "kvariates": Floored(),
    "kvariates-laplace": WithLaplace(),
    "kvariates-conditional": Conditional(),
}
