"""Golden cases of PrivateKMeans, with noise that is the same every time.

Such noise is allowed in a test only, so these cases run under pytest. Unseeded generators of numpy
are given seeds from a counter that starts at 0 in every case.
"""

import importlib
import itertools
import pkgutil
import sys
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from privacy.repeatable_noise import repeatable_noise

import kvariates
from kvariates import PrivateKMeans

METHODS = (
    "auto", "tree", "forgy", "gupt", "sample-aggregate", "lloyd", "grid", "kvariates",
    "kvariates-laplace", "kvariates-conditional",
)  # fmt: skip
SIDES = ("add-remove", "replace-one")
SHAPES = ((900, 2, 4), (700, 8, 3), (500, 20, 5))


def find(name):
    """The object of this name in whichever module of the package has it."""
    for module in [module for key, module in sys.modules.items() if key.startswith("kvariates")]:
        if hasattr(module, name):
            return getattr(module, name)
    for found in pkgutil.walk_packages(kvariates.__path__, "kvariates."):
        module = importlib.import_module(found.name)
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(f"No module of kvariates has {name}.")


@contextmanager
def repeatable():
    """Repeatable noise, and a seed for every generator that is made without one."""
    made, count = np.random.default_rng, [0]

    def seeded(seed=None):
        if seed is None:
            seed, count[0] = [2024, count[0]], count[0] + 1
        return made(seed)

    with (
        repeatable_noise(11),
        patch.object(np.random, "default_rng", seeded),
    ):
        yield


def inside(n, d):
    """Rows in the box from -1 to 1: three clusters and some rows at the border."""
    rng = np.random.default_rng([n, d, 8])
    middles = rng.uniform(-0.8, 0.8, (3, d))
    return np.clip(middles[rng.integers(3, size=n)] + 0.1 * rng.normal(size=(n, d)), -1, 1)


def fit(n, d, k, *, domain="box", method="auto", **options):
    X = inside(n, d)
    where = {"bounds": (-1.0, 1.0)}
    if domain == "ball":
        where = {"radius": 0.9 * float(np.sqrt(d)), "center": np.full(d, 0.1)}
    elif domain == "sides":
        where = {"bounds": (-np.linspace(0.5, 1, d), np.linspace(1, 2, d))}
    if method == "conditional":
        method = find("Conditional")(delta_w=0.5)
    options = {"epsilon": 2.0, **options}
    with repeatable():
        model = PrivateKMeans(k, method=method, **where, **options).fit(X)
    new = X[:40]
    seen = [model.predict(new), model.transform(new), model.score(new)] if n else []
    return [[model.cluster_centers_, *seen], [str(model.ledger_), str(model.condition_)]]


def cases():
    """Every method with every adjacency, budget and domain; two of the three shapes each."""
    product = itertools.product(
        enumerate((*METHODS, "conditional")), enumerate(SIDES), enumerate((0.0, 1e-6)),
        enumerate(("box", "ball")),
    )  # fmt: skip
    for (m, method), (a, side), (b, delta), (c, domain) in product:
        for turn in range(1 if method == "kvariates-conditional" else 2):
            n, d, k = SHAPES[(m + a + b + c + turn) % 3]
            how = {"method": method, "adjacency": side, "delta": delta, "domain": domain}
            how |= {"n": n, "d": d, "k": k}
            name = f"method={method} adjacency={side} delta={delta} domain={domain} {n}x{d} k={k}"
            yield f"private/{name}", lambda how=how: fit(**how)
    more = {
        f"tree 400x150 {side} delta={delta} {domain}": {
            "n": 400, "d": 150, "k": 3, "method": "tree", "adjacency": side, "delta": delta,
            "domain": domain, "epsilon": 20.0,
        }
        for side, delta, domain in itertools.product(SIDES, (0.0, 1e-6), ("box", "ball"))
    }  # fmt: skip
    for method in METHODS[:-1]:
        more[f"{method} sides"] = {"n": 600, "d": 3, "k": 3, "method": method, "domain": "sides"}
        more[f"{method} epsilon=0.05"] = {
            "n": 300, "d": 2, "k": 4, "method": method, "epsilon": 0.05,
        }  # fmt: skip
        more[f"{method} no rows"] = {"n": 0, "d": 2, "k": 3, "method": method}
        more[f"{method} one cluster"] = {"n": 300, "d": 5, "k": 1, "method": method, "delta": 1e-5}
        more[f"{method} 20001x3"] = {"n": 20001, "d": 3, "k": 6, "method": method, "delta": 1e-7}
    for what, how in more.items():
        yield f"private more/{what}", lambda how=how: fit(**how)
