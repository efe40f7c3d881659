"""
All solutions up to K in one run
================================

``global_kmeans`` adds one centre at a time, so it returns a solution for every k. The picture
shows the cost, and where a few of the solutions put their centres.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import global_kmeans

rng = np.random.default_rng(3)
widths = [1, 0.5, 0.3, 0.5, 1]
X = np.vstack([rng.normal(3 * i, width, size=(200, 2)) for i, width in enumerate(widths)])
solutions = global_kmeans(X, 10)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
ks = np.arange(1, 11)
left.semilogy(ks, [solution.inertia for solution in solutions], "o-")
left.set(xlabel="k", ylabel="cost", title="cost of every solution")
right.scatter(*X.T, s=4, color="lightgrey")
for k, marker in ((2, "s"), (5, "o"), (8, "^")):
    right.scatter(
        *solutions[k - 1].cluster_centers.T, marker=marker, label=f"k = {k}", edgecolors="black"
    )
right.legend()
plt.show()
