"""The demo: four problems with bundled data, and a section of one page about each.

| file | problems |
|---|---|
| `cities` | the world's cities in twelve regions; the same with differential privacy |
| `town` | facilities on the streets of a city, with a certificate; folds that are alike |
"""
