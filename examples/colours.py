"""
A photograph in sixteen colours
===============================

The centres of the pixels' colours are a palette. The fit uses 20,000 pixels, ``predict`` assigns
all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from kvariates import KMeans

image = load_sample_image("china.jpg")[::2, ::2]
pixels = image.reshape(-1, 3).astype(np.float32) / 255
some = np.random.default_rng(0).choice(len(pixels), 20_000, replace=False)
model = KMeans(16, init="ls++", random_state=0).fit(pixels[some])
reduced = model.cluster_centers_[model.predict(pixels)].reshape(image.shape)

fig, axes = plt.subplots(1, 3, figsize=(11, 3), width_ratios=[4, 4, 1], layout="constrained")
axes[0].imshow(image)
axes[0].set_title(f"{len(np.unique(image.reshape(-1, 3), axis=0)):,} colours")
axes[1].imshow(reduced)
axes[1].set_title("16 colours")
order = np.argsort(model.cluster_centers_.sum(axis=1))
axes[2].imshow(model.cluster_centers_[order][:, None], aspect="auto")
axes[2].set_title("palette")
for ax in axes:
    ax.axis("off")
plt.show()
