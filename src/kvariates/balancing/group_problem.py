"""The constraints of anti-clustering, also as an integer program, and the solver of such programs.

Units are put into groups: rows that must-links join. Two units are of one kind if they have as many
rows of each category. An exchange of such units changes neither the sizes of the groups nor their
categories.

The solver holds the interpreter, so that an interrupt would not be heard. A small program gets a
short time in this process, which most need. Any other is solved by a child process, which ends with
the call. The child is started by `subprocess`, so that scripts need no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from multiprocessing import spawn
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import connected_components

from kvariates.data.exchanges import Ints
from kvariates.data.rows import F64, Labels
from kvariates.progress import Progress, Report

MOST_VARIABLES = 200_000
SECONDS = 60.0  # for one integer program
FIRST_SECONDS = 0.3  # in this process
FIRST_ENTRIES = 50_000  # of the constraints: with more, the solver looks late at its time limit
OUT_OF_TIME = 1  # a status of scipy's
NO_LINKS = np.empty((0, 2), dtype=np.int64)
CHILD = """
import pickle, sys
sys.path[:] = {}
from scipy.optimize import milp
sys.stdout.buffer.write(pickle.dumps(milp(**pickle.load(sys.stdin.buffer))))
"""


class InfeasibleError(ValueError):
    """No groups fulfil the constraints."""


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of rows: `must` in one group, `cannot` in one group. Both of shape (pairs, 2)."""

    must: Ints
    cannot: Ints


@dataclass(frozen=True, eq=False)
class Categories:
    """The number of each row's category, and the names; none if no categories are given."""

    number: Ints
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Units:
    """Units, numbered by their first row.

    of_row : the unit of each row.
    category : the category of each row; all 0 if there are none.
    link_start, link : for each unit, those that must be in other groups, as in a CSR matrix.
    """

    of_row: Ints
    category: Ints
    link_start: Ints
    link: Ints

    @property
    def n(self) -> int:
        return len(self.link_start) - 1

    @cached_property
    def size(self) -> Ints:
        """The rows of each unit."""
        return np.bincount(self.of_row, minlength=self.n)

    @cached_property
    def n_categories(self) -> int:
        return int(self.category.max()) + 1

    @cached_property
    def counts(self) -> sparse.csr_array:
        """Rows of each category (columns) in each unit (rows)."""
        shape = (self.n, self.n_categories)
        ones = np.ones(len(self.of_row), dtype=np.int64)
        return sparse.csr_array((ones, (self.of_row, self.category)), shape=shape)

    @cached_property
    def degree(self) -> Ints:
        """The cannot-links of each unit."""
        return np.diff(self.link_start)

    @cached_property
    def constrained(self) -> NDArray[np.bool_]:
        """Which units have links or several rows."""
        return (self.size > 1) | (self.degree > 0)

    def linked(self, unit: int) -> Ints:
        """The units that must be in other groups than this one."""
        return self.link[self.link_start[unit] : self.link_start[unit + 1]]

    @cached_property
    def first_row(self) -> Ints:
        return np.unique(self.of_row, return_index=True)[1]

    @cached_property
    def kind(self) -> Ints:
        """The kind of each unit. Single rows of category c have kind c."""
        kind = self.category[self.first_row]
        counts, known = self.counts, dict[tuple[int, ...], int]()
        for unit in np.flatnonzero(self.size > 1):
            part = slice(counts.indptr[unit], counts.indptr[unit + 1])
            key = (*counts.indices[part].tolist(), *counts.data[part].tolist())
            kind[unit] = self.n_categories + known.setdefault(key, len(known))
        return kind

    def sums(self, rows: F64) -> F64:
        """The sum of the rows of each unit."""
        if self.n == len(rows):
            return rows
        shape = (self.n, len(rows))
        member = sparse.csr_array((np.ones(len(rows)), (self.of_row, np.arange(len(rows)))), shape)
        return np.ascontiguousarray(member @ rows)


def pairs_of(label: Ints, rows: Ints) -> Ints:
    """Pairs of these rows that join all of equal labels."""
    rows = rows[np.argsort(label[rows], kind="stable")]
    same = np.flatnonzero(np.diff(label[rows]) == 0)
    return np.stack([rows[same], rows[same + 1]], axis=1).astype(np.int64)


def units_of(n: int, category: Ints, links: Links) -> Units:
    """The units of n rows; InfeasibleError if a cannot-link is within a unit."""
    joined = sparse.csr_array((np.ones(len(links.must)), tuple(links.must.T)), shape=(n, n))
    of_row = connected_components(joined, directed=False)[1].astype(np.int64)
    a, b = of_row[links.cannot.T]
    if (a == b).any():
        i, j = links.cannot[int(np.argmax(a == b))]
        raise InfeasibleError(
            f"cannot_link keeps rows {i} and {j} apart, but must_link joins them, directly or "
            "through other rows. Remove one of the links."
        )
    count = int(of_row.max()) + 1
    both = np.concatenate([a, b]), np.concatenate([b, a])
    table = sparse.csr_array((np.ones(2 * len(a), dtype=np.int64), both), shape=(count, count))
    start, link = table.indptr.astype(np.int64), table.indices.astype(np.int64)
    return Units(of_row, category, start, link)


@dataclass(frozen=True, eq=False)
class GroupProblem:
    """Units to be put into groups.

    sizes : rows of each group.
    least, most : rows of each category (axis 0) in each group (axis 1).
    links : the links of rows, from which the units were made.
    even : no sizes were asked for.
    """

    units: Units
    sizes: Ints
    least: Ints
    most: Ints
    links: Links
    even: bool

    @property
    def n_groups(self) -> int:
        return len(self.sizes)


def group_problem(
    category: Ints, links: Links, n_groups: int, sizes: Ints | None = None
) -> GroupProblem:
    """The problem for rows of these categories.

    Without sizes, those of two groups differ by at most one, and so do their rows of a category.
    With sizes, the rows of a category in a group are its share of them, rounded up or down.
    """
    n = len(category)
    units = units_of(n, category, links)
    per_category, even = np.bincount(category)[:, None], sizes is None
    if sizes is None:
        sizes = np.full(n_groups, n // n_groups) + (np.arange(n_groups) < n % n_groups)
        least = np.repeat(per_category // n_groups, n_groups, axis=1)
        most = np.repeat(-(-per_category // n_groups), n_groups, axis=1)
    else:
        least, most = per_category * sizes // n, -(-per_category * sizes // n)
    return GroupProblem(units, sizes.astype(np.int64), least, most, links, even)


def solved(program: dict[str, Any], report: Report | None, **options: float) -> Any:
    """The result of scipy's `milp` for these arguments. Reports every second.

    Its `status` 0 is an optimum, 2 is infeasible.
    """
    if sum(c.A.nnz for c in program["constraints"]) <= FIRST_ENTRIES:
        result = milp(**program, options={**options, "time_limit": FIRST_SECONDS})
        if result.status != OUT_OF_TIME:
            return result
    program = {**program, "options": {**options, "time_limit": SECONDS}}
    # A session of its own: Ctrl-C in a terminal is for this process, which ends the child. The
    # interpreter is that which multiprocessing starts: programs that embed Python set it.
    python, pipe = os.fsdecode(spawn.get_executable() or sys.executable), subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 (no input of the user is part of the call)
        [python, "-c", CHILD.format(sys.path)],
        stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
    ) as child:  # fmt: skip
        try:
            output, errors = _communicate(child, pickle.dumps(program), report)
        finally:
            child.kill()
    if child.returncode != 0:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(
            f"The solver's process ended with exit code {child.returncode} ({last or 'killed'})"
            "; use fewer rows or links, or method='exchange'."
        )
    return pickle.loads(output)  # noqa: S301 (written by the child)


def _communicate(
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


@dataclass(frozen=True, eq=False)
class Program:
    """Variables of an integer program: x[u, g] = 1 if the listed unit u is in group g, and y[c, g].

    y[c, g] is the number of single rows of category c in group g that are not listed: they have no
    links and can stand for each other. `constraints` are those of the problem.
    """

    listed: Ints
    n_groups: int
    n_categories: int
    bounds: Bounds
    constraints: list[LinearConstraint]

    @property
    def n(self) -> int:
        return (len(self.listed) + self.n_categories) * self.n_groups

    def solve(self, cost: F64 | None = None, report: Report | None = None) -> Any:
        """See `solved`; without a cost, any x that fulfils the constraints."""
        cost = np.zeros(self.n) if cost is None else cost
        whole = {"integrality": np.ones(self.n), "bounds": self.bounds}
        return solved({"c": cost, "constraints": self.constraints, **whole}, report)

    def labels(self, x: F64) -> Labels:
        """The groups of the listed units."""
        part = x[: len(self.listed) * self.n_groups].reshape(-1, self.n_groups)
        groups: Labels = part.argmax(axis=1).astype(np.int32)
        return groups

    def counts(self, x: F64) -> Ints:
        """The rows of each category that are not listed, in each group."""
        part = x[len(self.listed) * self.n_groups :].reshape(-1, self.n_groups)
        return np.rint(part).astype(np.int64)


def program(problem: GroupProblem, listed: Ints, pooled: Ints | None = None) -> Program:
    """The constraints of the problem; all units with links or several rows must be listed.

    pooled : the rows of each category that are not listed; counted if None.
    """
    units, G = problem.units, problem.n_groups
    C, m = units.n_categories, len(listed)
    if pooled is None:
        single = np.ones(units.n, dtype=bool)
        single[listed] = False
        pooled = np.bincount(units.category[units.first_row[single]], minlength=C)
    each_group = sparse.eye_array(G, format="csr")
    in_one_group = sparse.kron(sparse.eye_array(m + C), np.ones((1, G)), format="csr")
    counts = sparse.hstack([units.counts[listed].T, sparse.eye_array(C)])
    in_group = sparse.kron(counts, each_group, format="csr")  # (c, g): rows of c in g
    in_size = sparse.kron(np.ones((1, C)), each_group, format="csr") @ in_group
    total = np.concatenate([np.ones(m), pooled])
    constraints = [
        LinearConstraint(in_one_group, total, total),
        LinearConstraint(in_size, problem.sizes, problem.sizes),
        LinearConstraint(in_group, problem.least.ravel(), problem.most.ravel()),
    ]
    place = np.full(units.n, -1)
    place[listed] = np.arange(m)
    a, b = np.repeat(np.arange(units.n), units.degree), units.link
    once = (a < b) & (place[a] >= 0) & (place[b] >= 0)
    a, b = place[a[once]], place[b[once]]
    if len(a):
        pair = np.arange(len(a))
        both = sparse.csr_array(
            (np.ones(2 * len(a)), (np.r_[pair, pair], np.r_[a, b])), shape=(len(a), m + C)
        )
        apart = sparse.kron(both, each_group, format="csr")
        constraints.append(LinearConstraint(apart, -np.inf, 1))
    upper = np.concatenate([np.ones(m * G), np.repeat(pooled, G)])
    return Program(listed, G, C, Bounds(0, upper), constraints)
