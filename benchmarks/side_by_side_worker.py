"""A process that runs cells in one version of kvariates; `Version` starts it and talks to it.

The process answers each line of its standard input by a line of JSON: `{"cell": name}` makes the
data and prepares the task, `{"calls": number}` calls the task and answers with the times.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.processes import Child, answer_lines, follow_pythonpath, run
from benchmarks.side_by_side_cells import cells


class Version(Child):
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
        super().__init__(command, {"PYTHONPATH": path, "PYTHONHASHSEED": "0"})
        self.where, self.path = where, path

    def wait(self) -> str:
        """Wait until kvariates is imported. Returns its file."""
        file = str(self.receive()["file"])
        if not file.startswith(self.path):
            self.stop()
            raise SystemExit(f"{self.where}: Python imports {file} instead")
        return file


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
    follow_pythonpath()
    server = Server(suite, quick)
    answer_lines(server.answer, lambda: {"file": importlib.import_module("kvariates").__file__})


if __name__ == "__main__":
    serve(sys.argv[1], "quick" in sys.argv[2:])
