"""Anti-clustering: feasible first groups, then exchanges, or an exact search; folds of groups.

An exact search lists all groups of few units, or solves an integer program.

Folds keep groups of rows together, and are as alike as possible. Their sizes are those of
scikit-learn's GroupKFold: the largest group first, always to the smallest fold. Then groups of any
size change places, as long as no fold gets smaller than the smallest or larger than the largest
was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from kvariates.balancing.feasible_groups import FirstGroups, clash
from kvariates.balancing.group_objectives import (
    Dispersion,
    GroupObjective,
    MakeObjective,
    PairValues,
    over_units,
)
from kvariates.balancing.group_problem import (
    NO_LINKS,
    GroupProblem,
    InfeasibleError,
    Links,
    Units,
    group_problem,
    pairs_of,
    program,
    solved,
)
from kvariates.data.exchanges import (
    ExchangeEnd,
    ExchangeOptions,
    ExchangeUnits,
    Ints,
    similar_order,
)
from kvariates.data.rows import F64, Floats, Labels
from kvariates.progress import Report

FEW_PARTNERS = 32  # at least so many are tried for each unit
TRIED = 4_000_000  # exchanges that are tried in a sweep, if that is more
MOST_LISTED = 200_000  # partial groupings
MOST_PAIRS = 20_000  # variables for pairs in an integer program


def partners(n_units: int) -> int:
    """How many partners of a unit are tried in a sweep."""
    return max(FEW_PARTNERS, TRIED // n_units)


@dataclass(frozen=True)
class SearchOptions:
    """`report`: see ExchangeOptions."""

    n_restarts: int
    max_sweeps: int
    report: Report | None = None


def exchanged(
    problem: GroupProblem, objective: GroupObjective, rows: F64 | None, options: SearchOptions,
    rng: np.random.Generator,
) -> ExchangeEnd:  # fmt: skip
    """Groups that no exchange improves, or after `max_sweeps` sweeps; the best of several starts.

    rows : for the order in which similar rows are dealt out; None if there are only distances.
    """
    units = exchange_units(problem, rows, rng)
    first = FirstGroups(problem, units.order)
    starts = np.stack([first.draw(rng) for _ in range(options.n_restarts)])
    return improved(problem, objective, units, starts, options, rng)


def improved(
    problem: GroupProblem, objective: GroupObjective, units: ExchangeUnits, starts: Labels,
    options: SearchOptions, rng: np.random.Generator,
) -> ExchangeEnd:  # fmt: skip
    """The best end of exchanges from the starts, with the group of each row."""
    chosen = ExchangeOptions(
        partners(problem.units.n), options.max_sweeps, int(rng.integers(2**63)), options.report
    )
    end = objective.search(units, starts, chosen)
    return replace(end, labels=end.labels[problem.units.of_row])


def exchange_units(
    problem: GroupProblem, rows: F64 | None, rng: np.random.Generator
) -> ExchangeUnits:
    """Units sorted by kind, and similar ones of a kind near each other."""
    units = problem.units
    order = np.argsort(units.kind, kind="stable")
    start = np.flatnonzero(np.diff(units.kind[order], prepend=-1, append=-1)).astype(np.int64)
    if rows is None:
        order = rng.permutation(units.n)
        order = order[np.argsort(units.kind[order], kind="stable")]
    else:
        means = units.sums(rows) / units.size[:, None]
        order = similar_order(np.ascontiguousarray(means), start, order, problem.n_groups)
    return ExchangeUnits(
        order, start, units.size, problem.sizes, problem.sizes, units.link_start, units.link
    )


def grouped_folds(
    data: Floats, make: MakeObjective, group: Ints, n_folds: int, options: SearchOptions,
    rng: np.random.Generator,
) -> ExchangeEnd:  # fmt: skip
    """The fold of each row. `group`: a number for each row; `data`: what the objective takes."""
    links = Links(pairs_of(group, np.arange(len(group))), NO_LINKS)
    problem = group_problem(np.zeros(len(group), dtype=np.int64), links, n_folds)
    size = problem.units.size
    starts = np.stack([evenly_packed(size, n_folds, rng) for _ in range(options.n_restarts)])
    sizes = np.bincount(starts[0], weights=size, minlength=n_folds).astype(np.int64)
    n = len(size)
    units = ExchangeUnits(
        rng.permutation(n), np.array([0, n]), size, np.full(n_folds, sizes.min()),
        np.full(n_folds, sizes.max()), np.zeros(n + 1, dtype=np.int64), np.empty(0, np.int64),
    )  # fmt: skip
    return improved(problem, make(data, problem.units), units, starts, options, rng)


def evenly_packed(size: Ints, n_bins: int, rng: np.random.Generator) -> Labels:
    """The bin of each item: the largest first, each into the bin with the least in it."""
    filled = np.zeros(n_bins)
    labels = np.empty(len(size), dtype=np.int32)
    for item in np.lexsort([rng.random(len(size)), -size]):
        labels[item] = int(np.lexsort([rng.random(n_bins), filled])[0])
        filled[labels[item]] += size[item]
    return labels


def exact(
    problem: GroupProblem, objective: GroupObjective, report: Report | None = None
) -> ExchangeEnd:
    """The groups with the largest objective; ValueError if there are too many units."""
    listed = all_groups(problem)
    if listed is not None:
        if not len(listed):
            raise InfeasibleError(clash(problem))
        labels = listed[int(np.argmax(_values(listed, problem, objective)))]
    elif isinstance(objective, Dispersion):
        labels = _largest_least(problem, objective, report)
    else:
        labels = _best_sum(problem, objective.pair_values(problem.sizes), report)
    return ExchangeEnd(labels[problem.units.of_row], 0, True, ())


def all_groups(problem: GroupProblem, most: int = MOST_LISTED) -> Labels | None:
    """All groupings that fulfil the constraints, one a row; None if more than `most` are met.

    Units are added one by one. Groups that can stand for each other are numbered in the order in
    which they get their first unit.
    """
    units, G = problem.units, problem.n_groups
    limits = np.vstack([problem.sizes, problem.least, problem.most])
    interchangeable = bool((limits == limits[:, :1]).all())
    table = np.zeros((1, 0), dtype=np.int32)
    room, left = problem.sizes[None].copy(), problem.most[None].copy()
    for unit in range(units.n):
        counts = units.counts[[unit]].toarray()[0]
        fits = room >= units.size[unit]
        fits &= (left >= counts[:, None]).all(axis=1)
        for other in units.linked(unit)[units.linked(unit) < unit]:
            fits[np.arange(len(table)), table[:, other]] = False
        if interchangeable:
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
    if isinstance(objective, Dispersion):
        return np.array([objective.value(labels[problem.units.of_row]) for labels in listed])
    pairs, total = objective.pair_values(problem.sizes), np.zeros(len(listed))
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
    z, group, ones = np.arange(len(value)), np.repeat(np.arange(G), len(u)), np.ones(len(value))
    at_u, at_v = (
        sparse.csr_array((ones, (z, np.tile(side, G) * G + group)), shape=(len(z), model.n))
        for side in (u, v)
    )
    eye = sparse.eye_array(len(z), format="csr")
    in_group = sparse.kron(sparse.eye_array(G), np.ones((1, len(u))), format="csr")
    # If no unit has several rows, a group of size s has s (s - 1) / 2 pairs: a tighter program.
    pairs_of = problem.sizes * (problem.sizes - 1) / 2
    single = m == len(problem.units.of_row)
    blocks = [
        *((c.A, _none(c.A, len(z)), c.lb, c.ub) for c in model.constraints),
        (-at_u, eye, -np.inf, 0),
        (-at_v, eye, -np.inf, 0),
        (-at_u - at_v, eye, -1, np.inf),
        (_none(in_group, model.n), in_group, pairs_of * single, pairs_of if single else np.inf),
    ]
    arguments = {
        "c": -np.concatenate([x_cost, value]),
        "integrality": np.concatenate([np.ones(model.n), np.zeros(len(z))]),
        "bounds": Bounds(0, np.concatenate([model.bounds.ub, ones])),
        "constraints": [
            LinearConstraint(sparse.hstack([of_x, of_z], format="csr"), low, high)
            for of_x, of_z, low, high in blocks
        ],
    }
    result = solved(arguments, report, mip_rel_gap=0.0)
    if result.status == 2:
        raise InfeasibleError(clash(problem))
    if result.status != 0:
        raise ValueError(
            f"method='exact' found no proof of an optimum for {m} units within a minute; use "
            "method='exchange'."
        )
    return model.labels(result.x)


def _none(like: sparse.csr_array, columns: int) -> sparse.csr_array:
    """Variables that these constraints do not use."""
    return sparse.csr_array((like.shape[0], columns))


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
