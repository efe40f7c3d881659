"""
Folds that are alike
====================

``AntiClusterKFold`` is a splitter for cross-validation whose folds resemble each other. On this
set the score varies less from one repeat to the next than with random folds; not on every set
(:doc:`measured on seven </anticlustering>`).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score

from kvariates import AntiClusterKFold

X, y = load_diabetes(return_X_y=True)
splitters = {
    "KFold": lambda seed: KFold(5, shuffle=True, random_state=seed),
    "AntiClusterKFold": lambda seed: AntiClusterKFold(5, random_state=seed),
}
scores = {
    name: [cross_val_score(Ridge(0.1), X, y, cv=make(seed)).mean() for seed in range(15)]
    for name, make in splitters.items()
}
for name, values in scores.items():
    print(f"{name:17} mean {np.mean(values):.4f}, deviation {np.std(values):.4f}")

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for row, values in enumerate(scores.values()):
    ax.plot(values, np.full(len(values), row), "|", ms=24)
ax.set_yticks([0, 1], list(scores))
ax.set(xlabel="mean R² of five folds, one line for each of 15 repeats", ylim=(-0.6, 1.6))
plt.show()
