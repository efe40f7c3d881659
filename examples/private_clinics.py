"""
Clinics for patients whose homes are secret
===========================================

The crossings of a town are public, who lives where is not. ``PrivateKMedian`` picks crossings for
clinics; one patient more or less hardly changes what is released.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from kvariates import KMedian, PrivateKMedian

side = 20
number = np.arange(side * side).reshape(side, side)
tail = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
head = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
rng = np.random.default_rng(0)
roads = sparse.csr_array((rng.uniform(1, 3, len(tail)), (tail, head)), shape=(side**2, side**2))
roads = roads + roads.T
y, x = np.divmod(np.arange(side**2), side)
density = np.exp(-((x - 5) ** 2 + (y - 6) ** 2) / 20) + np.exp(-((x - 14) ** 2 + (y - 13) ** 2) / 9)
patients = rng.choice(side**2, 2000, p=density / density.sum())  # one entry a patient

private = PrivateKMedian(4, epsilon=1.0, metric="graph", random_state=0).fit(roads, demand=patients)
demand = np.bincount(patients, minlength=side**2).astype(float)
exact = KMedian(4, metric="graph", random_state=0).fit(roads, demand=demand)
print(private.cluster_counts_)  # noisy

# %%
fig, ax = plt.subplots(figsize=(6, 5.6), layout="constrained")
ax.scatter(x, y, s=demand * 3 + 1, color="lightgrey")
ax.scatter(*(c[exact.medoid_indices_] for c in (x, y)), s=160, fc="none", ec="black", label="exact")
ax.scatter(
    *(c[private.medoid_indices_] for c in (x, y)), s=90, marker="x", c="#d55e00", label="ε = 1"
)
ax.set(title="grey: patients (secret)", aspect="equal")
ax.legend()
ax.axis("off")
plt.show()
