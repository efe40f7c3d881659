"""The data of `benchmarks.private`, in the unit ball, and their cost without privacy.

| sets | where they come from | k |
|---|---|---|
| compared | `shared/bench/private_sets.py`, prepared there, with peers' figures | as there |
| others | sets that were not used to choose constants, centred and scaled alike | 8, 16, 100 |

Mean and radius of each set count as public here, as they did for the peers. For real data, bounds
must be known without the data.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import Array, data_folder, inertia

# What "auto" must reach at epsilon = 1, delta = 1e-6.
TARGETS = {
    ("europediff", 8): 1.10,
    ("europediff", 16): 1.15,
    ("blobs16", 8): 1.01,
    ("blobs16", 16): 1.05,
    ("adult", 8): 1.03,
    ("adult", 16): 1.05,
    ("gas", 8): 1.08,
    ("gas", 16): 1.12,
    ("letter", 8): 1.04,
    ("letter", 16): 1.07,
    ("mnist784", 10): 1.02,
    ("mix64", 64): 1.20,
}


@dataclass(frozen=True)
class Problem:
    """A set and a number of centres, with the peers' figures and the target where there are any."""

    name: str
    k: int
    peer: tuple[float, ...] = ()  # by epsilon
    target: float | None = None


def compared() -> list[Problem]:
    """The sets with peers' figures. RuntimeError if the file that prepares them is missing."""
    best = _prepared().BEST_PEER
    return [Problem(name, k, best[name, k], target) for (name, k), target in TARGETS.items()]


def others() -> list[Problem]:
    return [Problem(name, k) for name, (_, ks) in OTHERS.items() for k in ks]


@lru_cache(maxsize=1)
def load(name: str) -> Array:
    return in_ball(OTHERS[name][0]()) if name in OTHERS else np.asarray(_prepared().load(name))


def in_ball(X: Array) -> Array:
    """Centred and scaled as in `private_sets.load`."""
    X = X - X.mean(axis=0)
    return np.asarray(X / np.linalg.norm(X, axis=1).max())


def large_rows(what: str) -> Array:
    """MNIST, or overlapping blobs in the unit ball, by a name such as "1,000 x 10, k = 20"."""
    if what.startswith("MNIST"):
        return load("mnist784")
    n, d, k = map(int, re.findall(r"\d+", what.replace(",", "")))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X *= 0.05
    means = rng.uniform(-1, 1, (k, d)) / np.sqrt(2 * d)
    for start in range(0, n, 10**6):  # in blocks, to keep other arrays small
        X[start : start + 10**6] += means[rng.integers(k, size=min(10**6, n - start))]
    return X


@cache
def cost_without_privacy(name: str, k: int) -> float:
    """The cost of scikit-learn's KMeans, the best of three starts."""
    from sklearn.cluster import KMeans

    X = load(name)
    return inertia(X, KMeans(k, n_init=3, random_state=0).fit(X).cluster_centers_)


@cache
def _prepared() -> Any:
    file = data_folder().parent / "bench" / "private_sets.py"
    if not file.exists():
        raise RuntimeError("no bench/private_sets.py beside the data folder (KVARIATES_DATA)")
    spec = importlib.util.spec_from_file_location("private_sets", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the others ------------------------------------------------------------------------------


def _table(path: str) -> Array:
    with np.load(data_folder() / path, allow_pickle=False) as file:
        return np.asarray(file["X"], dtype=np.float64)


def _unit_box(X: Array) -> Array:
    low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray((X - low) / np.where(high > low, high - low, 1.0))


def _cities() -> Array:
    """Points of the unit sphere."""
    path: Path = data_folder() / "geo_demo" / "world_cities15000.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        places = [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)]
    lat, lon = np.radians(np.array(places)).T
    return np.c_[np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]


def _pickups() -> Array:
    """Longitude and latitude, clipped to a public box around the town."""
    with np.load(data_folder() / "geo_demo" / "nyc_uber_pickups_2014.npz") as file:
        places = np.c_[file["lon"], file["lat"]]
    return np.clip(places, [-74.3, 40.45], [-73.6, 41.0])


OTHERS: dict[str, tuple[Callable[[], Array], tuple[int, ...]]] = {
    "birch1": (lambda: _table("sipu/birch1.npz"), (16, 100)),
    "pickups": (_pickups, (8, 16)),
    "cities": (_cities, (8, 16)),
    "skin": (lambda: _table("uci/skin_segmentation.npz"), (8, 16)),
    "elec": (lambda: _table("streaming/elec.npz"), (8, 16)),
    "california": (lambda: _unit_box(_table("uci/california_housing.npz")), (8, 16)),
    "higgs": (lambda: _table("uci/higgs_7500.npz"), (8, 16)),
    "covertype": (lambda: _unit_box(_table("uci/covertype.npz")), (8, 16)),
}
