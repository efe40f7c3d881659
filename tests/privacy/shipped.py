"""What ships in `privacy/mechanisms.py`, as mechanisms to audit; and mistakes planted in it.

| mechanism | how it runs |
|---|---|
| counts, sums | one call for all runs: they take any number of cells, each with its own noise |
| scalar, choose, cells_above | a call a run |

A mistake is a context in which the shipped code is wrong; `MISTAKES` says which case shows it.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from kvariates.privacy import mechanisms
from kvariates.privacy.neighbours import Neighbours, neighbours
from kvariates.privacy.noise_source import Calibrated, measurement

# Runs are chosen beforehand, by what half of them certify with an error of 1e-6 of claims of
# epsilon = 1 or rho = 0.5: 4000 show half the noise (1.5 +- 0.07; 0.8 for Gaussian noise). Where
# every run is a call, 1000 show a third of it (1.6 +- 0.16) and 400 what has no noise (2.5).
# Mistakes have as many as put theirs above the claim by five standard deviations.
SIDES = ("add-remove", "replace-one")
COSTS = ({"epsilon": 1.0}, {"rho": 0.5})
PER_AXIS = 10  # more empty cells than are noised one by one


@dataclass(frozen=True, eq=False)
class Case:
    """A mechanism x neighbours x claim."""

    mechanism: Callable
    neighbours: Neighbours
    claim: dict
    runs: int = 4000
    batch: bool = True

    @property
    def options(self):
        return {"runs": self.runs, "batch": self.batch, **self.claim}


def histogram(X, per_axis=2):
    edges = np.linspace(-1, 1, per_axis + 1)
    return np.histogramdd(X, bins=[edges] * X.shape[1])[0].ravel().astype(np.int64)


def counts(**how):
    def mechanism(X, runs):
        return mechanisms.counts(np.tile(histogram(X), (runs, 1)), label="cells", **how)[0]

    return mechanism


def scalar(**how):
    return lambda X: mechanisms.scalar(int((X[:, 0] > 0).sum()), label="rows on one side", **how)[0]


def sums(norm, **how):
    def mechanism(X, runs):
        grid = mechanisms.Lattice(1.0, X.shape[1], norm)
        total = mechanisms.quantize(X, grid).sum(axis=0)
        return mechanisms.sums(np.tile(total, (runs, 1)), grid=grid, label="sums", **how)[0]

    return mechanism


def choose(monotone, **how):
    """Six candidates at one place: the normaliser moves too, and the bound is nearly attained."""
    candidates = np.array([1.0] + [-1.0] * 6)

    def mechanism(X):
        # Monotone: a loss in [0, 1] a row. Else a gain in [-1, 1].
        losses = np.abs(X[:, :1] - candidates) / 2
        scores = -losses.sum(axis=0) if monotone else (1 - 2 * losses).sum(axis=0)
        got = mechanisms.choose(
            scores, sensitivity=1.0, monotone=monotone, label="candidate", **how
        )
        return f"candidate {got[0]}"

    return mechanism


def cells_above(**how):
    """Dense: what does not pass is 0."""

    def mechanism(X):
        cells = histogram(X, PER_AXIS)
        occupied, empty = np.flatnonzero(cells), np.flatnonzero(cells == 0)
        found, _ = mechanisms.cells_above(cells[occupied], len(empty), 0.0, label="cells", **how)
        out = np.zeros(len(cells))
        out[occupied[found.occupied]] = found.occupied_counts
        out[empty[found.empty.cells]] = found.empty.counts
        return out

    return mechanism


def _cases():
    for side in SIDES:
        for claim in COSTS:
            how = {"adjacency": side, **claim}
            name = f"{side}, {next(iter(claim))}"
            corner = neighbours("corner", 6, 2, side)
            yield f"counts, {name}", Case(counts(**how), corner, claim)
            yield f"scalar, {name}", Case(scalar(**how), corner, claim, 1000, batch=False)
            for norm in ("l1", "l2", "linf"):
                pair = neighbours("corner", 6, 4, side, norm=norm)
                yield f"sums in {norm}, {name}", Case(sums(norm, **how), pair, claim)
            for monotone in (True, False):
                kind = "monotone" if monotone else "any"
                pair = neighbours("corner", 2, 1, side)
                mechanism = choose(monotone, **how)
                yield f"choose, {kind}, {name}", Case(mechanism, pair, claim, 1000, batch=False)
            lone = neighbours("lone", 4, 2, side)
            yield f"cells above, {name}", Case(cells_above(**how), lone, claim, 400, batch=False)


CASES = dict(_cases())


# --- mistakes --------------------------------------------------------------------------------


def noise_halved():
    true = mechanisms.calibrated

    def half(law, sensitivity, cost, start):
        made = true(law, sensitivity, cost, start)
        return Calibrated(law, made.scale / 2, made.cost, measurement(law, made.scale / 2))

    return patch.object(mechanisms, "calibrated", half)


def no_square_root_of_d():
    return patch.object(mechanisms.Lattice, "l1", lambda grid, adjacency: grid.radius)


def rows_that_move_charged_once():
    true = mechanisms._of_counts
    return patch.object(mechanisms, "_of_counts", lambda moved, *rest: true(1, *rest))


def scores_that_fall_too():
    true = mechanisms._spread

    def spread(sensitivity, error, step, monotone, adjacency):
        return true(sensitivity, error, step, True, "add-remove")

    return patch.object(mechanisms, "_spread", spread)


def empty_cells_skipped():
    nothing = np.empty(0, dtype=np.int64)
    return patch.object(
        mechanisms, "empty_cells", lambda *_, **__: mechanisms.Passing(nothing, nothing)
    )


def one_noise_for_all():
    def shared(made, values):
        draws = made(np.zeros(values.size // values.shape[-1], dtype=np.int64).tolist())
        return values + np.array(draws).reshape(*values.shape[:-1], 1)

    return patch.object(mechanisms, "_noisy", shared)


def bounds_from_data():
    true = mechanisms.quantize

    @contextmanager
    def smaller():
        """The ball is as large as the rows; the sum is as far as a row goes."""

        def grid_of_rows(rows, grid):
            grid.__dict__["_widest"] = max(1, round(np.abs(rows).sum(axis=1).max() / grid.step))
            return true(rows, grid)

        with patch.object(mechanisms, "fixed", grid_of_rows):
            yield

    return smaller()


MISTAKES = {
    "noise halved": (noise_halved, "counts, add-remove, epsilon", 4000),
    "Gaussian noise halved": (noise_halved, "counts, replace-one, rho", 4000),
    "noise of a choice halved": (noise_halved, "choose, any, replace-one, epsilon", 5000),
    "sum noise without sqrt(d)": (no_square_root_of_d, "sums in l2, add-remove, epsilon", 24_000),
    "bounds taken from data": (bounds_from_data, "sums in l2, add-remove, epsilon", 4000),
    "a row that moves, charged once": (
        rows_that_move_charged_once,
        "counts, replace-one, epsilon",
        8000,
    ),
    "scores that fall, charged as rising": (
        scores_that_fall_too,
        "choose, any, add-remove, epsilon",
        6000,
    ),
    "empty cells skipped": (empty_cells_skipped, "cells above, add-remove, epsilon", 1000),
    "one noise value for all coordinates": (
        one_noise_for_all,
        "counts, add-remove, epsilon",
        1000,
    ),
}
