"""PrivateKMedian(method="candidates"): cells, 1-medians, and mistakes that a replay finds."""

import math
import warnings

import numpy as np
import pytest
from api import (
    Cell,
    DemandCandidates,
    Ledger,
    Scores,
    Vectors,
    projected,
    recover_medoids,
    run_method,
    score_query,
)
from privacy.demands import FREE, asked, task_of
from privacy.exact_noise import both_adjacencies
from privacy.replay import replay
from privacy.test_replay_demand import DEMANDS, POINTS, make_fit, make_pair
from privacy.test_replay_mistakes import planted

from kvariates import KMedian, PrivateKMedian
from kvariates.privacy import Budget

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 3))
SPACE = Vectors(X, "euclidean")
TIES = Vectors(np.repeat(RNG.integers(0, 3, size=(30, 2)), 4, axis=0) * 1.0, "euclidean")
D = np.linalg.norm(X[:, None] - X, axis=2)


# ---- recovery ----


def recovered(demand, labels, centers, most=10**6, cost=FREE):
    task = task_of(SPACE, demand, len(centers))
    medoids = recover_medoids(task, SPACE, labels, centers, most, cost, "recovery 1")
    return medoids, task.charges


@pytest.mark.parametrize("k", [1, 4, 30])
def test_without_noise_medoids_are_the_1_medians_of_the_cells(k):
    centers = RNG.permutation(120)[:k]
    labels = D[centers].argmin(axis=0)
    demand = RNG.integers(0, 120, size=1000)
    medoids, charges = recovered(demand, labels, centers)
    for j in range(k):
        own = np.flatnonzero(labels == j)
        costs = D[np.ix_(own, demand[labels[demand] == j])].sum(axis=1)
        # Of equal costs (two points with the same demand) either may be taken.
        assert costs[own == medoids[j]] <= costs.min() * (1 + 1e-5)
    several = (np.bincount(labels) > 1).sum()
    assert [charge.parallel for charge in charges] == ["recovery 1: cells"] * several


def test_only_the_nearest_points_become_medoids():
    centers = np.array([3, 70])
    labels = D[centers].argmin(axis=0)
    labels[centers] = [0, 1]
    medoids, _ = recovered(RNG.integers(0, 120, size=50), labels, centers, most=4)
    for j, center in enumerate(centers):
        own = np.flatnonzero(labels == j)
        assert medoids[j] in own[np.argsort(D[center, own])[:4]]


@pytest.mark.parametrize("space", [SPACE, TIES])
@pytest.mark.parametrize("most", [3, 40])
def test_one_point_moves_the_scores_by_the_sensitivity_at_most(space, most):
    """Of every point of the cell; and the bound is attained, but for a step."""
    points = RNG.permutation(120)[:40]
    cell = Cell.of(space, points, points[:most])
    assert (cell.losses == np.rint(cell.losses)).all()
    assert (cell.losses >= 0).all()
    assert (cell.losses.min(axis=1) == 0).all()
    widest = cell.step * cell.losses.max()
    assert cell.largest - cell.step < widest <= cell.largest
    far = space.distances(cell.candidates, points).T
    assert widest == pytest.approx(np.ptp(far, axis=1).max(), rel=1e-5)
    before = np.bincount(RNG.integers(0, 120, size=50), minlength=120) * 1.0

    def asked_with(demand):
        moved = Scores(cell.largest, monotone=True)
        return score_query(cell.scores(demand), moved, "add-remove", "x")

    one = asked_with(before)
    for point in points:
        after = before + (np.arange(120) == point)
        changes = one.values - asked_with(after).values
        assert 0 <= changes.min() <= changes.max() <= one.sensitivity.range("add-remove")


def test_points_are_projected_into_the_unit_ball():
    rng = np.random.default_rng(0)
    many = Vectors(RNG.normal(size=(300, 20)).astype(np.float32) + 7, "euclidean")
    few = projected(many, 4, rng)
    assert few.X.shape == (300, 4)
    assert np.linalg.norm(few.X, axis=1).max() == pytest.approx(1.0)
    same = projected(SPACE, 3, rng)  # without a projection distances have another scale only
    scale = np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    np.testing.assert_allclose(same.distances(np.arange(120)) * scale, D, atol=1e-12)


# ---- mistakes ----

MISTAKES = {
    "half of the sensitivity": (
        recover_medoids, "Scores(cell.largest", "Scores(cell.largest / 2", "costs",
    ),
    "the largest loss of the demand": (
        recover_medoids, "Scores(cell.largest",
        ("Scores(cell.step + cell.step * "
         "cell.losses[counts._Secret__value[cell.points] > 0].max(initial=0)"),
        "public values depend on the rows",
    ),
    "the best medoid, paid for but not drawn": (
        recover_medoids, "cell.candidates[chosen]",
        "cell.candidates[int(np.argmax(scores._Secret__value))]", "",
    ),
    "cells overlap": (
        recover_medoids, "np.flatnonzero(labels == j)", "np.arange(len(labels))",
        "group 'recovery 1: cells'",
    ),
    "candidates are near the demand": (
        recover_medoids, "_nearest(space, center, points, most)",
        "np.intersect1d(points, task.rows._Secret__value)[:9].astype(int)", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    function, right, wrong, says = MISTAKES[name]
    fit = make_fit(DemandCandidates(levels=1), "euclidean", "add-remove", 0.0)
    pairs = [make_pair(which, "add-remove") for which in ("spread", "far from others")]

    def words():
        found = [replay(fit, pair, kind) for pair in pairs for kind in ("zero", "drawn")]
        return [each for each in found if each is not None]

    assert words() == []
    with planted(function, right, wrong):
        assert any(says in each for each in words())


@both_adjacencies
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_neighbours_among_points_at_ties_cannot_be_told_apart(adjacency, delta, monkeypatch):
    """Ten places of four points each, some at equal distances from two centres."""
    monkeypatch.setitem(POINTS, "euclidean", TIES.X[:40])
    fit = make_fit(DemandCandidates(swaps=1), "euclidean", adjacency, delta)
    for which in DEMANDS:
        for kind in ("drawn", "zero"):
            assert replay(fit, make_pair(which, adjacency), kind) is None, (which, kind)


# ---- the method ----


@both_adjacencies
@pytest.mark.parametrize("demand", [[], [7], [7] * 500, np.arange(120)])
def test_the_ledger_equals_the_claim(adjacency, demand):
    """No demand, all of it at one point, and at ties."""
    if adjacency == "replace-one" and not len(demand):
        return  # the size is public, so no demand is an error
    method = DemandCandidates(swaps=1, trials=2)
    for space, k in ((SPACE, 3), (TIES, 30), (Vectors(np.ones((120, 2)), "euclidean"), 5)):
        task = task_of(space, demand, k, adjacency, epsilon=0.4)
        result = run_method(method, task)
        total = Ledger(adjacency, result.charges, task.loss).total()
        assert total.epsilon == pytest.approx(0.4, rel=1e-9)
        assert len(np.unique(result.centers)) == k


def test_a_large_budget_finds_the_clusters():
    centers = 20 * RNG.normal(size=(5, 12))
    groups = RNG.integers(0, 5, size=600)
    points = centers[groups] + RNG.normal(size=(600, 12))
    demand = RNG.choice(np.flatnonzero(groups < 4), 3000)
    exact = KMedian(4, random_state=0).fit(points, demand=np.bincount(demand, minlength=600) * 1.0)
    for start, swaps in (("counts", 0), ("uniform", 60)):
        method = DemandCandidates(start=start, swaps=swaps)
        model = PrivateKMedian(4, epsilon=1000.0, method=method, random_state=1)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "epsilon=")
            model.fit(points, demand=demand)
        assert set(groups[model.medoid_indices_]) == {0, 1, 2, 3}
        near = np.linalg.norm(points[demand, None] - model.cluster_centers_, axis=2).min(axis=1)
        assert near.sum() < 1.05 * exact.inertia_


def test_theory_uses_the_printed_numbers():
    method = DemandCandidates().with_theory(120, 2)
    task = task_of(SPACE, np.arange(120), 2)
    filled = method._filled(task, 99, task.cost)
    plan, many = filled._plan(task, 99), math.log(120 / 0.1)
    assert (filled.swaps, filled.trials, filled.recoveries) == (math.ceil(200 * many), 5, 1)
    assert plan.repeats == math.ceil(54 * many)
    assert plan.halvings == (1,) * 5  # floor(ln 120) + 1
    assert plan.dimension == 3  # not above the number of features
    assert plan.widths == pytest.approx(20 * many)
    assert plan.uniform
    small = DemandCandidates(repeats=2, swaps=3, trials=2).with_theory(120, 2)
    labels = [query.label for query in asked(lambda: small(task))]
    assert sum(label.startswith("swap") for label in labels) == 6
    assert labels[-1] == "the best trial"


def test_a_dimension_above_the_features_costs_nothing():
    budget = Budget(1.0)
    model = PrivateKMedian(3, epsilon=1.0, method=DemandCandidates(dimension=4), budget=budget)
    with pytest.raises(ValueError, match=r"dimension=4 is above the number of features, 3"):
        model.fit(X, demand=[1, 2])
    assert budget.left.epsilon == 1.0


def test_the_warning_names_the_threshold():
    """The scale of the noise of the count is 100: it never comes near the threshold."""
    model = PrivateKMedian(3, epsilon=1.0, method=DemandCandidates(threshold=1e6))
    with pytest.warns(UserWarning, match=r"more than 1,000,000 entries of the demand"):
        model.fit(X, demand=np.arange(120))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dimension": 0}, "dimension must be an integer >= 1"),
        ({"levels": 41}, "levels must be at most 40"),
        ({"start": "x"}, "start must be 'counts' or 'uniform'"),
        ({"partition_share": 0.0}, "partition_share must be a number above 1e-06"),
        ({"recovery_share": math.nan}, "recovery_share must be"),
        ({"failure": 1.0}, "failure must be"),
        ({"threshold": 0.0}, "threshold must be"),
        ({"swaps": -1}, "swaps must be an integer >= 0"),
        ({"n_candidates": 1.5}, "n_candidates must be an integer >= 1"),
    ],
)
def test_bad_choices(options, words):
    with pytest.raises(ValueError, match=words):
        DemandCandidates(**options)
