"""
Private centres, and where the budget went
==========================================

The centres of 30,000 people's ages and incomes with ε = 1: they may be published. The ledger
lists every noisy number that they were computed from. (Noise cannot be seeded, so this picture is
another one at each build.)
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans, PrivateKMeans

rng = np.random.default_rng(0)
people = rng.normal([[30, 20], [45, 70], [68, 30]], [4, 6], size=(10_000, 3, 2)).reshape(-1, 2)
bounds = ([0, 0], [120, 200])  # known without the data

private = PrivateKMeans(3, epsilon=1.0, delta=1e-6, bounds=bounds).fit(people)
exact = KMeans(3, random_state=0).fit(people)
print(private.ledger_)

# %%
# The crosses are public; the dots are not, and are shown here because these people are invented.
spent = Counter()
for charge in private.ledger_.charges:
    spent[charge.label] = max(spent[charge.label], charge.cost)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.scatter(*people[::20].T, s=3, color="lightgrey")
left.scatter(*exact.cluster_centers_.T, marker="o", s=90, fc="none", ec="black", label="exact")
left.scatter(*private.cluster_centers_.T, marker="x", s=90, c="#d55e00", label="private, ε = 1")
left.set(xlabel="age", ylabel="income (thousands)")
left.legend()
labels = list(spent)[:12]
right.barh(labels, [spent[label] for label in labels])
right.invert_yaxis()
right.set(xlabel="ρ of one release", title="kinds of releases")
plt.show()
