"""
Words, by a distance of your own
================================

``KMedian`` takes any objects and a function for the distance of two of them: here the number of
letters to insert, delete or change (Levenshtein).
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import KMedian


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (letter != other))
    return row[-1]


words = [
    "cluster", "clusters", "clustered", "clustering", "median", "medians", "medium",
    "medoid", "medoids", "private", "privacy", "privately", "deprive", "stream",
    "streams", "streaming", "steam", "upstream", "certify", "certified", "certificate",
]  # fmt: skip
model = KMedian(5, metric=edits, random_state=0).fit(words)
for j, medoid in enumerate(model.medoid_indices_):
    own = [word for word, label in zip(words, model.labels_, strict=True) if label == j]
    print(f"{words[medoid]}: {', '.join(own)}")

# %%
# The distances of all pairs, with the words of a cluster side by side.
order = np.argsort(model.labels_, kind="stable")
table = [[edits(words[i], words[j]) for j in order] for i in order]
fig, ax = plt.subplots(figsize=(6.5, 6), layout="constrained")
ax.imshow(table, cmap="viridis_r")
ax.set_xticks(range(len(words)), [words[i] for i in order], rotation=90, fontsize=7)
ax.set_yticks(range(len(words)), [words[i] for i in order], fontsize=7)
ax.set_title("edits between words, by cluster")
plt.show()
