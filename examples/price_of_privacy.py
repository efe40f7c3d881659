"""
The price of privacy, before it is paid
=======================================

A trial on the real data spends budget. ``price`` tries several ε on data that are public and
similar: as many rows, the same bounds.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMeans, PrivateKMeans
from kvariates.privacy import price

rng = np.random.default_rng(0)
bounds = ([0, 0], [120, 200])
similar = rng.normal([[25, 15], [50, 50], [70, 40]], 8, size=(3_000, 3, 2)).reshape(-1, 2)
epsilons = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
table = price(
    lambda epsilon: PrivateKMeans(3, epsilon=epsilon, delta=1e-6, bounds=bounds),
    similar,
    epsilons,
    against=KMeans(3, random_state=0),
    runs=3,
)
print(table)
print("smallest ε within 5 % of the cost without privacy:", table.cheapest(1.05))

# %%
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(epsilons, table.ratios, "o", color="lightgrey")
ax.plot(epsilons, table.mean, "o-", color="#d55e00", label="mean of three fits")
ax.axhline(1, color="black", lw=0.8, ls=":")
ax.set(xscale="log", yscale="log", xlabel="ε", ylabel="cost / cost without privacy")
ax.legend()
plt.show()
