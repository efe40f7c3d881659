"""Where the time of a fit on the card goes: `python -m benchmarks.gpu --profile`.

| table | how it is measured |
|---|---|
| kernels | what the driver records (CUPTI, by torch's profiler): the fit is hardly slower |
| calls | each call of `Card`, between two waits for the card: slower, but none is missed |

The second table also has the time of the host, which is what remains of the fit.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.gpu_data import Cell, start, torch
from benchmarks.gpu_peers import fit_ours, on_host
from benchmarks.report import table

TIMED = "copy_in", "copy_out", "copy", "clear", "empty", "wait"  # methods of Card, besides `run`
ON_CARD = "kernel", "gpu_memcpy", "gpu_memset"
Times = dict[str, list[float]]  # seconds of each call, by name


def task_of(cell: Cell, X: Any) -> Callable[[], Any]:
    if cell.section == "lloyd":
        init = on_host(start(X, cell.k))
        return lambda: fit_ours(X, cell.k, init=init, n_init=1, max_iter=cell.most, tol=0.0)
    most = cell.most
    return lambda: fit_ours(X, cell.k, init=cell.init, max_iter=most, random_state=0)


def profile(cells: Sequence[Cell], folder: Path) -> None:
    """Print the tables of each cell, and keep them in a file."""
    kept = {}
    for cell in cells:
        if cell.section == "streamed":
            continue
        X = cell.rows.make("cuda")
        task = task_of(cell, X)
        _seconds(task)  # compiles
        alone = _seconds(task)
        kernels, span = traced(task)
        with calls_timed() as calls:
            slower = _seconds(task)
        busy = sum(map(sum, kernels.values()))
        print(f"{cell.name}: {1e3 * alone:.2f} ms; profiled {1e3 * span:.2f} ms", end="")
        print(f", of which the card is busy {1e3 * busy:.2f} ms ({busy / span:.0%})")
        print(_table(kernels, "kernel"), end="\n\n")
        host = slower - sum(map(sum, calls.values()))
        print(f"with a wait around each call: {1e3 * slower:.2f} ms, host {1e3 * host:.2f} ms")
        print(_table(calls, "call of Card"), end="\n\n", flush=True)
        kept[cell.name] = {"seconds": alone, "busy": busy, "kernels": kernels, "calls": calls}
        del X, task
        gc.collect()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu-profile.json").write_text(json.dumps(kept) + "\n")


def _seconds(task: Callable[[], Any]) -> float:
    torch().cuda.synchronize()
    begin = time.perf_counter()
    task()
    torch().cuda.synchronize()
    return time.perf_counter() - begin


def traced(task: Callable[[], Any]) -> tuple[Times, float]:
    """Seconds of each kernel and copy, and of the whole; no kernel if the driver tells none."""
    t = torch()
    kinds = t.profiler.ProfilerActivity
    with t.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as recorded:
        span = _seconds(task)
    found: Times = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    for event in events:
        if event.get("cat") in ON_CARD:
            found[event["name"]].append(1e-6 * event["dur"])
    if not found:
        print("torch's profiler saw no kernel: only the calls below are known", file=sys.stderr)
    return found, span


@contextmanager
def calls_timed() -> Iterator[Times]:
    """Let the card finish before and after each of its calls, and record how long each takes."""
    from kvariates.cuda.card import Card

    found: Times = defaultdict(list)
    wait = Card.wait
    inside = False

    def timed(name: str, method: Any) -> Any:
        @wraps(method)
        def call(card: Any, *args: Any, **others: Any) -> Any:
            nonlocal inside
            if inside:  # a copy waits by itself
                return method(card, *args, **others)
            if name != "wait":
                wait(card)
            inside, begin = True, time.perf_counter()
            try:
                out = method(card, *args, **others)
                wait(card)
            finally:
                inside = False
            label = f"{args[0]}: {args[1]}" if name == "run" else name
            found[label].append(time.perf_counter() - begin)
            return out

        return call

    before = {name: getattr(Card, name) for name in ("run", *TIMED) if hasattr(Card, name)}
    for name, method in before.items():
        setattr(Card, name, timed(name, method))
    try:
        yield found
    finally:
        for name, method in before.items():
            setattr(Card, name, method)


def _table(times: Times, what: str) -> str:
    total = sum(map(sum, times.values())) or 1.0
    rows = [
        [name[:70], str(len(t)), f"{1e3 * sum(t):.3f}", f"{sum(t) / total:.1%}"]
        + [f"{1e6 * v:.1f}" for v in (sum(t) / len(t), min(t), max(t))]
        for name, t in sorted(times.items(), key=lambda item: -sum(item[1]))
    ]
    return table([what, "calls", "ms", "share", "mean us", "least us", "most us"], rows)
