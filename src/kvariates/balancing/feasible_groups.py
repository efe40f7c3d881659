"""First groups that fulfil all constraints, and what to say if there are none.

Units with links or several rows are placed one by one, the largest and most constrained first. If
that fails, an integer program places them. All other rows are dealt out: in an order in which
similar rows are near each other, every few consecutive rows go to different groups.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvariates.balancing.group_problem import (
    MOST_VARIABLES,
    NO_LINKS,
    GroupProblem,
    InfeasibleError,
    Links,
    Units,
    group_problem,
    program,
)
from kvariates.data.exchanges import Ints
from kvariates.data.rows import Labels

TRIES = 10  # to place units one by one


class FirstGroups:
    """Draws feasible groups of the units."""

    def __init__(self, problem: GroupProblem, order: Ints) -> None:
        """`order`: all units, similar ones near each other."""
        self.problem = problem
        self._listed = np.flatnonzero(problem.units.constrained)
        self._order = order[~problem.units.constrained[order]]
        self._solved: tuple[Labels, Ints] | None = None

    def draw(self, rng: np.random.Generator) -> Labels:
        """One start: the group of each unit."""
        labels = np.full(self.problem.units.n, -1, dtype=np.int32)
        labels[self._listed], counts = self._placed(rng)
        category = self.problem.units.category[self.problem.units.first_row[self._order]]
        for c in np.flatnonzero(counts.sum(axis=1)):
            labels[self._order[category == c]] = dealt(counts[c], rng)
        return labels

    def _placed(self, rng: np.random.Generator) -> tuple[Labels, Ints]:
        """The groups of the constrained units, and the counts of all other rows."""
        p = self.problem
        if not len(self._listed) and (p.even or p.units.n_categories == 1):
            return np.empty(0, np.int32), rotated_counts(p, rng)
        for _ in range(TRIES if self._solved is None else 1):
            placed = placed_one_by_one(p, self._listed, rng)
            if placed is None:
                continue
            counts = _filled(p, self._listed, placed, rng)
            if counts is not None:
                return placed, counts
        if self._solved is None:
            self._solved = _solved(p, self._listed)
        return self._solved


def dealt(counts: Ints, rng: np.random.Generator) -> Labels:
    """Labels with these counts; those of one group are spread evenly.

    With equal counts, every block of len(counts) labels is a random permutation of the groups.
    """
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return labels[np.argsort((rank + rng.random(len(labels))) / np.repeat(counts, counts))]


def rotated_counts(problem: GroupProblem, rng: np.random.Generator) -> Ints:
    """Counts of all categories: rows in order of category go to one group after the other."""
    n, G, C = len(problem.units.of_row), problem.n_groups, problem.units.n_categories
    if C == 1:
        return problem.sizes[None]
    groups = rng.permutation(G)
    groups = groups[np.argsort(-problem.sizes[groups], kind="stable")]
    category = rng.permutation(C)
    sequence = np.repeat(category, np.bincount(problem.units.category)[category])
    cell = sequence * G + groups[np.arange(n) % G]
    return np.bincount(cell, minlength=C * G).reshape(C, G)


def placed_one_by_one(
    problem: GroupProblem, listed: Ints, rng: np.random.Generator
) -> Labels | None:
    """Each unit goes where most room is left; None if one does not fit anywhere."""
    units = problem.units
    key = np.lexsort([rng.random(len(listed)), -units.degree[listed], -units.size[listed]])
    labels = np.full(units.n, -1, dtype=np.int32)
    room, left = problem.sizes.astype(np.float64), problem.most.copy()
    counts = units.counts
    for unit in listed[key]:
        part = slice(counts.indptr[unit], counts.indptr[unit + 1])
        rows, category = counts.data[part], counts.indices[part]
        fits = (room >= units.size[unit]) & (left[category] >= rows[:, None]).all(axis=0)
        linked = labels[units.linked(unit)]
        fits[linked[linked >= 0]] = False
        if not fits.any():
            return None
        share = np.where(fits, room / problem.sizes + 1e-9 * rng.random(len(room)), -1.0)
        group = int(share.argmax())
        labels[unit] = group
        room[group] -= units.size[unit]
        left[category, group] -= rows
    return labels[listed]


def _filled(
    problem: GroupProblem, listed: Ints, placed: Labels, rng: np.random.Generator
) -> Ints | None:
    """Counts of the rows that are not listed, once the listed units are placed."""
    units, G = problem.units, problem.n_groups
    fixed = np.zeros((units.n_categories, G), dtype=np.int64)
    part = units.counts[listed].tocoo()
    np.add.at(fixed, (part.col, placed[part.row]), part.data)
    sizes: Ints = problem.sizes - fixed.sum(axis=0)
    if units.n_categories == 1:
        return np.atleast_2d(sizes)
    rest = replace(
        problem, sizes=sizes, least=np.maximum(problem.least - fixed, 0), most=problem.most - fixed
    )
    pooled = np.bincount(units.category, minlength=units.n_categories) - fixed.sum(axis=1)
    model = program(rest, listed[:0], pooled)
    result = model.solve(rng.random(model.n))
    return model.counts(result.x) if result.status == 0 else None


def _solved(problem: GroupProblem, listed: Ints) -> tuple[Labels, Ints]:
    """Place the units by an integer program; InfeasibleError with the reason if that fails."""
    model = program(problem, listed)
    if model.n > MOST_VARIABLES:
        raise InfeasibleError(
            f"No groups were found that fulfil all constraints, and {len(listed)} units with links "
            "are too many for an exact search. Remove some links, or use fewer groups."
        )
    result = model.solve()
    if result.x is not None:
        return model.labels(result.x), model.counts(result.x)
    if result.status == 2:
        raise InfeasibleError(clash(problem))
    raise InfeasibleError(
        "No groups were found that fulfil all constraints within a minute; it is not known whether "
        "there are any. Remove some links, or use fewer groups."
    )


def clash(problem: GroupProblem) -> str:
    """Which constraints of an infeasible problem cannot hold together."""
    units, most = problem.units, int(problem.sizes.max())
    unit = int(units.size.argmax())
    if units.size[unit] > most:
        rows = _named(np.flatnonzero(units.of_row == unit))
        return (
            f"must_link joins {units.size[unit]} rows ({rows}), but the largest group has {most} "
            "rows. Remove a link, or make groups larger."
        )
    clique = _large_clique(units, problem.n_groups)
    if clique is not None:
        rows = _named(units.first_row[clique])
        return (
            f"cannot_link keeps {len(clique)} rows apart from each other ({rows}), but there are "
            f"only {problem.n_groups} groups. Remove a link, or use more groups."
        )
    kinds = _clashing_kinds(problem)
    words = " and ".join(["the sizes of the groups", *kinds])
    return f"{words} cannot hold together. Remove some of these constraints, or use other sizes."


def _clashing_kinds(problem: GroupProblem) -> list[str]:
    """Kinds of constraints without any of which (but not all) the problem would be feasible."""
    given = {
        "categories": problem.units.n_categories > 1,
        "must_link": len(problem.links.must) > 0,
        "cannot_link": len(problem.links.cannot) > 0,
    }
    kinds = [name for name in given if given[name]]
    for kind in tuple(kinds):
        fewer = [other for other in kinds if other != kind]
        if _infeasible(problem, fewer):
            kinds = fewer
    return kinds


def _infeasible(problem: GroupProblem, kinds: list[str]) -> bool:
    category = problem.units.category
    if "categories" not in kinds:
        category = np.zeros_like(category)
    links = Links(
        problem.links.must if "must_link" in kinds else NO_LINKS,
        problem.links.cannot if "cannot_link" in kinds else NO_LINKS,
    )
    relaxed = group_problem(category, links, problem.n_groups, problem.sizes)
    if "categories" in kinds:
        relaxed = replace(relaxed, least=problem.least, most=problem.most)
    model = program(relaxed, np.flatnonzero(relaxed.units.constrained))
    return bool(model.solve().status == 2)


def _large_clique(units: Units, n_groups: int) -> Ints | None:
    """More than n_groups units that are all linked, if growing cliques greedily finds some."""
    neighbours = [set(units.linked(u).tolist()) for u in range(units.n)]
    for unit in np.argsort(-units.degree, kind="stable"):
        if units.degree[unit] < n_groups:
            return None
        clique, common = [int(unit)], neighbours[unit]
        while common:
            clique.append(max(common, key=lambda u: (len(neighbours[u] & common), -u)))
            common = common & neighbours[clique[-1]]
        if len(clique) > n_groups:
            return np.sort(clique)
    return None


def _named(rows: Ints) -> str:
    """The first few rows by number."""
    few = ", ".join(str(row) for row in rows[:6])
    return few if len(rows) <= 6 else f"{few}, ..."
