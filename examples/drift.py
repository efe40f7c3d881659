"""
A stream that drifts
====================

With ``half_life`` old rows lose weight, so that the centres follow clusters that move. Without it
they are those of all rows so far.
"""

import matplotlib.pyplot as plt
import numpy as np

from kvariates import StreamingKMeans

rng = np.random.default_rng(0)
forgetful = StreamingKMeans(2, n_synopses=200, half_life=2_000, random_state=0)
faithful = StreamingKMeans(2, n_synopses=200, random_state=0)
truth, tracks = [], {forgetful: [], faithful: []}
for step in range(40):
    places = np.array([[0.2 * step], [20 - 0.2 * step]])
    batch = (places + rng.normal(0, 0.5, size=(2, 500))).reshape(-1, 1)
    truth.append(places.ravel())
    for model, track in tracks.items():
        model.partial_fit(batch)
        track.append(np.sort(model.cluster_centers_.ravel()))

# %%
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(truth, color="black", lw=1, label=["true centres", None])
ax.plot(tracks[forgetful], "o", ms=3, color="#d55e00", label=["half_life=2,000 rows", None])
ax.plot(tracks[faithful], "s", ms=3, color="#0072b2", label=["all rows", None])
ax.set(xlabel="batch", ylabel="centre")
ax.legend()
plt.show()
