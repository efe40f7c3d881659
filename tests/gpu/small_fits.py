"""Small fits that start every kernel, for `compute-sanitizer`, under which they take long.

`python tests/gpu/small_fits.py` prints how many results differ from the CPU's, and ends with 1 if
any does. No library but NumPy puts kernels of its own beside ours.
"""

import sys
import warnings

import numpy as np

from kvariates import KMeans

SHAPES = ((700, 20, 9), (300, 3, 40), (130, 130, 5))  # n, d, k


def cases():
    rng = np.random.default_rng(0)
    for n, d, k in SHAPES:
        X = rng.normal(size=(n, d)).astype(np.float32)
        weight = rng.integers(0, 3, n).astype(float)
        yield X, k, {"init": "k-means++"}, None
        yield X, k, {"init": "d2", "metric": "cosine"}, weight
        yield X.astype(np.float64), k, {"init": X[:k], "n_init": 1}, weight
        yield X.astype(np.float16), k, {"init": "k-means||"}, None
    # More clusters than different rows: empty clusters are filled.
    yield np.repeat(rng.normal(size=(6, 5)), 20, axis=0), 12, {"init": "d2"}, None


def results(X, k, device, options, weight):
    model = KMeans(k, device=device, random_state=0, max_iter=4, **options)
    model.fit(X, sample_weight=weight)
    found = model.cluster_centers_, model.labels_, model.predict(X), model.transform(X)
    return *found, np.float64(model.inertia_), np.float64(model.score(X))


def main():
    warnings.simplefilter("ignore")
    wrong = 0
    for number, (X, k, options, weight) in enumerate(cases()):
        cpu, card = (results(X, k, device, options, weight) for device in ("cpu", "cuda"))
        wrong += any(a.tobytes() != b.tobytes() for a, b in zip(cpu, card, strict=True))
        print(f"fit {number + 1}: {wrong} differ so far", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
