"""Mistakes planted in the code of private methods, each of which a replay must find.

A mistake is a piece of a function's source that is replaced. Statistical audits miss some of them:
"pay for the noisy spread, then use the exact one" passed all quick audits.
"""

import __future__

import inspect
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FunctionType

import numpy as np
import pytest
from api import (
    Accountant,
    CellCounts,
    FlooredPotential,
    Gupt,
    Lattice,
    Ledger,
    NoisyAssigner,
    NoisyMoments,
    Scores,
    TreeMethod,
    total_query,
)
from api import mechanisms_module as mechanisms
from api import noisy_tree_module as noisy_tree
from api import partition_module as partition
from api import query_module as query
from api import sample_aggregate_module as sample_aggregate
from api import task_module as task
from privacy.private_models import METHODS, make_task
from privacy.replay import replay
from privacy.replay_trace import Numbered, Outcome, Pair
from privacy.test_replay import THRESHOLDS, groups, make_fit, make_pair, spread_rows

from kvariates import PrivateKMeans

TREE = TreeMethod(steps=2)


@dataclass(frozen=True, eq=False)
class Mistake:
    """A function, what is replaced in its source, and a fit and two neighbours that show it."""

    function: FunctionType
    before: str
    after: str
    method: object
    pair: Pair
    says: str  # what the replay answers
    adjacency: str = "add-remove"
    delta: float = 0.0
    k: int = 2


@contextmanager
def planted(function, before, after):
    """The function with a piece of its source replaced, for everyone who has imported it."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(before) == 1, f"{before!r} is not in {function.__qualname__} once"
    flags = __future__.annotations.compiler_flag
    code = compile(source.replace(before, after), function.__qualname__, "exec", flags)
    made = {}
    exec(code, function.__globals__, made)
    right, function.__code__ = function.__code__, inspect.unwrap(made[function.__name__]).__code__
    try:
        yield
    finally:
        function.__code__ = right


def pair(others, row, adjacency="add-remove", place=0):
    return make_pair(others, row, -np.asarray(row), adjacency, place)


def at_threshold(name):
    return pair(spread_rows(THRESHOLDS[name][-1] - 1, 1), [1.0])


LONE = pair(np.tile(-np.ones(2), (40, 1)), np.ones(2))
SKEWED = pair(np.random.default_rng(3).exponential(0.2, (900, 2)) - 1, np.ones(2))
CROWD = pair(groups(300, 2), np.ones(2))
WIDE = pair(groups(400, 6), np.ones(6))

MISTAKES = {
    "the noisy spread is paid for and the exact one used": Mistake(
        noisy_tree.locate,
        "left = float(squares.value[0, 0]) / n",
        "left = float(added.map(np.copy)._Secret__value[0, 0]) / n",
        TREE, WIDE, "public values depend on the rows", delta=1e-6,
    ),
    "the noisy number of rows is paid for and the exact one used": Mistake(
        task.Task.row_count,
        "self.number_of_rows(first)",
        "[self.number_of_rows(first), len(self.rows._Secret__value)][1]",
        METHODS["gupt"], at_threshold("gupt"), "public values depend on the rows", k=1,
    ),
    "a level has no charge": Mistake(
        NoisyMoments.__call__,
        "costs[level], self.task\n",
        "costs[level], self.task if level else self.task.without_charges()\n",
        TREE, CROWD, "not what was released", delta=1e-6,
    ),
    "a release is made without an accountant": Mistake(
        task.Task.count_cells,
        "self.counts(exact, label, cost)",
        "[(of := __import__('sys').modules)['kvariates.privacy.mechanisms'].release("
        "of['kvariates.privacy.query'].count_query(exact._Secret__value, self.adjacency, label), "
        "cost)][0]",
        METHODS["forgy"], CROWD, "noise is drawn without a release",
    ),
    "sqrt(d) is forgotten": Mistake(
        Lattice.l1, '"l2": self._largest_l1', '"l2": self.radius',
        TREE, LONE, "costs",
    ),
    "a replaced row is charged once": Mistake(
        CellCounts.l1, 'return 1 if adjacency == "add-remove" else self.replaced', "return 1",
        METHODS["lloyd"], pair(groups(60, 2), np.ones(2), "replace-one"), "costs", "replace-one",
    ),
    "sums are charged as if rows were added": Mistake(
        Lattice.l2_squared, "4 * most", "most",
        METHODS["lloyd"], pair(groups(60, 2), np.ones(2), "replace-one"), "costs", "replace-one",
        1e-6,
    ),
    "falling scores are charged as rising ones": Mistake(
        Scores.range, "0 if self.monotone else -self.sensitivity", "0",
        METHODS["sample-aggregate"], pair(np.zeros((24, 1)), [1.0], "replace-one"), "costs",
        "replace-one", k=1,
    ),
    "bounds are taken from the data": Mistake(
        inspect.unwrap(PrivateKMeans._fit), "domain = spec.domain(X)",
        "domain = type(spec.domain(X)).box(X.min(axis=0), X.max(axis=0))",
        METHODS["lloyd"], CROWD, "public values depend on the rows",
    ),
    "local indices are used as global ones": Mistake(
        partition.Members.move_right, "self.labels[block][inside[above]]",
        "self.labels[block][np.flatnonzero(above)]",
        TREE, SKEWED, "costs", delta=1e-6,
    ),
    "a block of m rows takes the first m rows": Mistake(
        sample_aggregate.block_results,
        "rows[order[low:high]]", "rows[: high - low]",
        Gupt(power=1.0), pair(np.zeros((11, 1)), [1.0], "replace-one"), "costs", "replace-one", k=1,
    ),
    "empty cells are skipped": Mistake(
        query._cells_above, "histogram.number - len(occupied)", "0",
        METHODS["grid"], LONE, "the answer depends on more than noisy numbers",
    ),
    "radii follow exact counts": Mistake(
        NoisyAssigner.assign, "self._radii(self.counts, cost.sums)",
        "self._radii(self._rows.map(lambda rows: np.bincount(rows.nearest(centers), "
        "minlength=task.k) / 1.0)._Secret__value, cost.sums)",
        TREE, CROWD, "public values depend on the rows", delta=1e-6,
    ),
    "a centre moves if its exact count is clear": Mistake(
        NoisyAssigner.assign, "is_clear(counts.value,",
        "is_clear(exact._Secret__value.counts,",
        METHODS["lloyd"], pair(np.tile([[0.5, 0.5]], (9, 1)), [0.5, 0.5]), "", k=1,
    ),
    "weights have no floor": Mistake(
        FlooredPotential.weights, "+ self.floor", "",
        METHODS["kvariates"], pair(np.tile(-np.ones(2), (40, 1)), np.ones(2), "replace-one"),
        "'drawn rows' costs", "replace-one",
    ),
    "half of the cost of drawn rows is charged": Mistake(
        mechanisms.NoisyRows.charge, "epsilon=self.epsilon", "epsilon=self.epsilon / 2",
        METHODS["kvariates-laplace"], LONE, "'drawn rows' costs",
    ),
}  # fmt: skip


def found(mistake):
    fit = make_fit(mistake.method, mistake.adjacency, mistake.delta, mistake.k)
    kinds = [replay(fit, mistake.pair, kind) for kind in ("zero", "drawn")]
    scripted = replay(fit, mistake.pair, centers=lambda _, d: -np.ones(d))
    return [words for words in (*kinds, scripted) if words is not None]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    mistake = MISTAKES[name]
    with planted(mistake.function, mistake.before, mistake.after):
        words = found(mistake)
    assert any(mistake.says in each for each in words), words


@pytest.mark.parametrize("name", MISTAKES)
def test_nothing_is_found_without_the_mistake(name):
    assert found(MISTAKES[name]) == []


# ---- groups of disjoint rows ----


def count_groups(X, overlap, adjacency):
    """Counts left and right of 0, as one group; with `overlap` a row near 0 is in both."""
    chosen, accountant = make_task(X, adjacency=adjacency, epsilon=1.0), Accountant()

    def count(rows, side):
        inside = int((side * rows[:, 0] > -0.1 * overlap).sum())
        return total_query(inside, adjacency, f"side {side}", parallel="sides of 0")

    values = [
        accountant.release(chosen.rows.map(lambda rows, side=side: count(rows, side)), chosen.cost)
        for side in (-1, 1)
    ]
    results = {"counts": [made.value for made in values]}
    return Outcome(Ledger(adjacency, tuple(accountant.charges), chosen.loss), results)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_row_in_two_groups_is_found(adjacency):
    neighbours = pair(spread_rows(10, 2), [0.05, 0.0], adjacency)
    assert replay(lambda X: count_groups(X, False, adjacency), neighbours) is None
    if adjacency == "add-remove":  # replaced, it stays in both
        words = replay(lambda X: count_groups(X, True, adjacency), neighbours)
        assert words.startswith("\"group 'sides of 0'\" costs 2")


def test_blocks_that_follow_the_order_of_rows_are_found():
    rows, order = spread_rows(50, 2), np.random.default_rng(2).permutation(50)
    pair = Pair(Numbered(rows, np.arange(50)), Numbered(rows[order], order))
    fit = make_fit(METHODS["gupt"], "replace-one", 0.0, 3)
    assert replay(fit, pair, free=True) is None
    before, after = "drawing.integers(blocks, size=len(rows))", "np.arange(len(rows)) % blocks"
    with planted(sample_aggregate.block_results, before, after):
        assert "costs" in replay(fit, pair, free=True)


def test_changed_results_are_found():
    fit = make_fit(METHODS["lloyd"], "add-remove", 0.0, 2)

    def leaks(rows):
        outcome = fit(rows)
        return replace(outcome, results=outcome.results | {"inertia": float(len(rows))})

    assert replay(leaks, LONE) == "inertia differs"
