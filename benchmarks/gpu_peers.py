"""The libraries of `python -m benchmarks.gpu`, each behind the same functions.

| name | what runs |
|---|---|
| kvariates | `KMeans(device="cuda")`; its fit ends with a pass for labels and cost, timed too |
| flash | flash-kmeans: `batch_kmeans_Euclid` |
| flashlib | FlashLib: `flash_kmeans`, with the kernel that it chooses itself |
| torch | a few lines: products in float32 (no TF32), `argmin`, `index_add_` |

"float16" after a name: rows and start are float16, which is what its speed comes from. The wheels
of flash-kmeans and FlashLib may lie in a folder: they are imported without being installed.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_data import torch

CHUNK = 2**28  # float32 values of torch's table of distances: 1 GiB


@dataclass(frozen=True)
class Fitted:
    """Centres, and how many iterations led to them."""

    centers: Any
    n_iter: int
    model: Any = None


@dataclass(frozen=True)
class Library:
    """`lloyd(X, start, iterations)` is timed. `labels(X, fitted)`: of the last centres."""

    name: str
    dtype: str
    lloyd: Callable[[Any, Any, int], Fitted]
    labels: Callable[[Any, Fitted], Any]

    def rows(self, X: Any) -> Any:
        return X.to(getattr(torch(), self.dtype))


def add_wheels(folder: Path | None) -> None:
    """flash-kmeans and FlashLib hold only Python: their wheels can be imported as they are."""
    if folder is not None:
        sys.path[:0] = [str(wheel) for wheel in sorted(folder.glob("flash*.whl"))]


def library(name: str) -> Library:
    """ImportError if it is not installed."""
    base, _, dtype = name.partition(" ")
    made = {"kvariates": _ours, "flash": _flash, "flashlib": _flashlib, "torch": _torch}[base]
    lloyd, labels = made()
    return Library(name, dtype or "float32", lloyd, labels)


# --- ours -----------------------------------------------------------------------------------------


def fit_ours(X: Any, k: int, device: str | None = None, **options: Any) -> Any:
    """A fitted `kvariates.KMeans`, on the device where X is unless another one is given."""
    import kvariates

    device = device or ("cuda" if getattr(X, "is_cuda", False) else "cpu")
    with warnings.catch_warnings():  # of fewer clusters than k, in quick runs
        warnings.simplefilter("ignore")
        return kvariates.KMeans(k, device=device, **options).fit(X)


def on_host(values: Any) -> Any:
    """A NumPy array of an array of NumPy, CuPy or torch."""
    if hasattr(values, "cpu"):
        return values.cpu().numpy()
    return values.get() if hasattr(values, "get") else np.asarray(values)


def _ours() -> Any:
    def lloyd(X: Any, start: Any, iterations: int) -> Fitted:
        init = start if isinstance(start, np.ndarray) else on_host(start)
        model = fit_ours(X, len(init), init=init, n_init=1, max_iter=iterations, tol=0.0)
        return Fitted(torch().as_tensor(model.cluster_centers_), model.n_iter_, model)

    def labels(X: Any, fitted: Fitted) -> Any:
        return torch().as_tensor(fitted.model.labels_)

    return lloyd, labels


# --- others ---------------------------------------------------------------------------------------


def _batched(kmeans: Callable[..., Any]) -> Any:
    """The function of flash-kmeans or FlashLib: batches of rows, and no tolerance."""

    def lloyd(X: Any, start: Any, iterations: int) -> Fitted:
        _, centers, n_iter = kmeans(
            X[None], len(start), max_iters=iterations, tol=-1.0, init_centroids=start[None].clone()
        )
        return Fitted(centers[0], int(n_iter))

    def labels(X: Any, fitted: Fitted) -> Any:
        """Of one more iteration: those that a fit returns belong to the centres before."""
        centers = fitted.centers[None].clone()
        given = kmeans(X[None], len(centers[0]), max_iters=1, tol=-1.0, init_centroids=centers)
        return given[0][0]

    return lloyd, labels


def _flash() -> Any:
    return _batched(importlib.import_module("flash_kmeans").batch_kmeans_Euclid)


def _flashlib() -> Any:
    return _batched(importlib.import_module("flashlib.primitives.kmeans").flash_kmeans)


def flash_from_random_rows(X: Any, k: int, most: int, shift: float, seed: int) -> Fitted:
    """As its users call it, until no centre moves further than `shift`."""
    kmeans = importlib.import_module("flash_kmeans").batch_kmeans_Euclid
    torch().manual_seed(seed)
    _, centers, n_iter = kmeans(X[None], k, max_iters=most, tol=shift)
    return Fitted(centers[0], int(n_iter))


def _torch() -> Any:
    t = torch()
    t.backends.cuda.matmul.allow_tf32 = False

    def nearest(X: Any, centers: Any) -> Any:
        labels = t.empty(len(X), dtype=t.int64, device=X.device)
        half = (centers * centers).sum(1) / 2
        size = max(1, CHUNK // len(centers))
        for first in range(0, len(X), size):
            part = slice(first, first + size)
            labels[part] = t.addmm(half, X[part], centers.T, alpha=-1).argmin(1)
        return labels

    def lloyd(X: Any, start: Any, iterations: int) -> Fitted:
        centers = start.clone()
        for _ in range(iterations):
            labels = nearest(X, centers)
            sums = t.zeros_like(centers).index_add_(0, labels, X)
            counts = t.bincount(labels, minlength=len(centers))[:, None]
            centers = t.where(counts > 0, sums / counts.clamp(min=1), centers)
        return Fitted(centers, iterations)

    def labels(X: Any, fitted: Fitted) -> Any:
        return nearest(X, fitted.centers)

    return lloyd, labels
