"""
Clusters with size limits
=========================

Delivery rounds should be of about the same size. ``size_min`` and ``size_max`` are limits on the
number of rows of a cluster; each assignment within them is the best one.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans

rng = np.random.default_rng(0)
town = rng.normal(0, 0.4, size=(420, 2))
villages = rng.uniform(-3, 3, size=(180, 2))
X = np.vstack([town, villages])

free = KMeans(6, random_state=0).fit(X)
limited = KMeans(6, size_min=90, size_max=110, random_state=0).fit(X)

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, model, title in ((axes[0], free, "no limits"), (axes[1], limited, "90 to 110 rows")):
    ax.scatter(*X.T, c=model.labels_, s=5, cmap="tab10")
    ax.set(title=f"{title}, cost {model.inertia_:.0f}", aspect="equal")
width = 0.4
for offset, model, label in ((-width / 2, free, "no limits"), (width / 2, limited, "limits")):
    axes[2].bar(np.arange(6) + offset, np.sort(np.bincount(model.labels_)), width, label=label)
axes[2].axhspan(90, 110, color="grey", alpha=0.2)
axes[2].set(title="sizes, sorted")
axes[2].legend()
plt.show()
