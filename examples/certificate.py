"""
How far from the best?
======================

``certify=True`` computes a lower bound on the cost of *any* k medoids. The gap between the bound
and the cost found is the most that could still be gained, whatever one tries.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMedian

rng = np.random.default_rng(0)
X = rng.uniform(size=(300, 2))
ks = np.arange(2, 13)
models = [KMedian(int(k), certify=True, random_state=0).fit(X) for k in ks]
cost = np.array([model.inertia_ for model in models])
bound = np.array([model.certificate_.lower_bound for model in models])
print(models[3].certificate_.explain())

# %%
# All costs lie in the band between the two lines: the truth cannot be outside.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(ks, cost, "o-", label="cost found")
left.plot(ks, bound, "v--", label="no k medoids cost less")
left.fill_between(ks, bound, cost, alpha=0.2)
left.set(xlabel="k", ylabel="sum of distances")
left.legend()
right.bar(ks, 100 * (cost / bound - 1))
right.set(xlabel="k", ylabel="gap (%)", title="at most this far from the optimum")
plt.show()
