"""
An audit finds too little noise
===============================

``audit`` runs a mechanism many times on two neighbouring data sets and computes a lower bound on
its ε, with a stated confidence. A bound above the claim proves that the claim is false; one below
it proves nothing.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates.privacy import audit

rng = np.random.default_rng(0)


def count_with(scale):
    """A noisy count that claims ε = 1; scale = 1 is what it needs."""
    return lambda rows: len(rows) + rng.laplace(scale=scale)


scales = [2.0, 1.0, 0.5, 0.25]
audits = [
    audit(count_with(scale), (np.zeros(9), np.zeros(10)), epsilon=1.0, runs=20_000)
    for scale in scales
]
print(audits[2])

# %%
colors = ["#0072b2" if found.passed else "#d55e00" for found in audits]
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.bar(
    [f"noise of scale {scale:g}" for scale in scales], [a.lower_bound for a in audits], color=colors
)
ax.axhline(1, color="black", ls="--", label="the claim")
ax.set(ylabel="ε is at least", title="orange: the claim is false")
ax.legend()
plt.show()
