"""
Groups for an A/B test
======================

Two hundred shops in two arms of ninety, and twenty for later; shops of a region are in all arms
in equal shares. The groups are alike in visitors, area and sales.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import AntiClustering

rng = np.random.default_rng(0)
visitors, area = rng.lognormal(6, 1, size=200), rng.lognormal(5, 0.5, size=200)
shops = np.column_stack([visitors, area, 0.1 * visitors * rng.lognormal(0, 0.3, size=200)])
region = rng.choice(["north", "south", "east"], size=200)

test = AntiClustering(3, objective="kplus", group_sizes=(90, 90, 20), random_state=0)
test.fit(shops, categories=region, must_link=[(3, 17)], cannot_link=[(40, 41)])
print(test.balance_)

# %%
# How far are the means of the groups from those of all shops? Beside random groups:
sizes = np.repeat([0, 1, 2], (90, 90, 20))
deviation = shops.std(axis=0)


def worst(labels):
    means = np.array([shops[labels == g].mean(axis=0) for g in range(3)])
    return (np.abs(means - shops.mean(axis=0)) / deviation).max()


drawn = [worst(rng.permutation(sizes)) for _ in range(500)]
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.hist(drawn, bins=30, color="lightgrey", label="500 random divisions")
ax.axvline(worst(test.labels_), color="#d55e00", label="AntiClustering")
ax.set(xlabel="largest difference of a group's mean (standard deviations)")
ax.legend()
plt.show()
