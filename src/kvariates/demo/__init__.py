"""The demo: four problems with bundled data, and one page about them.

| file | problem |
|---|---|
| `cities` | the world's cities in twelve regions |
| `private_cities` | the same cities with differential privacy, and what that costs |
| `facilities` | facilities on the streets of a city, with a certificate |
| `fold_trials` | folds of cross-validation that are alike |
| `demo_page` | report.html; a file `..._section` for each of its sections |
"""
