"""The demo: four problems with bundled data, and a section of one page about each.

| file | problem |
|---|---|
| `cities` | the world's cities in twelve regions; the same with differential privacy |
| `facilities` | facilities on the streets of a city, with a certificate |
| `folds` | folds of cross-validation that are alike |
"""
