"""Side-by-side runs against the peers: `python -m benchmarks` from the root of the repository.

One process, every contestant on the same array from the same start, runs interleaved, medians kept.

| file | what |
|---|---|
| `workloads.py` | the data: shapes, dtypes, uniform, clustered and real |
| `contestants.py` | who runs: kvariates, scikit-learn, scikit-learn-intelex, faiss |
| `timing.py` | how a time is taken |
| `machine.py` | what the machine could do: FLOP/s and bytes/s |
| `sections.py` | what is asked: seeding, Lloyd steps, convergence, CSR |
| `memory.py` | what a fit needs beyond its data, in a process of its own |
| `report.py`, `targets.py` | the tables, and the targets met or not |
"""
