"""`python -m benchmarks.dask_speed`: the speed of `kvariates.dask.KMeans` on this machine.

| section | what is measured |
|---|---|
| speed | two workers against `kvariates.KMeans` on two threads, same rows, init and seed, in turn; the centres must be equal |
| dask-ml | two workers against `dask_ml.cluster.KMeans`, with --dask-ml PYTHON (an interpreter that has it) |
| workers | one and two workers |
| partitions | 2 to 64 partitions |
| memory | the growth of the process of client and scheduler, and what was sent, for several numbers of rows |

Rows are clusters as in `benchmarks.workloads`, float32, 16 features, k = 50. They are in the memory
of the workers before the time is taken, as they are in memory for `kvariates.KMeans`.
"""  # noqa: E501

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.workloads import ROOT, Workload, clustered

K, FEATURES = 50, 16


def write_rows(path: Path, n: int) -> None:
    """In a process of its own: this one stays small."""
    command = [sys.executable, "-m", "benchmarks.dask_speed", "--write", str(path), str(n)]
    subprocess.run(command, cwd=ROOT, check=True)


def read_rows(path: str, first: int, last: int) -> Any:
    return np.array(np.load(path, mmap_mode="r")[first:last])


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as started,
        Client(started) as client,
    ):
        client.run(importlib.import_module, "kvariates.dask")
        yield client


def on_workers(path: Path, n: int, partitions: int) -> Any:
    """The first n rows of the file as a Dask array in the memory of the workers."""
    from dask import array, delayed
    from distributed import wait

    ends = np.linspace(0, n, partitions + 1).astype(int).tolist()
    blocks = [
        array.from_delayed(
            delayed(read_rows)(str(path), first, last), (last - first, FEATURES), dtype="float32"
        )
        for first, last in itertools.pairwise(ends)
    ]
    X = array.concatenate(blocks).persist()
    wait(X)
    return X


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    model = fit()
    return time.perf_counter() - begin, model


def measure_speed(path: Path, n: int, repeats: int, init: str) -> dict[str, Any]:
    """Both in turn; the workers sleep while the other one computes."""
    from kvariates import KMeans
    from kvariates.dask import KMeans as DaskKMeans

    rows, seconds = np.load(path)[:n], {"dask": [], "memory": []}
    with cluster(2) as client:
        X = on_workers(path, n, 2 * machine.cores())
        for seed in range(repeats):
            taken, ours = timed(
                lambda seed=seed: DaskKMeans(K, init=init, random_state=seed, client=client).fit(X)
            )
            seconds["dask"].append(taken)
            taken, theirs = timed(
                lambda seed=seed: KMeans(K, init=init, random_state=seed).fit(rows)
            )
            seconds["memory"].append(taken)
            if not np.array_equal(ours.cluster_centers_, theirs.cluster_centers_):
                raise RuntimeError(f"seed {seed}: the centres differ")
    ratios = [a / b for a, b in zip(seconds["dask"], seconds["memory"], strict=True)]
    return {
        "rows": n, "init": init, "iterations of the last": ours.n_iter_, "seconds": seconds,
        "ratios": ratios, "load": os.getloadavg(),
    }  # fmt: skip


DASK_ML = """
import importlib, json, sys, time
import numpy as np
from dask import array, delayed
from distributed import Client, LocalCluster, wait

def read(path, first, last):
    return np.array(np.load(path, mmap_mode="r")[first:last])

if __name__ == "__main__":
    from dask_ml.cluster import KMeans
    path, n, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.run(importlib.import_module, "dask_ml.cluster")
        ends = np.linspace(0, n, 5).astype(int).tolist()
        parts = [array.from_delayed(delayed(read)(path, a, b), (b - a, 16), dtype="float32")
                 for a, b in zip(ends, ends[1:])]
        X = array.concatenate(parts).persist()
        wait(X)
        begin = time.perf_counter()
        model = KMeans(k, random_state=0).fit(X)
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "inertia": float(model.inertia_)}))
"""


def measure_dask_ml(path: Path, n: int, python: str | None) -> dict[str, Any]:
    from kvariates.dask import KMeans

    with cluster(2) as client:
        X = on_workers(path, n, 4)
        seconds, model = timed(lambda: KMeans(K, random_state=0, client=client).fit(X))
    ours = {"seconds": seconds, "inertia": model.inertia_}
    if python is None:
        return {"rows": n, "kvariates": ours, "dask-ml": "not measured; give --dask-ml PYTHON"}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "measure_dask_ml.py"
        script.write_text(DASK_ML)
        command = [python, str(script), str(path), str(n), str(K)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    faster = theirs["seconds"] / seconds
    return {"rows": n, "kvariates": ours, "dask-ml": theirs, "times faster": faster}


def measure_workers(path: Path, n: int) -> dict[str, float]:
    from kvariates.dask import KMeans

    found = {}
    for workers in (1, 2):
        with cluster(workers) as client:
            X = on_workers(path, n, 8)
            fit = KMeans(K, random_state=0, client=client).fit
            found[f"{workers} workers"] = min(timed(lambda fit=fit, X=X: fit(X))[0] for _ in "ab")
    return found


def measure_partitions(path: Path, n: int) -> dict[str, Any]:
    from kvariates.dask import KMeans

    found = {}
    with cluster(2) as client:
        for partitions in (2, 4, 8, 16, 32, 64):
            X = on_workers(path, n, partitions)
            seconds, model = timed(lambda X=X: KMeans(K, random_state=0, client=client).fit(X))
            sent = model.transcript_
            found[f"{partitions} partitions"] = {
                "seconds": seconds, "rounds": sent.rounds, "messages": sent.messages,
                "bytes": sent.bytes_sent + sent.bytes_received,
            }  # fmt: skip
    return found


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_memory(path: Path, n: int) -> dict[str, Any]:
    """The client and the scheduler are in this process, the workers are not."""
    from kvariates.dask import KMeans

    found = {}
    with cluster(2) as client:
        KMeans(K, random_state=0, max_iter=2, client=client).fit(on_workers(path, 10_000, 8))
        for rows in (n // 16, n // 4, n):
            X = on_workers(path, rows, 8)
            before = resident()
            model = KMeans(K, random_state=0, max_iter=20, client=client).fit(X)
            sent = model.transcript_
            found[f"{rows} rows"] = {
                "growth, MiB": (resident() - before) / 2**20,
                "resident, MiB": resident() / 2**20,
                "rows shown": sent.points_revealed,
                "bytes": sent.bytes_sent + sent.bytes_received,
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dask_speed", description=__doc__)
    parser.add_argument("--only", default="memory,speed,dask-ml,workers,partitions")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--init", default="k-means++", help="of the section speed")
    parser.add_argument("--dask-ml", help="an interpreter that has dask-ml")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write:
        path, n = Path(chosen.write[0]), int(chosen.write[1])
        np.save(path, Workload("clustered", n, FEATURES, K, "float32", clustered).make())
        return
    with tempfile.TemporaryDirectory() as folder:
        path, n = Path(folder) / "rows.npy", chosen.rows
        write_rows(path, n)
        sections: dict[str, Callable[[], Any]] = {
            "memory": lambda: measure_memory(path, n),
            "speed": lambda: measure_speed(path, n, chosen.repeats, chosen.init),
            "dask-ml": lambda: measure_dask_ml(path, min(n, 2_000_000), chosen.dask_ml),
            "workers": lambda: measure_workers(path, n),
            "partitions": lambda: measure_partitions(path, n),
        }
        for name in chosen.only.split(","):
            print(json.dumps({name: sections[name]()}, indent=1), flush=True)


if __name__ == "__main__":
    main()
