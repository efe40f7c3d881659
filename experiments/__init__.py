"""Experiments that compare our own methods.

| file | what |
|---|---|
| `quality.py` | seedings x refinements: cost, planted centres found, time |
| `seeding_speed.py` | the time of k-means|| and of global k-means |
| `hst_distortion.py` | distances in the random tree compared with true distances |
| `nock_table1_streams.py`, `nock_table1_peers.py`, `nock_fig3.py` | claims of the k-variates++ paper |
| `audit.py` | attacks on all private methods and mechanisms |
"""
