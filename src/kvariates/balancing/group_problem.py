"""The constraints of groups as a record, and as linear constraints of an integer program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from kvariates.balancing.integer_program import IntegerProgram
from kvariates.balancing.units import Links, Units, units_of
from kvariates.data.exchanges import Ints
from kvariates.data.rows import F64, Labels
from kvariates.progress import Report

MOST_VARIABLES = 200_000


@dataclass(frozen=True, eq=False)
class GroupProblem:
    """Units to be put into groups.

    sizes : rows of each group.
    least, most : rows of each category (axis 0) in each group (axis 1).
    links : the links of rows, from which the units were made.
    """

    units: Units
    sizes: Ints
    least: Ints
    most: Ints
    links: Links

    @property
    def n_groups(self) -> int:
        return len(self.sizes)

    @property
    def interchangeable(self) -> bool:
        """All groups have the same limits, so that their numbers do not matter."""
        tables = (self.sizes[None], self.least, self.most)
        return all(bool((table == table[:, :1]).all()) for table in tables)

    def holds(self, labels: Labels) -> bool:
        """Whether the groups of all units fulfil the constraints."""
        counts = counts_of(self.units, labels, self.n_groups)
        source = np.repeat(np.arange(self.units.n), self.units.degree)
        return bool(
            (counts.sum(axis=0) == self.sizes).all()
            and (counts >= self.least).all()
            and (counts <= self.most).all()
            and (labels[source] != labels[self.units.link]).all()
        )


def counts_of(units: Units, labels: Labels, n_groups: int) -> Ints:
    """Rows of each category (axis 0) in each group (axis 1)."""
    cell = units.category * n_groups + labels[units.of_row]
    shape = (units.n_categories, n_groups)
    return np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)


def group_problem(
    category: Ints, links: Links, n_groups: int, sizes: Ints | None = None
) -> GroupProblem:
    """The problem for rows of these categories.

    Without sizes, those of two groups differ by at most one, and so do their rows of a category.
    With sizes, the rows of a category in a group are its share of them, rounded up or down.
    """
    n = len(category)
    units = units_of(n, category, links)
    per_category = np.bincount(category)[:, None]
    if sizes is None:
        sizes = np.full(n_groups, n // n_groups) + (np.arange(n_groups) < n % n_groups)
        least = np.repeat(per_category // n_groups, n_groups, axis=1)
        most = np.repeat(-(-per_category // n_groups), n_groups, axis=1)
    else:
        least, most = per_category * sizes // n, -(-per_category * sizes // n)
    return GroupProblem(units, sizes.astype(np.int64), least, most, links)


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
        """See IntegerProgram.solve; without a cost, any x that fulfils the constraints."""
        cost = np.zeros(self.n) if cost is None else cost
        whole = IntegerProgram(cost, np.ones(self.n), self.bounds, self.constraints)
        return whole.solve(report)

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
