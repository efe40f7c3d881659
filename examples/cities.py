"""
The world's cities on the globe
===============================

34,003 cities as directions from the centre of the earth, weighted by their people. With
``metric="cosine"`` places are compared by angle, so there is no edge at the 180th meridian.
(Data: GeoNames, CC BY 4.0.)
"""

import csv
import gzip
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kvariates
from kvariates import KMeans

path = Path(kvariates.__file__).parent / "datasets" / "cities.csv.gz"
with gzip.open(path, "rt", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
lat, lon, people = (
    np.array([float(row[name]) for row in rows]) for name in ("lat", "lon", "population")
)

y, x = np.radians([lat, lon])
places = np.column_stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)])
model = KMeans(12, metric="cosine", n_init=3, random_state=0).fit(places, sample_weight=people)
print(f"{model.n_iter_} iterations, cost {model.inertia_:.4g}")

# %%
# Centres are unit vectors; their latitude and longitude follow from them.
centers = model.cluster_centers_
center_lat = np.degrees(np.arcsin(centers[:, 2]))
center_lon = np.degrees(np.arctan2(centers[:, 1], centers[:, 0]))

fig, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
ax.scatter(lon, lat, s=np.sqrt(people) / 300, c=model.labels_, cmap="tab20", linewidths=0)
ax.scatter(center_lon, center_lat, marker="+", c="black", s=80)
ax.set(xlabel="longitude", ylabel="latitude", title="Twelve regions of the urban world")
plt.show()
