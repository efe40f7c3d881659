"""
A stream with a rare, far cluster
=================================

A stream is summarized by weighted rows, a coreset. One row in a thousand is in a far cluster. A
uniform sample of the same size can miss it; the coreset keeps rows with a large share in the
cost.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans, StreamingKMeans

rng = np.random.default_rng(0)
centers = np.vstack([rng.uniform(0, 10, size=(6, 2)), [[300.0, 300.0]]])
group = np.where(rng.random(60_000) < 0.001, 6, rng.integers(6, size=60_000))
X = centers[group] + 0.5 * rng.normal(size=(60_000, 2))

stream = StreamingKMeans(7, n_synopses=300, random_state=0)
for batch in np.array_split(X, 30):
    stream.partial_fit(batch)
best = KMeans(7, init="ls++", random_state=0).fit(X)
sampled = []
for seed in range(10):
    sample = np.random.default_rng(seed).choice(len(X), 300, replace=False)
    found = KMeans(7, init="ls++", random_state=seed).fit(X[sample])
    sampled.append(-found.score(X) / best.inertia_)
streamed = -stream.score(X) / best.inertia_
print(f"{stream.n_rows_seen_:,} rows as {len(stream.synopses_)} synopses")
print(
    f"cost over the best: stream {streamed:.2f}, uniform samples {np.median(sampled):.1f} (median)"
)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.scatter(*stream.synopses_.T, s=np.sqrt(stream.synopsis_weights_), alpha=0.5)
left.set(xscale="symlog", yscale="symlog", title="synopses; area: weight")
right.bar(range(10), np.sort(sampled), color="lightgrey", label="uniform samples of 300 rows")
right.axhline(streamed, color="#d55e00", label="stream")
right.set(yscale="log", ylim=(0.5, 20_000), ylabel="cost / cost of k-means on all rows", xticks=[])
right.legend()
plt.show()
