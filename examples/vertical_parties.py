"""
Two parties, other columns of the same people
=============================================

A hospital and an insurer cluster the people they both know. Neither shows its columns: they send
masked distances, of which only the sum can be read.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans, VerticalKMeans

rng = np.random.default_rng(0)
group = rng.integers(3, size=600)
hospital = rng.normal(size=(600, 2)) + 4 * np.array([[0, 0], [1, 1], [1, 1]])[group]
insurer = rng.normal(size=(600, 2)) + 4 * np.array([[0, 0], [0, 0], [1, 1]])[group]

model = VerticalKMeans(3, random_state=0).fit([hospital, insurer])
print(model.transcript_)

# %%
# Each party alone cannot tell all groups apart; together they can.
pooled = np.hstack([hospital, insurer])
same = KMeans(3, init=pooled[model.seed_rows_], n_init=1).fit(pooled)
print("labels of pooled columns:", np.array_equal(model.labels_, same.labels_))
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, columns, centers, name in zip(
    axes, (hospital, insurer), model.cluster_centers_, ("hospital", "insurer"), strict=True
):
    ax.scatter(*columns.T, c=model.labels_, s=8, cmap="Dark2")
    ax.scatter(*centers.T, marker="X", s=120, c="white", ec="black")
    ax.set(title=f"what the {name} has")
plt.show()
