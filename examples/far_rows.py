"""
Far rows: medians and means
===========================

A mean follows a single far row; a medoid is one of the rows, and a sum of distances (not squared)
hardly notices one.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans, KMedian

rng = np.random.default_rng(0)
X = np.vstack([rng.normal(c, 0.5, size=(100, 2)) for c in ((0, 0), (4, 0), (2, 3))])
far = np.array([[60.0, 40.0]])
Y = np.vstack([X, far])

means = KMeans(3, init="ls++", random_state=0).fit(Y).cluster_centers_
medoids = KMedian(3, random_state=0).fit(Y).cluster_centers_

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, centers, name in ((axes[0], means, "k-means"), (axes[1], medoids, "k-median")):
    ax.scatter(*X.T, s=6, color="grey")
    inside = np.abs(centers).max(axis=1) < 10
    ax.scatter(*centers[inside].T, marker="X", s=120, c="#d55e00", ec="black")
    ax.set(
        title=f"{name}: centres at the far row: {int((~inside).sum())}", xlim=(-2, 6), ylim=(-2, 5)
    )
plt.show()
