"""The private methods by name: what `PrivateKMeans(method=...)` takes, and what every test walks.

A method with other choices is an object: ``PrivateKMeans(..., method=NoisyLloyd(steps=3))``. A
method that needs a choice has `check()`, which raises before a budget is spent.
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

METHODS: dict[str, Method] = {
    "auto": AutoMethod(),
    "tree": TreeMethod(),
    "forgy": NoisyForgy(),
    "gupt": Gupt(),
    "sample-aggregate": SampleAggregate(),
    "lloyd": NoisyLloyd(),
    "grid": GridMethod(),
    "kvariates": Floored(),
    "kvariates-laplace": WithLaplace(),
    "kvariates-conditional": Conditional(),
}
