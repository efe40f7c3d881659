"""k-means on an NVIDIA GPU, with the bits of the processor's results.

| file | what is in it |
|---|---|
| `card.py` | a card: memory, copies, kernels that are compiled when they are first used |
| `rows.py` | rows on a card; what is asked of them once a fit |
| `filter.py` | the nearest centres: float16 products with a proven bound, then float64 |
| `sums.py` | exact sums of clusters, and the centres made of them |
| `costs.py` | the state of D² sampling |
| `data.py` | `CudaData`: these parts as the data of a fit |
| `kernels/` | CUDA C++; `reference.cuh` is docs/reference_arithmetic.md again |

docs/gpu.md describes how the parts work together.
"""
