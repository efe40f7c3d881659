"""Experiments that compare our own methods.

| file | what |
|---|---|
| `quality.py` | seedings x refinements: cost, planted centres found, time |
| `seeding_speed.py` | the time of k-means|| and of global k-means |
| `hst_distortion.py` | distances in the random tree compared with true distances |
| `nock_table1_streams.py`, `nock_table1_peers.py` | Table 1 of the k-variates++ paper |
| `nock_fig3.py` | Figure 3 of that paper |
| `audit.py` | attacks on all private methods and mechanisms |
"""
