"""Rows and centres on which labels are easily wrong. All are made by a generator of NumPy.

| family | why it is hard |
|---|---|
| lattice | many distances are equal, and so are rows |
| duplicates | there are fewer different rows than clusters |
| wide | the sizes of columns differ by all that the type can hold |
| far | digits cancel, because all rows are far from the origin |
| subnormal | squares vanish, in float16 and float32 also the values |
| near | rows differ in their last bits only |
| tails | a few values are thousands of times as large as the others |
| one huge row | which decides every scale |
| zeros | most values are 0 or -0 |
"""

import numpy as np

FAMILIES = (
    "normal", "clusters", "lattice", "duplicates", "wide", "far", "subnormal", "near", "tails",
    "one huge row", "zeros",
)  # fmt: skip
# By dtype: exponents of ten of the least and the largest column; how far away; a tiny factor.
WIDE = {"float16": (-7, 4), "float32": (-20, 20), "float64": (-100, 100)}
FAR = {"float16": 2e3, "float32": 1e6, "float64": 1e12}
TINY = {"float16": 1e-7, "float32": 1e-40, "float64": 1e-310}
LARGE = {"float16": 3e4, "float32": 1e25, "float64": 1e60}


def rows(family, n, d, dtype, rng):
    X = rng.standard_normal((n, d))
    if family == "clusters":
        X = 0.1 * X + 4 * rng.standard_normal((20, d))[rng.integers(20, size=n)]
    elif family == "lattice":
        X = rng.integers(0, 3, (n, d)).astype(float) + 1
    elif family == "duplicates":
        X = X[rng.integers(max(1, n // 9), size=n)]
    elif family == "wide":
        X *= np.logspace(*WIDE[dtype], d)
    elif family == "far":
        X += FAR[dtype] * rng.choice([-1.0, 1.0], d)
    elif family == "subnormal":
        X *= TINY[dtype]
    elif family == "near":
        ulps = rng.integers(-2, 3, (n, d))
        X = X[:1] * (1 + ulps * float(np.finfo(dtype).eps))
    elif family == "tails":
        X *= np.minimum(rng.random((n, d)) ** -2.0, 1e3 if dtype == "float16" else 1e4)
    elif family == "one huge row":
        X[n // 2] *= LARGE[dtype] / 4
    elif family == "zeros":
        X *= rng.random((n, d)) < 0.1
        X[rng.random((n, d)) < 0.2] = -0.0
    most = float(np.finfo(dtype).max) / 8
    return np.clip(X, -most, most).astype(dtype)


CENTERS = "rows", "midpoints", "ulps", "same", "others", "means"


def centers(kind, X, k, rng):
    """k centres of a kind, in the dtype of fitted ones."""
    dtype = np.float32 if X.dtype == np.float16 else X.dtype
    some = X[rng.integers(len(X), size=k)].astype(dtype)
    if kind == "midpoints":  # pairs, in the middle of which is a row
        side = np.where(np.arange(k) % 2, 1, -1).astype(dtype)[:, None]
        step = np.abs(some).max(axis=0) / 8
        return np.repeat(some[::2], 2, axis=0)[:k] + side * step
    if kind == "ulps":
        ulps = rng.integers(-1, 2, some.shape).astype(dtype)
        return some[:1] + ulps * np.spacing(np.abs(some[:1]))
    if kind == "same":
        return np.repeat(some[:1], k, axis=0)
    if kind == "others":
        return (some * rng.choice([0.5, 1, 1.5], some.shape)).astype(dtype)
    if kind == "means":
        return ((some.astype(float) + some[::-1]) / 2).astype(dtype)
    return some
