"""The releases of the library as mechanisms to audit, and mistakes planted in them.

Counts and sums run once for all runs: they take any number of cells, each with its own noise. The
others run once for each run.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from api import Cost, Lattice, Passing, Scores, measurement
from api import lattice_rows_module as lattice_rows
from api import mechanisms_module as mechanisms
from api import query_module as query
from privacy.exact_noise import ADJACENCIES
from privacy.neighbours import Neighbours, neighbours

# The numbers of runs were chosen beforehand, by what half of them certify with an error of 1e-6 for
# claims of epsilon = 1 or rho = 0.5: 4000 show half the noise (1.5 +- 0.07; 0.8 for Gaussian
# noise). If every run is a call, 1000 show a third of the noise (1.6 +- 0.16) and 400 no noise
# (2.5). With a mistake, as many runs as put the bound five standard deviations above the claim.
COSTS = (Cost(epsilon=1.0), Cost(rho=0.5))
PER_AXIS = 10  # more empty cells than get noise one by one


@dataclass(frozen=True, eq=False)
class Case:
    """A mechanism, neighbours and a claim."""

    mechanism: Callable
    neighbours: Neighbours
    cost: Cost
    runs: int = 4000
    batch: bool = True

    @property
    def options(self):
        claim = {"epsilon": self.cost.epsilon, "rho": self.cost.rho}
        return {"runs": self.runs, "batch": self.batch, **claim}


def histogram(X, per_axis=2):
    edges = np.linspace(-1, 1, per_axis + 1)
    return np.histogramdd(X, bins=[edges] * X.shape[1])[0].ravel().astype(np.int64)


def counts(X, runs, adjacency):
    return query.count_query(np.tile(histogram(X), (runs, 1)), adjacency, "cells")


def total(X, adjacency):
    return query.total_query(int((X[:, 0] > 0).sum()), adjacency, "rows on one side")


def sums(norm, X, runs, adjacency):
    lattice = Lattice(1.0, X.shape[1], norm)
    exact = lattice_rows.quantize(X, lattice).sum(axis=0)
    return query.sum_query(np.tile(exact, (runs, 1)), lattice, adjacency, "sums")


def scores(monotone, X, adjacency):
    """Six candidates at one place: the normaliser changes too, and the bound is nearly attained."""
    losses = np.abs(X[:, :1] - np.array([1.0] + [-1.0] * 6)) / 2
    # Monotone: a loss in [0, 1] for each row. Otherwise a gain in [-1, 1].
    total = -losses.sum(axis=0) if monotone else (1 - 2 * losses).sum(axis=0)
    return query.score_query(total, Scores(1.0, monotone), adjacency, "candidate")


def cells_above(X, adjacency):
    cells = histogram(X, PER_AXIS)
    occupied = np.flatnonzero(cells)
    found = query.Histogram(occupied, cells[occupied], len(cells))
    return query.histogram_query(found, 0.0, adjacency, "cells")


def _released(make_query, adjacency, cost, *first):
    """A mechanism that releases a query."""

    def mechanism(*data):
        value = mechanisms.release(make_query(*first, *data, adjacency), cost).value
        if make_query is scores:
            return f"candidate {value}"
        if isinstance(value, Passing):  # as an array, with 0 for cells that do not pass
            out = np.zeros(PER_AXIS**2)
            out[value.cells] = value.counts
            return out
        return value

    return mechanism


def _cases():
    for adjacency in ADJACENCIES:
        for cost in COSTS:
            how, name = (adjacency, cost), f"{adjacency}, {'epsilon' if cost.pure else 'rho'}"
            corner = neighbours("corner", 6, 2, adjacency)
            yield f"counts, {name}", Case(_released(counts, *how), corner, cost)
            yield f"total, {name}", Case(_released(total, *how), corner, cost, 1000, batch=False)
            for norm in ("l1", "l2", "linf"):
                pair = neighbours("corner", 6, 4, adjacency, norm=norm)
                yield f"sums in {norm}, {name}", Case(_released(sums, *how, norm), pair, cost)
            pair = neighbours("corner", 2, 1, adjacency)
            for kind, monotone in (("monotone", True), ("any", False)):
                mechanism = _released(scores, *how, monotone)
                yield f"scores, {kind}, {name}", Case(mechanism, pair, cost, 1000, batch=False)
            lone = neighbours("lone", 4, 2, adjacency)
            mechanism = _released(cells_above, *how)
            yield f"cells above, {name}", Case(mechanism, lone, cost, 400, batch=False)


CASES = dict(_cases())


# --- mistakes --------------------------------------------------------------------------------


def noise_halved():
    true = mechanisms.calibrated

    def half(law, *args):
        made = true(law, *args)
        scale = made.scale / 2
        return replace(made, scale=scale, measurement=measurement(law, scale))

    return patch.object(mechanisms, "calibrated", half)


def no_square_root_of_d():
    return patch.object(Lattice, "l1", lambda lattice, adjacency: lattice.radius)


def replaced_rows_charged_once():
    return patch.object(query.CellCounts, "l1", lambda *_: 1)


def falling_scores_charged_as_rising():
    true = Scores.range
    rising = lambda scores, _: true(replace(scores, monotone=True), "add-remove")  # noqa: E731
    return patch.object(Scores, "range", rising)


def empty_cells_skipped():
    nothing = np.empty(0, dtype=np.int64)
    return patch.object(query, "sample_passing", lambda *_, **__: Passing(nothing, nothing))


def one_noise_for_all():
    def shared(noise, values):
        draws = noise(np.zeros(values.size // values.shape[-1], dtype=np.int64).tolist())
        return values + np.array(draws).reshape(*values.shape[:-1], 1)

    return patch.object(query, "add_noise", shared)


@contextmanager
def bounds_from_data():
    """The sensitivity is that of the largest row."""
    true = lattice_rows.quantize

    def narrowed(rows, lattice):
        largest = round(np.abs(rows).sum(axis=1).max() / lattice.step)
        lattice.__dict__["_largest_l1"] = max(1, largest)
        return true(rows, lattice)

    with patch.object(lattice_rows, "quantize", narrowed):
        yield


# The mistake, the case that shows it, and the runs.
MISTAKES = {
    "noise halved": (noise_halved, "counts, add-remove, epsilon", 4000),
    "Gaussian noise halved": (noise_halved, "counts, replace-one, rho", 4000),
    "noise of a choice halved": (noise_halved, "scores, any, replace-one, epsilon", 5000),
    "sum noise without sqrt(d)": (no_square_root_of_d, "sums in l2, add-remove, epsilon", 24_000),
    "bounds taken from data": (bounds_from_data, "sums in l2, add-remove, epsilon", 4000),
    "a replaced row charged once": (
        replaced_rows_charged_once, "counts, replace-one, epsilon", 8000,
    ),
    "falling scores charged as rising": (
        falling_scores_charged_as_rising, "scores, any, add-remove, epsilon", 6000,
    ),
    "empty cells skipped": (empty_cells_skipped, "cells above, add-remove, epsilon", 1000),
    "one noise value for all coordinates": (one_noise_for_all, "counts, add-remove, epsilon", 1000),
}  # fmt: skip
