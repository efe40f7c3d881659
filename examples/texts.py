"""
Texts: clusters of embeddings, and their names
==============================================

What NumPy, SciPy and scikit-learn say about their functions: the first paragraphs of some 2,200
docstrings. Each becomes a vector of 100 features by words alone (TF-IDF, then a truncated singular
value decomposition), so that the example needs no model. With vectors of a sentence model only the
first step changes.
"""

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from kvariates import KMeans, choose_k

modules = """numpy numpy.linalg numpy.fft numpy.ma numpy.strings numpy.polynomial.polynomial
scipy.cluster.hierarchy scipy.fft scipy.integrate scipy.interpolate scipy.io scipy.linalg
scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg scipy.spatial
scipy.spatial.distance scipy.special scipy.stats sklearn.cluster sklearn.datasets sklearn.ensemble
sklearn.linear_model sklearn.metrics sklearn.model_selection sklearn.preprocessing"""
texts = {}
for module in map(importlib.import_module, modules.split()):
    for name, value in sorted(vars(module).items()):
        parts = (inspect.getdoc(value) or "").split("\n\n")
        prose = [" ".join(p.split()) for p in parts if len(p) > 30 and not re.match(r"\w+\(", p)]
        if prose and callable(value) and name[0] != "_":
            texts.setdefault(prose[0], f"{module.__name__}.{name}")
names, texts = np.array([*texts.values()]), np.array([*texts])

words = TfidfVectorizer(
    stop_words="english", sublinear_tf=True, min_df=3, token_pattern="[a-z]{3,}"
)
embed = make_pipeline(words, TruncatedSVD(100, random_state=0), Normalizer())
X = embed.fit_transform(texts).astype(np.float32)
known = X.any(axis=1)  # a text without a frequent word is a row of zeros
X, texts, names = X[known], texts[known], names[known]

# %%
# Is there a right number of clusters? As for most texts there is no clear answer, so k is chosen by
# use: as many as somebody would read.
print(len(texts), "texts;", choose_k(X, (1, 20), metric="cosine", random_state=0).reason)
model = KMeans(16, metric="cosine", n_init=4, random_state=0).fit(X)

# %%
# A cluster is named by the words that are more frequent in it than elsewhere, and shown by the text
# that is nearest to its centre.
counts = words.transform(texts)
vocabulary, distance = words.get_feature_names_out(), model.transform(X)
titles = []
for j in range(16):
    own = model.labels_ == j
    excess = np.asarray(counts[own].mean(axis=0) - counts[~own].mean(axis=0)).ravel()
    titles.append(" ".join(vocabulary[np.argsort(-excess)[:3]]))
    typical = np.argmin(distance[:, j])
    print(f"{own.sum():4} {titles[j]:32} {names[typical]}: {texts[typical][:60]}")

# %%
# A new text goes through the same steps.
question = "How do I draw random numbers from a normal distribution?"
print(question, "->", titles[model.predict(embed.transform([question]).astype(np.float32))[0]])

# %%
# The angles between texts, with those of a cluster side by side: dark blocks are narrow topics.
order = np.argsort(model.labels_, kind="stable")
starts = np.searchsorted(model.labels_[order], np.arange(16))
fig, ax = plt.subplots(figsize=(8.5, 6), layout="constrained")
ax.imshow(X[order] @ X[order].T, cmap="Blues", vmin=0, vmax=0.8)
ax.set_yticks(starts, titles, fontsize=7)
ax.set_xticks([])
ax.set_title("cosines of texts, by cluster")
plt.show()
