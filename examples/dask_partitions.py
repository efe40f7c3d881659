"""
k-means on Dask: any partitions, the same centres
=================================================

Partitions answer questions about their rows; sums, counts and costs travel, and k rows as first
centres. Here threads of one process are the workers.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

from kvariates.dask import KMeans

rng = np.random.default_rng(0)
X = rng.normal(size=(80_000, 4)) + 6 * rng.integers(5, size=(80_000, 1))
parts = [1, 2, 4, 8]
with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None):
    fits = [KMeans(5, random_state=0).fit(da.from_array(X, chunks=(len(X) // n, 4))) for n in parts]
for n, model in zip(parts, fits, strict=True):
    same = np.array_equal(model.cluster_centers_, fits[0].cluster_centers_)
    print(f"{n} partitions: same centres: {same}; {model.transcript_.points_revealed} rows shown")

# %%
# What travels grows with the number of partitions, not with the number of rows.
sent = [(m.transcript_.bytes_sent + m.transcript_.bytes_received) / 1024 for m in fits]
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.bar([str(n) for n in parts], sent)
ax.set(xlabel="partitions", ylabel="KiB sent", title=f"of {X.nbytes / 1024:,.0f} KiB of rows")
plt.show()
