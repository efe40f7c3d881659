"""Anti-clustering beside brute force; exchanges only improve; the same bits on any threads."""

import numpy as np
import pytest
from api import (
    GROUP_OBJECTIVES,
    NO_LINKS,
    ExchangeOptions,
    FirstGroups,
    Links,
    centred,
    exchange_distances,
    exchange_rows,
    group_problem,
)
from api import anticlusters_module as anticlusters
from balancing.brute_groups import OBJECTIVES, even_sizes, groupings
from laws.cases import rows
from laws.threads import on_threads

from kvariates import AntiClustering

SHAPES = [(4, 2), (5, 2), (6, 2), (6, 3), (7, 3), (8, 2), (8, 4)]
FREE = Links(NO_LINKS, NO_LINKS)


def instances(count, seed=0):
    """Small sets of rows: normal ones, ones with far rows, and whole numbers with ties."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        n, groups = SHAPES[i % len(SHAPES)]
        X = rng.normal(size=(n, 1 + i % 3))
        if i % 5 == 1:
            X = np.rint(2 * X) + rng.normal(size=X.shape[1])
            X[0] += 1.0  # no constant columns
        elif i % 5 == 2:
            X[0] *= 20
        yield X, groups


def task(n, groups, objective, X, seed=0):
    problem = group_problem(np.zeros(n, dtype=np.int64), FREE, groups)
    made = GROUP_OBJECTIVES[objective].run(X, problem.units)
    rng = np.random.default_rng(seed)
    units = anticlusters.exchange_units(problem, X, rng)
    start = FirstGroups(problem, units.order).draw(rng)
    return problem, made, units, start


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_exact_is_brute_force_and_exchanges_are_near(objective):
    """840 instances in all."""
    lacks = []
    for X, groups in instances(210):
        table = groupings(len(X), even_sizes(len(X), groups))
        best = OBJECTIVES[objective](X, table).max()
        exact = AntiClustering(groups, objective=objective, method="exact").fit(X)
        assert exact.objective_ == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert OBJECTIVES[objective](X, exact.labels_[None])[0] == pytest.approx(best, rel=1e-9)
        found = AntiClustering(groups, objective=objective, random_state=0).fit(X).objective_
        assert found <= best * (1 + 1e-9) + 1e-12
        lacks.append(1 - found / best if best else 0.0)
    assert np.mean(lacks) < 0.002
    assert np.max(lacks) < 0.2


@pytest.mark.parametrize(
    ("objective", "sizes", "seeds"),
    [(name, None, 3) for name in OBJECTIVES]
    + [(name, (4, 3, 2), 1) for name in OBJECTIVES if name != "kplus"],
)
def test_integer_programs_are_brute_force(objective, sizes, seeds, monkeypatch):
    """A program of three groups takes seconds, and that of "kplus" is that of "variance"."""
    monkeypatch.setattr(anticlusters, "all_groups", lambda problem: None)
    for seed in range(seeds):
        X = rows(8 if sizes is None else 9, 2, seed=seed)
        table = groupings(len(X), sizes or (4, 4))
        groups = 2 if sizes is None else 3
        model = AntiClustering(groups, objective=objective, method="exact", group_sizes=sizes)
        best = OBJECTIVES[objective](X, table).max()
        assert model.fit(X).objective_ == pytest.approx(best, rel=1e-7)


def test_groups_of_unequal_sizes_are_near_the_best():
    for seed in range(20):
        X = rows(8, 2, seed=seed)
        for name, values in OBJECTIVES.items():
            best = values(X, groupings(8, (5, 2, 1))).max()
            model = AntiClustering(3, objective=name, group_sizes=(5, 2, 1), random_state=0)
            assert model.fit(X).objective_ > 0.98 * best
            assert np.bincount(model.labels_).tolist() == [5, 2, 1]


@pytest.mark.parametrize("n", [40, 3000])
def test_every_sweep_improves_the_objective(n):
    """The value of a sweep is that of its groups, computed anew."""
    X = rows(n, 5)
    _, _, units, start = task(n, 4, "variance", X)
    columns = centred(X)
    values = []
    for sweeps in range(6):
        [end] = exchange_rows(columns, units, start[None], ExchangeOptions(50, sweeps, 7))
        sums = np.stack([columns[end.labels == g].sum(axis=0) for g in range(4)])
        assert end.values[-1] == pytest.approx((sums**2).sum() / (n / 4), rel=1e-6, abs=1e-16 * n)
        values.append(end.values)
    assert values[-1][: len(values[2])] == values[2]
    assert all(a > b for a, b in zip(values[-1], values[-1][1:], strict=False))
    assert len(values[-1]) > 2


@pytest.mark.parametrize("objective", ["variance", "diversity"])
def test_no_exchange_improves_a_local_optimum(objective):
    X = rows(60, 3)
    model = AntiClustering(3, objective=objective, n_restarts=1, random_state=1).fit(X)
    assert model.converged_
    value = OBJECTIVES[objective]
    others = []
    for i in range(60):
        for j in range(i):
            if model.labels_[i] != model.labels_[j]:
                labels = model.labels_.copy()
                labels[[i, j]] = labels[[j, i]]
                others.append(labels)
    best = value(X, np.array(others)).max()
    assert best <= model.objective_ * (1 + 1e-10)
    assert value(X, model.labels_[None])[0] == pytest.approx(model.objective_, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_sums_of_distances_are_those_of_the_groups(dtype):
    """The value after many exchanges is that of the groups, computed anew."""
    D = np.abs(rows(150, 150)).astype(dtype)
    D += D.T
    np.fill_diagonal(D, 0)
    _, _, units, start = task(150, 5, "variance", rows(150, 2))
    [end] = exchange_distances(D, units, start[None], ExchangeOptions(32, 100, 7))
    same = end.labels[:, None] == end.labels
    assert -end.values[-1] == pytest.approx((D.astype(float) * same).sum() / 2, rel=1e-12)
    assert list(end.values) == sorted(end.values, reverse=True)


@pytest.mark.parametrize("objective", ["variance", "diversity", "dispersion"])
@pytest.mark.parametrize("restarts", [1, 5])
def test_threads_do_not_change_the_groups(objective, restarts):
    """Those of "kplus" are found as those of "variance", in other columns."""
    X = rows(2500 if objective == "variance" else 300, 4)
    model = AntiClustering(4, objective=objective, n_restarts=restarts, max_sweeps=4)
    model.set_params(random_state=3)
    first, *others = on_threads(lambda: model.fit(X).labels_.tobytes() + str(model).encode())
    assert all(other == first for other in others)


def test_means_are_much_closer_than_those_of_random_groups():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 6))
    model = AntiClustering(10, random_state=0).fit(X)
    labels = rng.permutation(model.labels_)
    random = max(np.abs(X[labels == g].mean(axis=0) - X.mean(axis=0)).max() for g in range(10))
    ours = np.abs(model.balance_.mean_difference * X.std(axis=0)).max()
    assert ours < random / 100


def test_kplus_makes_spreads_alike_too():
    X = np.random.default_rng(0).gamma(2.0, size=(300, 4))
    spread = {
        objective: np.abs(
            AntiClustering(5, objective=objective, random_state=0).fit(X).balance_.spread_ratio - 1
        ).max()
        for objective in ("variance", "kplus")
    }
    assert spread["kplus"] < spread["variance"] / 5


def test_duplicates_and_constant_columns():
    X = np.column_stack([np.repeat([0.0, 1.0], 6), np.full(12, 5.0)])
    for objective in OBJECTIVES:
        model = AntiClustering(3, objective=objective, random_state=0).fit(X)
        assert np.isfinite(model.objective_)
        if objective != "dispersion":  # duplicates cannot all be apart
            assert np.bincount(model.labels_[:6]).tolist() == [2, 2, 2]
        assert np.array_equal(model.balance_.spread_ratio[:, 1], np.ones(3))
    same = AntiClustering(4, random_state=0).fit(np.ones((10, 2)))
    assert sorted(np.bincount(same.labels_)) == [2, 2, 3, 3]


def test_one_group_and_groups_of_one_row():
    X = rows(6, 2)
    for objective in OBJECTIVES:
        for method in ("exchange", "exact"):
            one = AntiClustering(1, objective=objective, method=method, random_state=0).fit(X)
            assert not one.labels_.any()
            each = AntiClustering(6, objective=objective, method=method, random_state=0).fit(X)
            assert sorted(each.labels_) == list(range(6))


def test_distances_may_be_given():
    X = rows(40, 3)
    D = np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2))
    for objective in ("diversity", "dispersion"):
        ours = AntiClustering(4, objective=objective, random_state=0).fit(X).objective_
        given = AntiClustering(4, objective=objective, metric="precomputed", random_state=0).fit(D)
        assert given.objective_ == pytest.approx(ours, rel=0.02)
        assert given.balance_.features == ()
