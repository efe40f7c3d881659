"""A process that runs cells in one version of kvariates; `Version` starts it and talks to it.

The process answers each line of its standard input by a line of JSON: `{"cell": name}` makes the
data and prepares the task, `{"calls": number}` calls the task and answers with the times.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.side_by_side_cells import cells
from benchmarks.timing import PAUSE, foreign_seconds
from benchmarks.workloads import ROOT


@dataclass(frozen=True)
class Run:
    """One or several calls of a task: seconds a call, and the cores that other processes used."""

    wall: float
    cpu: float
    others: float


class Version:
    """A version of kvariates in a process of its own.

    `where` is a source root (run by this interpreter), an interpreter, or INTERPRETER:ROOT.
    """

    def __init__(self, where: str, suite: str, quick: bool = False) -> None:
        interpreter, _, root = where.partition(":")
        if Path(where).is_dir():
            interpreter, root = sys.executable, where
        if not shutil.which(interpreter):
            raise SystemExit(f"{where}: there is no such folder or interpreter")
        source = Path(root, "src") if Path(root, "src").is_dir() else Path(root)
        command = [interpreter, "-m", "benchmarks.side_by_side_worker", suite, *["quick"] * quick]
        path = str(source.resolve()) if root else ""
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.where, self.path = where, path

    def wait(self) -> str:
        """Wait until kvariates is imported. Returns its file."""
        file = str(self.receive()["file"])
        if not file.startswith(self.path):
            self.stop()
            raise SystemExit(f"{self.where}: Python imports {file} instead")
        return file

    def send(self, **asked: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"error": "ended"}')
        if "error" in answer:
            self.stop()
            raise RuntimeError(answer["error"])
        return answer

    def run(self, calls: int) -> Run:
        self.send(calls=calls)
        return Run(**self.receive())

    def stop(self) -> None:
        with self.process:
            self.process.kill()


def run(task: Callable[[], object], calls: int) -> Run:
    gc.collect()
    time.sleep(PAUSE)
    foreign, cpu, wall = foreign_seconds(), time.process_time(), time.perf_counter()
    for _ in range(calls):
        task()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Run(wall / calls, cpu / calls, max(0.0, (foreign_seconds() - foreign) / wall))


class Server:
    """Keeps the data and the task of the cell that was asked for last."""

    def __init__(self, suite: str, quick: bool) -> None:
        self.cells = {cell.name: cell for cell in cells(suite, quick=quick, full=True)}
        self.name, self.data = "", None  # of the data
        self.task: Callable[[], object] | None = None

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "calls" in asked:
            assert self.task is not None
            return asdict(run(self.task, asked["calls"]))
        cell = self.cells[asked["cell"]]
        if cell.data != self.name:
            self.name, self.data, self.task = "", None, None  # frees the memory first
            self.name, self.data = cell.data, cell.make()
        self.task = cell.prepare(self.data)
        return {}


def serve(suite: str, quick: bool) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    warnings.simplefilter("ignore")
    if os.environ.get("PYTHONPATH"):  # which an editable install of kvariates would come before
        sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
    server = Server(suite, quick)
    answer: dict[str, Any] = {"file": importlib.import_module("kvariates").__file__}
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], "quick" in sys.argv[2:])
