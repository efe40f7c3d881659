"""Embeddings as data of benchmarks: real ones, made ones with their spectrum; MNIST, uniform rows.

The real ones are 20,000 sentence embeddings of 384 features. Made rows are drawn so that k-means
meets what it meets there:

- The variances of the principal axes fall as those of the real set, stretched to any number of
  features: of 384, the first 16, 64 and 192 hold 31, 65 and 92 % (real: 30, 62 and 92 %).
- A row is a mean (length 0.4), a topic and noise, both with this spectrum, scaled to length 1. The
  sizes of the 3,000 topics fall by a power law. With 200 and 1,000 centres the cost of 20,000 made
  rows of 384 features is 0.73 and 0.58 of their variance; that of the real ones 0.70 and 0.57.
- A random rotation hides the axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.workloads import Array, data_folder

FILES = {"real": "embeddings/sentences384.npz", "mnist": "mnist/mnist70k.npz"}
TOPICS, SHARE, ZIPF, MEAN = 3_000, 0.55, 0.75, 0.4


@dataclass(frozen=True)
class Rows:
    """Rows to cluster, float32. `kind`: real, mnist, made or uniform."""

    kind: str
    n: int
    d: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.n / 1000:g}kx{self.d}"

    @property
    def missing(self) -> bool:
        return self.kind in FILES and not (data_folder() / FILES[self.kind]).exists()

    def make(self) -> Array:
        rng = np.random.default_rng([self.n, self.d])
        if self.kind == "uniform":
            return rng.random((self.n, self.d), dtype=np.float32)
        return made(rng, self.n, self.d) if self.kind == "made" else read(self.kind, self.n)

    def start(self, X: Array, k: int) -> Array:
        """k distinct random rows."""
        rows = np.random.default_rng(k).choice(len(X), k, replace=False)
        return np.ascontiguousarray(X[np.sort(rows)])


def read(kind: str, n: int) -> Array:
    """The first rows of a file; pixels are from 0 to 1."""
    with np.load(data_folder() / FILES[kind]) as file:
        X = np.ascontiguousarray(file["X"][:n], dtype=np.float32)
    return X / 255 if kind == "mnist" else X


def spectrum(d: int) -> Array:
    """Variances of the principal axes; their sum is 1."""
    part = (np.arange(d) + 0.5) / d
    variances: Array = (part + 0.02) ** -0.8 * (1 - part)
    return variances / variances.sum()


def made(rng: np.random.Generator, n: int, d: int) -> Array:
    scale = np.sqrt(spectrum(d)).astype(np.float32)
    shares = np.arange(1, TOPICS + 1) ** -ZIPF
    topic = rng.choice(TOPICS, n, p=shares / shares.sum())
    topics = rng.standard_normal((TOPICS, d), np.float32) * (np.sqrt(SHARE) * scale)
    X = rng.standard_normal((n, d), np.float32)
    X *= np.sqrt(1 - SHARE) * scale
    X += topics[topic]
    mean = rng.standard_normal(d, np.float32)
    X += MEAN / np.linalg.norm(mean) * mean
    X = X @ np.linalg.qr(rng.standard_normal((d, d), np.float32))[0]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return np.ascontiguousarray(X, dtype=np.float32)
