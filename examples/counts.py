"""
Counts: a distortion for word frequencies
=========================================

Texts of three topics. A few common words make up most of every text, and vary by chance; the
topics differ in rare words. Squared distances see the common words. The Kullback-Leibler divergence
compares frequencies by their ratios, so that rare words count.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from kvariates import KMeans

rng = np.random.default_rng(0)
topic = np.sort(rng.integers(3, size=300))
rare = np.full((3, 30), 0.001)
for t in range(3):
    rare[t, 10 * t : 10 * t + 10] = 0.012
common = rng.lognormal(-2, 0.5, size=(300, 6))
share = np.hstack([common, rare[topic]])
counts = np.array([rng.multinomial(400, row / row.sum()) for row in share])
frequencies = counts / 400

fits = {
    "squared distances": KMeans(3, n_init=5, random_state=0).fit(frequencies),
    "Kullback-Leibler": KMeans(3, n_init=5, distortion="kl", random_state=0).fit(frequencies),
}
for name, model in fits.items():
    print(f"{name:18} agreement with the topics: {adjusted_rand_score(topic, model.labels_):.2f}")

# %%
# Texts in the order of their topics, words from left to right, and the label of each text.
fig, axes = plt.subplots(1, 3, figsize=(10, 4.2), width_ratios=[8, 1, 1], layout="constrained")
axes[0].imshow(np.log10(frequencies + 1e-3), aspect="auto", cmap="viridis", interpolation="none")
axes[0].set(title="frequencies (logarithmic)", xlabel="word", ylabel="text")
for ax, (name, model) in zip(axes[1:], fits.items(), strict=True):
    ax.imshow(model.labels_[:, None], aspect="auto", cmap="Set2", interpolation="none")
    ax.set_title(name.replace(" ", "\n").replace("-", "-\n"), fontsize=8)
    ax.set(xticks=[], yticks=[])
plt.show()
