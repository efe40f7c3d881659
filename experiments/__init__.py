"""The papers' figures and tables, reproduced, and what a choice of methods is worth.

| file | what |
|---|---|
| `quality.py` | seedings x refinements: cost, planted centres found, time |
"""
