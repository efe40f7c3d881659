"""The papers' figures and tables, reproduced, and what a choice of methods is worth.

| file | what |
|---|---|
| `quality.py` | seedings x refinements: cost, planted centres found, time |
| `seeding_speed.py` | k-means|| beside greedy k-means++, global k-means beside one fit: time |
"""
