"""Processes of benchmarks: each answers lines of JSON, and runs a task when it is asked to."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.timing import PAUSE, foreign_seconds
from benchmarks.workloads import ROOT


@dataclass(frozen=True)
class Run:
    """One or several calls of a task: seconds a call, and the cores that other processes used."""

    wall: float
    cpu: float
    others: float


class Child:
    """A process that answers each line of its standard input, both of JSON."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

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


def follow_pythonpath() -> None:
    """Import kvariates from PYTHONPATH, which an editable install would come before."""
    if os.environ.get("PYTHONPATH"):
        sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]


def answer_lines(
    answer_to: Callable[[dict[str, Any]], dict[str, Any]], begin: Callable[[], dict[str, Any]]
) -> None:
    """Answer each line of the standard input, after one line that says that all is ready."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    warnings.simplefilter("ignore")
    print(json.dumps(begin()), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = answer_to(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def run(task: Callable[[], object], calls: int) -> Run:
    gc.collect()
    time.sleep(PAUSE)
    foreign, cpu, wall = foreign_seconds(), time.process_time(), time.perf_counter()
    for _ in range(calls):
        task()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Run(wall / calls, cpu / calls, max(0.0, (foreign_seconds() - foreign) / wall))
