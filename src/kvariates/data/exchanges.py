"""Exchanges of units between groups: the native search of anti-clustering.

A unit is a row, or several rows that stay together. Units of one kind may change places. The search
lowers the objective with every sweep and gives the same result on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Floats, Labels
from kvariates.progress import Progress, Report

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ExchangeUnits:
    """What an exchange must respect."""

    order: Ints  # all units, kind by kind; those near each other in it should be alike
    kind_start: Ints  # where each kind begins in `order`, and its end
    size: Ints  # the number of rows of each unit
    low: Ints  # the least and
    high: Ints  # the largest number of rows of each group
    link_start: Ints  # for each unit, the units that must be in other groups, as in a CSR matrix
    link: Ints

    def in_order(self) -> ExchangeUnits:
        """The same units, numbered by their place in `order`."""
        n = len(self.order)
        place = np.empty(n, dtype=np.int64)
        place[self.order] = np.arange(n)
        graph = scipy.sparse.csr_array(
            (np.ones(len(self.link)), self.link, self.link_start), (n, n)
        )
        graph = graph[self.order]
        return replace(
            self, order=np.arange(n), size=self.size[self.order],
            link_start=graph.indptr.astype(np.int64), link=place[graph.indices],
        )  # fmt: skip


@dataclass(frozen=True)
class ExchangeOptions:
    """`partners`: how many are tried for each unit; all of its kind if it has no more units.

    `report` is called after each sweep of searches that try all partners. The others draw partners
    by the number of the sweep, which is counted inside of one native call.
    """

    partners: int
    max_sweeps: int
    seed: int
    report: Report | None = None


@dataclass(frozen=True, eq=False)
class ExchangeEnd:
    """The group of every unit; the native objective (smaller is better) after each sweep."""

    labels: Labels
    n_sweeps: int
    converged: bool  # the last sweep found no exchange
    values: tuple[float, ...]
    stopped: bool = False  # because the report asked for it


def exchange_rows(
    rows: F64, units: ExchangeUnits, starts: Labels, options: ExchangeOptions
) -> list[ExchangeEnd]:
    """Minimise the sum over groups of |sum of rows|^2 / size, once from each of the starts.

    The rows are copied in the order of the units: similar ones are then near each other in memory.
    """
    order = units.order
    ends = _searched(
        _native.exchange_rows, rows[order], units.in_order(), starts[:, order], options
    )
    for end in ends:
        end.labels[order] = end.labels.copy()
    return ends


def exchange_distances(
    distances: Floats, units: ExchangeUnits, starts: Labels, options: ExchangeOptions
) -> list[ExchangeEnd]:
    """Maximise the sum of distances within groups, once from each of the starts."""
    return _searched(_native.exchange_distances, distances, units, starts, options)


def _searched(
    search: Callable[..., Any], data: Floats, units: ExchangeUnits, starts: Labels,
    options: ExchangeOptions,
) -> list[ExchangeEnd]:  # fmt: skip
    labels = np.ascontiguousarray(starts, dtype=np.int32).copy()

    def swept(labels: Labels, sweeps: int) -> list[ExchangeEnd]:
        results = search(
            data, units.order, units.kind_start, units.size, units.low, units.high,
            units.link_start, units.link, labels, options.partners, sweeps, options.seed,
        )  # fmt: skip
        return [
            ExchangeEnd(end, sweeps, converged, tuple(values))
            for end, (sweeps, converged, values) in zip(labels, results, strict=True)
        ]

    all_tried = np.diff(units.kind_start).max() <= options.partners
    if options.report is None or not all_tried or options.max_sweeps == 0:
        return swept(labels, options.max_sweeps)
    return _sweep_by_sweep(swept, labels, options.max_sweeps, options.report)


def _sweep_by_sweep(
    swept: Callable[[Labels, int], list[ExchangeEnd]], labels: Labels, most: int, report: Report
) -> list[ExchangeEnd]:
    """The same ends as of one call: without random partners, a sweep depends on the labels only."""
    ends = swept(labels, 1)
    stopped = report(Progress("sweep", 1))
    for number in range(2, most + 1):
        left = [i for i, end in enumerate(ends) if not end.converged]
        if stopped or not left:
            break
        for i, end in zip(left, swept(labels[left], 1), strict=True):
            values = ends[i].values + end.values[1:]
            ends[i] = replace(end, n_sweeps=ends[i].n_sweeps + 1, values=values)
            labels[i] = end.labels
        stopped = report(Progress("sweep", number))
    return [replace(end, stopped=stopped) for end in ends]


def similar_order(rows: F64, kind_start: Ints, order: Ints, block: int) -> Ints:
    """`order`, with the units of each kind sorted so that every `block` of them is alike."""
    out = order.copy()
    _native.exchange_order(rows, kind_start, block, out)
    return out
