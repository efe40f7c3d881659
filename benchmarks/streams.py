"""`python -m benchmarks.streams`: the speed of streams and of data larger than memory.

| section | what is measured |
|---|---|
| pass | rows a second of `StreamingKMeans.partial_fit` and scikit-learn's `MiniBatchKMeans.partial_fit` on Covertype, interleaved, and the cost of both |
| river | rows a second of river's STREAMKMeans on the first rows of Covertype |
| parquet | a Parquet file of 8 GB (decoded): reading with pyarrow alone, one pass of `StreamingKMeans`, and the growth of the memory |
| passes | `KMeans().fit(blocks)` on the same file: its time over (time of reading x passes) |
| memory | the resident set over a stream of 100 million rows, every 5 million |
"""  # noqa: E501

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.workloads import ROOT, Array, Workload, covertype, inertia

BATCH = 10_000
ROUNDS = 3  # of which the fastest counts, for every task
GB = 10**9


def rows_per_second(learn: Callable[[Array], Any], X: Array) -> float:
    gc.collect()
    begin = time.perf_counter()
    for first in range(0, len(X), BATCH):
        learn(X[first : first + BATCH])
    return len(X) / (time.perf_counter() - begin)


def measure_pass(repeats: int) -> dict[str, Any]:
    """One pass over Covertype, both libraries in turn."""
    from sklearn.cluster import MiniBatchKMeans

    from kvariates import KMeans, StreamingKMeans

    work = Workload("Covertype", 581_012, 54, 64, "float32", covertype, "uci/covertype.npz")
    X, out = work.make(), {}
    for k in (20, 100):
        speeds: dict[str, list[float]] = {"kvariates": [], "sklearn": []}
        for seed in range(repeats):
            ours = StreamingKMeans(k, random_state=seed)
            speeds["kvariates"].append(rows_per_second(ours.partial_fit, X))
            theirs = MiniBatchKMeans(k, batch_size=BATCH, random_state=seed)
            speeds["sklearn"].append(rows_per_second(theirs.partial_fit, X))
        best = inertia(X, KMeans(k, random_state=0).fit(X).cluster_centers_)
        out[f"k={k}"] = {
            "rows a second": {name: statistics.median(found) for name, found in speeds.items()},
            "cost over full k-means": {
                "kvariates": inertia(X, ours.cluster_centers_) / best,
                "sklearn": inertia(X, theirs.cluster_centers_) / best,
            },
        }
    return out


def measure_river(rows: int = 2_000) -> dict[str, float]:
    """STREAMKMeans takes one row at a time, as a dictionary."""
    from river import cluster

    work = Workload("Covertype", 581_012, 54, 64, "float32", covertype, "uci/covertype.npz")
    X = work.make()[:rows]
    model = cluster.STREAMKMeans(chunk_size=100, n_clusters=20, seed=0)
    dictionaries = [dict(enumerate(row)) for row in X.tolist()]
    begin = time.perf_counter()
    for row in dictionaries:
        model.learn_one(row)
    return {"rows a second": rows / (time.perf_counter() - begin)}


def write_parquet(path: Path, size: int, features: int = 16) -> None:
    """Clustered float32 rows, `size` bytes of them, in row groups of a million rows."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    centers = rng.normal(size=(50, features)).astype(np.float32)
    names = [f"x{i}" for i in range(features)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    left = size // (4 * features)
    with parquet.ParquetWriter(path, schema) as file:
        while left:
            n = min(left, 1_000_000)
            X = rng.normal(scale=0.3, size=(n, features)).astype(np.float32)
            X += centers[rng.integers(50, size=n)]
            file.write_table(pa.table([X[:, i].copy() for i in range(features)], names=names))
            left -= n


def read_alone(path: Path) -> tuple[float, float]:
    """Seconds and core-seconds to decode all columns with pyarrow, in the faster of two ways."""
    from pyarrow import parquet

    def seconds(pre_buffer: bool) -> tuple[float, float]:
        begin, of_cores = time.perf_counter(), time.process_time()
        file = parquet.ParquetFile(path, pre_buffer=pre_buffer)
        for _ in file.iter_batches(batch_size=2**20):
            pass
        return time.perf_counter() - begin, time.process_time() - of_cores

    return min(seconds(False), seconds(True))


def in_child(task: str, path: Path, k: int) -> dict[str, float]:
    """Seconds, passes and growth of the memory of a task in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.streams", "--child", task, str(path), str(k)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def child(task: str, path: str, k: int) -> None:
    import pyarrow.parquet  # noqa: F401

    from kvariates import KMeans, StreamingKMeans
    from kvariates.sources import blocks

    KMeans(2).fit(np.random.default_rng(0).random((1000, 4)))  # loads everything
    Path("/proc/self/clear_refs").write_text("5")
    before, passes = peak(), 1
    begin, of_cores = time.perf_counter(), time.process_time()
    if task == "read":
        for _ in blocks(path):
            pass
    elif task == "stream":
        model = StreamingKMeans(k, random_state=0).fit(blocks(path))
        _ = model.cluster_centers_
    else:
        passes = 3 + KMeans(k, random_state=0, max_iter=5).fit(blocks(path)).n_iter_
    found = {"seconds": time.perf_counter() - begin, "core seconds": time.process_time() - of_cores}
    print(json.dumps({**found, "passes": passes, "memory": peak() - before}))


def peak() -> int:
    """The peak of the resident set since it was reset, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def measure_parquet(size: int, k: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, size)
        os.sync()  # or the file would be written to the disk during the first measurements
        alone, rounds = [], []
        for _ in range(ROUNDS):
            alone.append(read_alone(path))
            rounds.append({task: in_child(task, path, k) for task in ("read", "stream")})
        found = {
            task: min((r[task] for r in rounds), key=lambda answer: answer["seconds"])
            for task in rounds[0]
        }
        passes = in_child("passes", path, k)
    reading, of_cores = min(alone)
    return {
        "GB": size / GB,
        "k": k,
        "reading with pyarrow, s": reading,
        "reading with pyarrow, core seconds": of_cores,
        "blocks": found["read"],
        "stream": found["stream"] | {"share of speed": reading / found["stream"]["seconds"]},
        "passes": passes | {"time over reading": passes["seconds"] / passes["passes"] / reading},
    }


def measure_memory(rows: int, every: int) -> list[tuple[int, int]]:
    """The resident set while rows are streamed."""
    from kvariates import StreamingKMeans

    def batches() -> Iterator[Array]:
        rng = np.random.default_rng(0)
        centers = rng.normal(size=(50, 8)).astype(np.float32)
        for _ in range(rows // 100_000):
            X = rng.normal(scale=0.3, size=(100_000, 8)).astype(np.float32)
            yield X + centers[rng.integers(50, size=100_000)]

    model, seen, found = StreamingKMeans(50, random_state=0), 0, []
    for batch in batches():
        model.partial_fit(batch)
        seen += len(batch)
        if seen % every == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append((seen, pages * 4096))
    return found


def plot_memory(found: list[tuple[int, int]], path: Path) -> None:
    """Draw the resident set over the rows seen."""
    from kvariates.report.pictures import picture

    rows, size = np.array(found, dtype=float).T
    with picture(path, (7, 3)) as (_, [axes]):
        axes.plot(rows / 1e6, size / 2**20, marker="o", markersize=3)
        axes.set_ylim(0, 1.5 * size.max() / 2**20)
        axes.set_xlabel("million rows seen")
        axes.set_ylabel("resident set, MiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--only", default="pass,river,parquet,memory", help="sections, by comma")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gb", type=float, default=8.0, help="size of the Parquet file, decoded")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the section memory")
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--plot", type=Path, help="PNG file for the section memory")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.child[0], chosen.child[1], int(chosen.child[2]))
    sections: dict[str, Callable[[], Any]] = {
        "pass": lambda: measure_pass(chosen.repeats),
        "river": measure_river,
        "parquet": lambda: measure_parquet(int(chosen.gb * GB), chosen.k),
        "memory": lambda: measure_memory(chosen.rows, chosen.rows // 20),
    }
    print(json.dumps(machine.measure(quick=True).__dict__, default=str))
    for name in chosen.only.split(","):
        result = sections[name]()
        print(json.dumps({name: result}, indent=1), flush=True)
        if name == "memory" and chosen.plot:
            plot_memory(result, chosen.plot)
    return None


if __name__ == "__main__":
    main()
