"""Comparison with other libraries: `python -m benchmarks` from the root of the repository.

All libraries run in one process on the same array from the same starting centres. Runs are
interleaved, and medians are reported.

| file | what |
|---|---|
| `workloads.py` | the data: shapes, dtypes, uniform, clustered and real |
| `contestants.py` | the libraries: kvariates, scikit-learn, scikit-learn-intelex, faiss |
| `timing.py` | how a time is measured |
| `processes.py` | processes that run a task when they are asked to |
| `machine.py` | the speed of the machine: FLOP/s and bytes/s |
| `sections.py` | the tasks: seeding, Lloyd iterations, convergence, CSR |
| `memory.py` | the memory of a fit in addition to its data, in another process |
| `report.py`, `targets.py` | the tables, and whether targets are met |
| `embeddings.py` | another command: embeddings, beside these and faiss.SuperKmeans, superkmeans, \
clostera |
| `embedding_tasks.py`, `embedding_data.py` | its cells and the process of a library; its data |
| `size_limits.py` | another command: size limits, beside k-means-constrained |
| `side_by_side.py` | another command: compares the speed of two versions of kvariates |
"""
