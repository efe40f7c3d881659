"""
Depots on a road network
========================

``metric="graph"`` takes a sparse matrix of road lengths. Distances are those of shortest paths,
and only the ones that are needed are computed. The demand of a crossing is the number of people
who live there.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kvariates import KMedian

side = 25
number = np.arange(side * side).reshape(side, side)
tail = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
head = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
rng = np.random.default_rng(1)
keep = rng.random(len(tail)) < 0.9  # some streets are closed
length = rng.uniform(1, 3, size=len(tail))
roads = sparse.csr_array((length[keep], (tail[keep], head[keep])), shape=(side**2, side**2))
roads = roads + roads.T
part = connected_components(roads)[1]
reachable = part == np.bincount(part).argmax()
people = np.where(reachable, rng.integers(0, 50, size=side**2), 0).astype(float)

depots = KMedian(6, metric="graph", certify=True, random_state=0).fit(roads, demand=people)
print(depots.certificate_)

# %%
# Every crossing has the colour of its depot.
y, x = np.divmod(np.arange(side**2), side)
edges = sparse.coo_array(roads)
fig, ax = plt.subplots(figsize=(6, 6), layout="constrained")
ax.plot(
    [x[edges.row], x[edges.col]], [y[edges.row], y[edges.col]], color="lightgrey", lw=0.8, zorder=0
)
ax.scatter(x, y, s=people, c=depots.labels_, cmap="tab10")
ax.scatter(
    x[depots.medoid_indices_], y[depots.medoid_indices_], marker="*", s=260, c="white", ec="black"
)
ax.set(title=f"six depots: {depots.certificate_}", aspect="equal")
ax.axis("off")
plt.show()
