"""
One sampler, several settings
=============================

k-variates++ draws a row in proportion to its squared distance to the centres so far, and then a
centre from the *density* of that row. The density makes the setting: the row itself (k-means++),
a row of the same peer (peers who show one row each), or noise around the row.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import Dirac, Gaussian, UniformOver, kvariates_plusplus

rng = np.random.default_rng(0)
places = rng.uniform(0, 10, size=(5, 2))
peer = rng.integers(5, size=1000)
X = places[peer] + 0.6 * rng.normal(size=(1000, 2))
densities = {
    "Dirac: the row": Dirac(),
    "UniformOver: a row of the same peer": UniformOver(peer),
    "Gaussian: around the row": Gaussian(0.5),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
for ax, (name, density) in zip(axes, densities.items(), strict=True):
    ax.scatter(*X.T, s=2, color="lightgrey")
    for seed in range(40):
        seeds = kvariates_plusplus(X, 5, density=density, random_state=seed)
        ax.scatter(*seeds.centers.T, s=10, color="#d55e00", alpha=0.4, linewidths=0)
    ax.set_title(name, fontsize=9)
plt.show()
print(seeds.guarantee)
