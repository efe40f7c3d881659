"""Random swaps of centres leave local optima of Lloyd, and never end above Lloyd."""

import itertools

import numpy as np
import pytest
from api import (
    HostData,
    LloydResult,
    RefineProblem,
    Rows,
    StopRule,
    lloyd_with_swaps,
    refine,
    swapped,
)
from api import refinements_module as center_swaps
from laws.cases import LAYOUTS, every_matrix, rows, start, weighted_or_not, weights_for
from scipy import stats

from kvariates import KMeans

# Three far groups. Two centres in the first group and one between the others: Lloyd stays there.
GROUPS = np.array([[0.0], [20.0], [26.0]])
STUCK = np.array([[-1.0], [1.0], [23.0]])


def three_groups(n=30):
    noise = np.random.default_rng(0).normal(size=(3 * n, 1))
    return np.repeat(GROUPS, n, axis=0) + noise


def problem(X, centers, weight=None, callback=None, lloyd=refine, seed=0):
    rng = np.random.default_rng(seed)
    return RefineProblem(
        HostData(Rows.of(X), weight), centers, StopRule(300, 0.0, callback), lloyd, rng
    )


def test_a_swap_leaves_a_local_optimum():
    X = three_groups()
    before = refine(HostData(Rows.of(X)), STUCK, StopRule(300, 0.0))
    assert before.converged
    assert before.inertia > 5 * X.shape[0]  # stuck
    for seed in range(20):
        after = lloyd_with_swaps(problem(X, STUCK, seed=seed))
        np.testing.assert_allclose(np.sort(after.centers[:, 0]), GROUPS[:, 0], atol=1.0)


@every_matrix
@weighted_or_not
def test_the_cost_never_ends_above_that_of_lloyd(dtype, layout, weighted):
    lower = 0
    for seed in range(5):
        X = LAYOUTS[layout](rows(300, 4, dtype, seed=seed, sparsity=0.2))
        weight = weights_for(300, seed) if weighted else None
        begin = start(X, 12, seed).astype(np.float64)
        alone = refine(HostData(Rows.of(X), weight), begin, StopRule(300, 0.0))
        with_swaps = lloyd_with_swaps(problem(X, begin, weight))
        assert with_swaps.inertia <= alone.inertia
        lower += with_swaps.inertia < alone.inertia
    assert lower >= 3


def test_the_row_is_drawn_by_weight_and_cost_and_the_centre_uniformly():
    X = np.array([[0.0], [1.0], [3.0], [10.0], [12.0]])
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    centers, labels = np.array([[1.0], [10.0]]), np.array([0, 0, 0, 1, 1])
    p = problem(X, centers, weight)
    end = LloydResult(centers, labels.astype(np.int32), 1.0, 1, True)
    cost = weight * (X[:, 0] - centers[labels, 0]) ** 2
    drawn = dict.fromkeys(itertools.product(range(2), np.flatnonzero(cost)), 0)
    for _ in range(6000):
        new = swapped(p, end)
        slot = int(np.flatnonzero((new != centers).any(axis=1))[0])
        assert np.array_equal(new[1 - slot], centers[1 - slot])
        drawn[slot, int(np.flatnonzero(X[:, 0] == new[slot, 0])[0])] += 1
    share = cost[[row for _, row in drawn]] / cost.sum() / 2
    # False alarms: 1e-6.
    assert stats.chisquare(list(drawn.values()), 6000 * share).pvalue > 1e-6


def test_a_callback_that_says_stop_ends_all_trials():
    calls = []

    def stop_at_five(step):
        calls.append(step.iteration)
        return len(calls) == 5

    lloyd_with_swaps(problem(three_groups(), STUCK, callback=stop_at_five))
    assert len(calls) == 5


def test_hopeless_trials_end_early_and_others_do_not():
    """A trial ends once OUTLOOK more iterations like the last one would not be enough."""
    lengths = []

    def counted(*given):
        found = refine(*given)
        lengths.append(found.n_iter)
        return found

    X = rows(3000, 5, np.float64, seed=3)
    begin = start(X, 20, 1).astype(np.float64)
    lloyd_with_swaps(problem(X, begin, lloyd=counted))
    assert len(lengths) == 1 + center_swaps.SWAPS
    assert lengths[0] == refine(HostData(Rows.of(X)), begin, StopRule(300, 0.0)).n_iter
    assert np.mean(lengths[1:]) < 0.7 * lengths[0]


def test_no_swaps_without_cost():
    X = np.repeat(np.eye(3), 4, axis=0)
    end = lloyd_with_swaps(problem(X, np.eye(3)))
    assert end.inertia == 0
    assert end.n_iter <= 2


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_limits_hold_with_swaps(metric):
    X = np.random.default_rng(1).normal(size=(200, 3)) + 1
    limits = {"size_min": 18, "size_max": 22, "metric": metric}
    plain = [KMeans(10, random_state=s, **limits).fit(X).inertia_ for s in range(4)]
    models = [KMeans(10, random_state=s, algorithm="swap", **limits).fit(X) for s in range(4)]
    for model, cost in zip(models, plain, strict=True):
        sizes = np.bincount(model.labels_, minlength=10)
        assert sizes.min() >= 18
        assert sizes.max() <= 22
        assert model.inertia_ <= cost
    assert sum(model.inertia_ for model in models) < sum(plain)
