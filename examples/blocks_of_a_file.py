"""
A file, block by block: the same bits
=====================================

``blocks`` reads a file a few megabytes at a time. From the same first centres ``KMeans`` gives
the same bits as on all rows in memory, however the rows are cut: sums are exact integers.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans
from kvariates.sources import blocks

rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 2)) + 5 * rng.integers(4, size=(60_000, 2))
start = X[:16]
sizes = [2**16, 2**18, 2**20]
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, X)
    fits = [KMeans(16, init=start, n_init=1).fit(blocks(path, block_bytes=size)) for size in sizes]
in_memory = KMeans(16, init=start, n_init=1).fit(X)
for size, model in zip(sizes, fits, strict=True):
    same = np.array_equal(model.cluster_centers_, in_memory.cluster_centers_)
    print(f"blocks of {size:>9,} bytes: {model.n_iter_} iterations, same bits: {same}")

# %%
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.scatter(*X[::30].T, s=2, color="lightgrey")
ax.scatter(*in_memory.cluster_centers_.T, s=140, fc="none", ec="black", label="in memory")
for size, model, marker in zip(sizes, fits, "x+1", strict=True):
    ax.scatter(*model.cluster_centers_.T, marker=marker, label=f"blocks of {size // 1024} KiB")
ax.legend()
plt.show()
