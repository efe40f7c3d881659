"""The data of the benchmarks. The array of a workload is made when the workload runs.

| data | what |
|---|---|
| uniform | the unit cube: no structure, so bounds save least |
| clustered | k Gaussian clusters that touch: the next centre is five standard deviations away |
| MNIST | 70,000 x 784, pixels divided by 255 |
| Covertype | 581,012 x 54, every column standardised |
| 20 Newsgroups | CSR, tf-idf of the word counts, rows of unit length |
| raw tables | columns as they are: UCI sets, heavy tails, mixed scales, one far row |
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]
Data = Any  # Array or scipy.sparse.csr_array
ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path:
    """The folder of the real data sets; it may not exist."""
    return Path(os.environ.get("KVARIATES_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Workload:
    """One array to cluster: `make()` builds it, C-contiguous, in `dtype`."""

    data: str
    n: int
    d: int
    k: int
    dtype: str
    build: Callable[[Workload], Data]
    file: str | None = None
    is_sparse: bool = False
    is_raw: bool = False

    @property
    def name(self) -> str:
        size = f"{self.n // 1000}k" if self.n < 1_000_000 else f"{self.n // 1_000_000}M"
        return f"{self.data} {size}x{self.d} k={self.k} f{self.dtype[-2:]}"

    @property
    def missing(self) -> bool:
        return self.file is not None and not (data_folder() / self.file).exists()

    @property
    def rng(self) -> np.random.Generator:
        """The same generator for both dtypes, so that both have the same points."""
        return np.random.default_rng(zlib.crc32(self.name[:-4].encode()))

    def make(self) -> Data:
        return self.build(self)

    def start(self, X: Data) -> Array:
        """k distinct random rows, sorted."""
        rows = np.sort(self.rng.choice(self.n, self.k, replace=False))
        return X[rows].toarray() if self.is_sparse else np.ascontiguousarray(X[rows])


def bytes_of(X: Data) -> int:
    if sparse.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def uniform(work: Workload) -> Array:
    return work.rng.random((work.n, work.d)).astype(work.dtype, copy=False)


def clustered(work: Workload) -> Array:
    rng = work.rng
    centres = rng.random((work.k, work.d))
    to_next = np.sqrt(_squared_distances(centres, centres) + np.diag(np.full(work.k, np.inf)))
    sigma = np.median(to_next.min(axis=1)) / 5
    X = rng.standard_normal((work.n, work.d))
    X *= sigma
    X += centres[rng.integers(work.k, size=work.n)]
    return X.astype(work.dtype, copy=False)


def mnist(work: Workload) -> Array:
    X = np.ascontiguousarray(_load(work)["X"][: work.n], dtype=work.dtype)
    X /= 255
    return X


def covertype(work: Workload) -> Array:
    X = np.ascontiguousarray(_load(work)["X"], dtype=np.float64)
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X.astype(work.dtype, copy=False)


def newsgroups(work: Workload) -> Data:
    assert work.file is not None
    return tf_idf(data_folder() / work.file, work.dtype)


def tf_idf(counts: Path, dtype: str) -> Data:
    """CSR weights of unit length, from a file of word counts."""
    from sklearn.feature_extraction.text import TfidfTransformer

    read = sparse.csr_array(sparse.load_npz(counts)).astype(np.float64)
    weights = sparse.csr_array(TfidfTransformer().fit_transform(read)).astype(dtype)
    weights.sort_indices()
    return weights


def standardised(X: Array) -> Array:
    """The same rows with columns of mean 0 and deviation 1; constant columns are 0."""
    spread = X.std(axis=0, dtype=np.float64)
    Z = (X - X.mean(axis=0, dtype=np.float64)) / np.where(spread > 0, spread, 1)
    return np.ascontiguousarray(Z, dtype=X.dtype)


def uci(work: Workload) -> Array:
    return np.ascontiguousarray(_load(work)["X"], dtype=work.dtype)


def cauchy(work: Workload) -> Array:
    return work.rng.standard_cauchy((work.n, work.d)).astype(work.dtype)


def lognormal(work: Workload) -> Array:
    return work.rng.lognormal(0, 2, (work.n, work.d)).astype(work.dtype)


def mixed(work: Workload) -> Array:
    """Blobs whose columns have scales from 1e-4 to 1e4."""
    scales = np.logspace(-4, 4, work.d)
    return (clustered(work).astype(np.float64) * scales).astype(work.dtype)


def far_row(deviations: float) -> Callable[[Workload], Array]:
    def build(work: Workload) -> Array:
        X = clustered(work)
        X[work.n // 2] = deviations * X.std(axis=0)
        return X

    return build


def _load(work: Workload) -> Any:
    assert work.file is not None
    return np.load(data_folder() / work.file, allow_pickle=False)


def _squared_distances(A: Array, B: Array) -> Array:
    """By dot products, which is accurate enough here. Pre: float64."""
    squares: Array = (A * A).sum(axis=1)[:, None] - 2 * (A @ B.T) + (B * B).sum(axis=1)
    return squares.clip(min=0)


def inertia(X: Data, centres: Array) -> float:
    """The cost of these centres in float64, computed in the same way for every library."""
    origin = np.zeros(centres.shape[1]) if sparse.issparse(X) else X[:1000].mean(0, dtype=float)
    C = centres.astype(np.float64) - origin
    cost = 0.0
    for first in range(0, X.shape[0], 8192):
        rows = X[first : first + 8192]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        cost += float(_squared_distances(rows.astype(np.float64) - origin, C).min(axis=1).sum())
    return cost


SHAPES = ((100_000, 16, 64), (100_000, 64, 256), (20_000, 784, 100), (1_000_000, 2, 64))
QUICK_SHAPES = ((10_000, 16, 32), (2_000, 784, 20), (50_000, 2, 32))
DTYPES = ("float32", "float64")


def dense(quick: bool) -> list[Workload]:
    made = [
        Workload(kind.__name__, n, d, k, dtype, kind)
        for n, d, k in (QUICK_SHAPES if quick else SHAPES)
        for kind in (uniform, clustered)
        for dtype in DTYPES
    ]
    rows = 5_000 if quick else 70_000
    for dtype in DTYPES:
        made.append(Workload("MNIST", rows, 784, 100, dtype, mnist, "mnist/mnist70k.npz"))
        if not quick:
            file = "uci/covertype.npz"
            made.append(Workload("Covertype", 581_012, 54, 64, dtype, covertype, file))
    return made


def csr() -> list[Workload]:
    file = "sparse_text/20newsgroups_counts.npz"
    return [
        Workload("20news", 18_821, 29_408, 20, dtype, newsgroups, file, True) for dtype in DTYPES
    ]


def raw() -> list[Workload]:
    """Tables that nobody scaled."""
    tables = (
        ("adult", 48_842, 6, 32, "uci/adult_numeric.npz"),
        ("california", 20_640, 8, 32, "uci/california_housing.npz"),
        ("covertype", 581_012, 54, 64, "uci/covertype.npz"),
        ("gas", 36_733, 11, 32, "uci/gas_turbine.npz"),
        ("kddcup", 494_021, 38, 32, "uci/kddcup99_10pct.npz"),
        ("spambase", 4_601, 57, 16, "uci/spambase.npz"),
    )
    made = [
        Workload(f"raw {name}", n, d, k, "float64", uci, file, is_raw=True)
        for name, n, d, k, file in tables
    ]
    builders = {
        "cauchy": cauchy, "lognormal": lognormal, "mixed scales": mixed,
        "row at 1e3": far_row(1e3), "row at 1e9": far_row(1e9),
    }  # fmt: skip
    return made + [
        Workload(name, 100_000, 16, 64, dtype, build, is_raw=True)
        for name, build in builders.items()
        for dtype in DTYPES
    ]
