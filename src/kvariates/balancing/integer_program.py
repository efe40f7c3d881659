"""Solves an integer program so that an interrupt is heard: the solver holds the interpreter.

A small program gets a short time in this process, which most need. Any other is solved by a child
process, which ends with the call. The child is started by `subprocess`, so that scripts need no
`if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing import spawn
from typing import Any

from scipy.optimize import Bounds, LinearConstraint, milp

from kvariates.data.rows import F64
from kvariates.progress import Progress, Report

SECONDS = 60.0  # for one integer program
FIRST_SECONDS = 0.3  # in this process
FIRST_ENTRIES = 50_000  # of the constraints: with more, the solver looks late at its time limit
OUT_OF_TIME = 1  # a status of scipy's
IMPORT = "from kvariates.balancing import integer_program as p"
CHILD = f"import sys; sys.path[:] = {{}}; {IMPORT}; p.answer()"


@dataclass(frozen=True, eq=False)
class IntegerProgram:
    """Minimise cost @ x, where x is whole if its entry of `integrality` is 1."""

    cost: F64
    integrality: F64
    bounds: Bounds
    constraints: list[LinearConstraint]
    gap: float | None = None  # at which the solver ends; None: its own default
    seconds: float = SECONDS

    def solve(self, report: Report | None = None) -> Any:
        """Scipy's result; `status` 0 is an optimum, 2 is infeasible. Reports every second."""
        if sum(c.A.nnz for c in self.constraints) <= FIRST_ENTRIES:
            result = replace(self, seconds=min(FIRST_SECONDS, self.seconds)).solve_here()
            if result.status != OUT_OF_TIME:
                return result
        return self._solve_in_child(report)

    def solve_here(self) -> Any:
        options = {"time_limit": self.seconds}
        if self.gap is not None:
            options["mip_rel_gap"] = self.gap
        return milp(
            self.cost, integrality=self.integrality, bounds=self.bounds,
            constraints=self.constraints, options=options,
        )  # fmt: skip

    def _solve_in_child(self, report: Report | None) -> Any:
        # A session of its own: Ctrl-C in a terminal is for this process, which ends the child.
        call = [_python(), "-c", CHILD.format(sys.path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(  # noqa: S603 (no input of the user is part of the call)
            call, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        ) as child:
            try:
                output, errors = _output(child, pickle.dumps(self), report)
            finally:
                child.kill()
        if child.returncode != 0:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise RuntimeError(
                f"The solver's process ended with exit code {child.returncode} ({last or 'killed'})"
                "; use fewer rows or links, or method='exchange'."
            )
        return pickle.loads(output)  # noqa: S301 (written by `answer`)


def _python() -> str:
    """The interpreter that multiprocessing starts as well: programs that embed Python set it."""
    return os.fsdecode(spawn.get_executable() or sys.executable)


def _output(
    child: subprocess.Popen[bytes], program: bytes, report: Report | None
) -> tuple[bytes, bytes]:
    """What the child writes; every second of waiting is reported."""
    unsent: bytes | None = program  # `communicate` takes it once, also if it runs out of time
    for second in count(1):
        try:
            return child.communicate(unsent, timeout=1.0)
        except subprocess.TimeoutExpired:
            unsent = None
            if report is not None:
                report(Progress("seconds", second))
    raise AssertionError  # for mypy: `count` does not end


def answer() -> None:
    """The child's side: read a program, solve it, write the result."""
    program = pickle.load(sys.stdin.buffer)  # noqa: S301 (written by `_solve_in_child`)
    sys.stdout.buffer.write(pickle.dumps(program.solve_here()))
