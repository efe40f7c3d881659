"""
Four plots for a paper
======================

``kvariates.plot`` returns axes of matplotlib: change them as you like, and save them as SVG or
PDF.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import AntiClustering, KMeans, PrivateKMeans, choose_k, plot

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 2)) + 8 * np.repeat([[0, 0], [1, 0], [0, 1]], 300, axis=0)

fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
plot.clusters(KMeans(3, random_state=0).fit(X), X, ax=axes[0, 0])
plot.choice(choose_k(X, (1, 6), random_state=0), ax=axes[0, 1])
plot.balance(AntiClustering(3, random_state=0).fit(X).balance_, ax=axes[1, 0])
private = PrivateKMeans(3, epsilon=1.0, delta=1e-6, bounds=([-5, -5], [15, 15])).fit(X)
plot.ledger(private.ledger_, ax=axes[1, 1])
plt.show()
