"""Anti-clustering: feasible first groups, then exchanges, or an exact search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.balancing.exact_groups import exact_groups
from kvariates.balancing.feasible_groups import FirstGroups
from kvariates.balancing.group_objectives import GroupObjective
from kvariates.balancing.group_problem import GroupProblem
from kvariates.data.exchanges import ExchangeOptions, ExchangeUnits, similar_order
from kvariates.data.rows import F64, Labels
from kvariates.progress import Report

FEW_PARTNERS = 32  # at least so many are tried for each unit
TRIED = 4_000_000  # exchanges that are tried in a sweep, if that is more


def partners(n_units: int) -> int:
    """How many partners of a unit are tried in a sweep."""
    return max(FEW_PARTNERS, TRIED // n_units)


@dataclass(frozen=True)
class SearchOptions:
    """`even`: no sizes of groups were asked for. `report`: see ExchangeOptions."""

    n_restarts: int
    max_sweeps: int
    even: bool
    report: Report | None = None


@dataclass(frozen=True, eq=False)
class GroupResult:
    """The group of each row.

    values : what exchanges minimise, at the start and after each sweep; empty for an exact search.
    """

    labels: Labels
    n_sweeps: int
    converged: bool
    values: tuple[float, ...] = ()


def exact(
    problem: GroupProblem, objective: GroupObjective, report: Report | None = None
) -> GroupResult:
    """The best groups, for few units."""
    return GroupResult(exact_groups(problem, objective, report)[problem.units.of_row], 0, True)


def exchanged(
    problem: GroupProblem, objective: GroupObjective, rows: F64 | None, options: SearchOptions,
    rng: np.random.Generator,
) -> GroupResult:  # fmt: skip
    """Groups that no exchange improves, or after `max_sweeps` sweeps; the best of several starts.

    rows : for the order in which similar rows are dealt out; None if there are only distances.
    """
    units = exchange_units(problem, rows, rng)
    first = FirstGroups(problem, units.order, options.even)
    starts = np.stack([first.draw(rng) for _ in range(options.n_restarts)])
    return improved(problem, objective, units, starts, options, rng)


def improved(
    problem: GroupProblem, objective: GroupObjective, units: ExchangeUnits, starts: Labels,
    options: SearchOptions, rng: np.random.Generator,
) -> GroupResult:  # fmt: skip
    """The best end of exchanges from the starts."""
    chosen = ExchangeOptions(
        partners(problem.units.n), options.max_sweeps, int(rng.integers(2**63)), options.report
    )
    end = objective.search(units, starts, chosen)
    return GroupResult(
        end.labels[problem.units.of_row], end.n_sweeps, end.converged, end.values
    )  # fmt: skip


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
