"""
How many clusters?
==================

:func:`kvariates.choose_k` tests whether clusters divide into groups with few rows between them,
and whether two halves of the rows lead to the same clusters. It gives a number and the reason, or
says that there is no clear answer; then ``k`` is 1, and ``guess`` is for those who need groups.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import choose_k

rng = np.random.default_rng(0)
centers = np.array([[1, 1], [5, 1], [9, 2], [2, 5], [6, 5], [3, 9], [8, 8]])
groups = (centers[:, None] + 0.4 * rng.normal(size=(7, 150, 2))).reshape(-1, 2)
noise = rng.uniform(0, 10, size=(1050, 2))

for name, X in (("seven groups", groups), ("noise", noise)):
    choice = choose_k(X, (1, 12), random_state=0)
    print(f"{name}: k = {choice.k}, clear: {choice.clear}. {choice.reason}")
    print(f"guess: {choice.guess}")

# %%
# The number of clusters that still divide reaches zero at the right k.
choice = choose_k(groups, (1, 12), random_state=0)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(choice.ks, choice.dividing, "o-", label="clusters that divide")
left.plot(choice.ks, 10 * choice.silhouette, "s--", label="silhouette × 10")
left.axvline(choice.k, color="grey", lw=0.8)
left.set(xlabel="k", title=f"suggested: {choice.k}")
left.legend()
right.scatter(*groups.T, s=4, color="grey")
right.scatter(*choice.centers.T, marker="x", c="black")
right.set(title="the centres for this k", aspect="equal")
plt.show()
