"""The best groups of few units: all of them are listed, or an integer program finds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from kvariates.balancing.feasible_groups import clash
from kvariates.balancing.group_objectives import Dispersion, GroupObjective, PairValues, over_units
from kvariates.balancing.group_problem import GroupProblem, Program, program
from kvariates.balancing.integer_program import IntegerProgram
from kvariates.balancing.units import InfeasibleError, Units
from kvariates.data.rows import F64, Labels
from kvariates.progress import Report

MOST_LISTED = 200_000  # partial groupings
MOST_PAIRS = 20_000  # variables for pairs in an integer program


def exact_groups(
    problem: GroupProblem, objective: GroupObjective, report: Report | None = None
) -> Labels:
    """The groups of all units with the largest objective; ValueError if there are too many."""
    listed = all_groups(problem)
    if listed is not None:
        if not len(listed):
            raise InfeasibleError(clash(problem))
        chosen: Labels = listed[int(np.argmax(_values(listed, problem, objective)))]
        return chosen
    if isinstance(objective, Dispersion):
        return _largest_least(problem, objective, report)
    pairs = objective.pair_values(problem.sizes)
    assert pairs is not None  # noqa: S101 (for mypy: only Dispersion has none)
    return _best_sum(problem, pairs, report)


def all_groups(problem: GroupProblem, most: int = MOST_LISTED) -> Labels | None:
    """All groupings that fulfil the constraints, one a row; None if more than `most` are met.

    Units are added one by one. Groups that can stand for each other are numbered in the order in
    which they get their first unit.
    """
    units, G = problem.units, problem.n_groups
    table = np.zeros((1, 0), dtype=np.int32)
    room, left = problem.sizes[None].copy(), problem.most[None].copy()
    for unit in range(units.n):
        before = units.link[units.link_start[unit] : units.link_start[unit + 1]]
        before = before[before < unit]
        counts = units.counts[[unit]].toarray()[0]
        fits = room >= units.size[unit]
        fits &= (left >= counts[:, None]).all(axis=1)
        for other in before:
            fits[np.arange(len(table)), table[:, other]] = False
        if problem.interchangeable:
            used = table.max(axis=1, initial=-1).astype(np.int64)
            fits &= np.arange(G) <= used[:, None] + 1
        if fits.sum() > most:
            return None
        at, group = np.nonzero(fits)
        table = np.hstack([table[at], group[:, None].astype(np.int32)])
        room, left = room[at].copy(), left[at].copy()
        room[np.arange(len(at)), group] -= units.size[unit]
        left[np.arange(len(at)), :, group] -= counts
    enough = (problem.most - left >= problem.least).all(axis=(1, 2))
    return table[enough].astype(np.int32)


def _values(listed: Labels, problem: GroupProblem, objective: GroupObjective) -> F64:
    """The objective of each grouping, up to a constant."""
    pairs = objective.pair_values(problem.sizes)
    if pairs is None:
        return np.array([objective.value(labels[problem.units.of_row]) for labels in listed])
    total = np.zeros(len(listed))
    for g in range(problem.n_groups):
        member = (listed == g).astype(np.float64)
        outside = pairs.pair[g] * ~np.eye(problem.units.n, dtype=bool)
        total += ((member @ outside) * member).sum(axis=1) / 2 + member @ pairs.own[g]
    return total


def _best_sum(problem: GroupProblem, pairs: PairValues, report: Report | None) -> Labels:
    """An integer program with a variable z for each pair and group: z = 1 if both are in it."""
    model = program(problem, np.arange(problem.units.n))
    m, G = problem.units.n, problem.n_groups
    u, v = np.triu_indices(m, 1)
    if len(u) * G > MOST_PAIRS:
        raise ValueError(
            f"{m} units in {G} groups are too many for method='exact'; use method='exchange'."
        )
    value = np.concatenate([pairs.pair[g][u, v] for g in range(G)])
    x_cost = np.concatenate([pairs.own.T.ravel(), np.zeros(model.n - m * G)])
    z = np.arange(len(value))
    in_u = np.tile(u, G) * G + np.repeat(np.arange(G), len(u))
    in_v = np.tile(v, G) * G + np.repeat(np.arange(G), len(u))
    ones = np.ones(len(z))
    shape = (len(z), model.n)
    at_u = sparse.csr_array((ones, (z, in_u)), shape=shape)
    at_v = sparse.csr_array((ones, (z, in_v)), shape=shape)
    eye = sparse.eye_array(len(z), format="csr")
    constraints = [_wider(c, len(z)) for c in model.constraints]
    constraints += [
        LinearConstraint(sparse.hstack([-at_u, eye], format="csr"), -np.inf, 0),
        LinearConstraint(sparse.hstack([-at_v, eye], format="csr"), -np.inf, 0),
        LinearConstraint(sparse.hstack([-at_u - at_v, eye], format="csr"), -1, np.inf),
        _pairs_of_group(problem, model, len(u)),
    ]
    result = IntegerProgram(
        -np.concatenate([x_cost, value]),
        np.concatenate([np.ones(model.n), np.zeros(len(z))]),
        Bounds(0, np.concatenate([model.bounds.ub, ones])),
        constraints,
        gap=0.0,
    ).solve(report)
    if result.status == 2:
        raise InfeasibleError(clash(problem))
    if result.status != 0:
        raise ValueError(
            f"method='exact' found no proof of an optimum for {m} units within a minute; use "
            "method='exchange'."
        )
    return model.labels(result.x)


def _wider(constraint: LinearConstraint, more: int) -> LinearConstraint:
    """The constraint with `more` variables that it does not use."""
    A = sparse.csr_array(constraint.A)
    return LinearConstraint(
        sparse.hstack([A, sparse.csr_array((A.shape[0], more))], format="csr"),
        constraint.lb,
        constraint.ub,
    )


def _pairs_of_group(problem: GroupProblem, model: Program, pairs: int) -> LinearConstraint:
    """If no unit has several rows, a group of size s has s (s - 1) / 2 pairs: a tighter program."""
    G = problem.n_groups
    count = sparse.kron(sparse.eye_array(G), np.ones((1, pairs)), format="csr")
    A = sparse.hstack([sparse.csr_array((G, model.n)), count], format="csr")
    if problem.units.n < len(problem.units.of_row):
        return LinearConstraint(A, 0, np.inf)
    each = problem.sizes * (problem.sizes - 1) / 2
    return LinearConstraint(A, each, each)


def _largest_least(problem: GroupProblem, objective: Dispersion, report: Report | None) -> Labels:
    """Bisect the distances: pairs that are nearer must be in different groups."""
    between = over_units(objective.distances, objective.units, np.minimum)
    u, v = np.triu_indices(problem.units.n, 1)
    levels = np.unique(between[u, v])
    low, high = 0, len(levels)  # levels[low] can be reached; levels[high] cannot
    found = _apart(problem, between, -np.inf, report)
    if found is None:
        raise InfeasibleError(clash(problem))
    while high - low > 1:
        middle = (low + high) // 2
        tried = _apart(problem, between, levels[middle], report)
        if tried is None:
            high = middle
        else:
            low, found = middle, tried
    return found


def _apart(
    problem: GroupProblem, between: F64, distance: float, report: Report | None
) -> Labels | None:
    """Groups in which no two units are nearer than this; None if there are none."""
    near = between < distance
    np.fill_diagonal(near, False)
    units = problem.units
    a = np.repeat(np.arange(units.n), units.degree)
    near[a, units.link] = True
    graph = sparse.csr_array(near)
    start, link = graph.indptr.astype(np.int64), graph.indices.astype(np.int64)
    linked = Units(units.of_row, units.category, start, link)
    model = program(replace(problem, units=linked), np.arange(units.n))
    result = model.solve(report=report)
    if result.status not in (0, 2):
        raise ValueError(
            f"method='exact' found no answer for {units.n} units within a minute; use "
            "method='exchange'."
        )
    return model.labels(result.x) if result.status == 0 else None
