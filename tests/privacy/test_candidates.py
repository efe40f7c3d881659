"""Fits with Candidates: ledgers, noise, clusters, sparse rows, bad input."""

from dataclasses import replace

import numpy as np
import pytest
from api import (
    Budget,
    Candidates,
    Cost,
    Domain,
    KMeansTrials,
    Ledger,
    Loss,
    PrivateTask,
    RemainingCost,
)
from privacy.exact_noise import both_adjacencies
from privacy.private_models import DELTAS, blobs, make_model, make_task, seen
from scipy import sparse

from kvariates import PrivateKMeans

HUGE = 1e6  # an epsilon at which noise is far below one step


OPTIONS = [
    {}, {"swaps": 3}, {"trials": 2}, {"repeats": 2, "levels": 3}, {"steps": 0},
    {"theory": True, "repeats": 2, "swaps": 4, "trials": 2}, {"recovery": "picks", "picks": 2},
]  # fmt: skip


@both_adjacencies
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "default")
def test_the_ledger_equals_the_claim(options, adjacency, delta):
    for n in (200, 0):
        task = make_task(blobs(200)[:n], adjacency=adjacency, delta=delta, ball=True)
        result = Candidates(**options)(task)
        total = Ledger(adjacency, result.charges, task.loss).total()
        assert total.epsilon == pytest.approx(1.0, rel=1e-9)
        assert result.counts.values.shape == (3,)


@both_adjacencies
def test_noise_has_the_scale_of_the_proof(adjacency):
    """Scale times epsilon is the sensitivity, on data of radius 2 with four features."""
    twice = 1 if adjacency == "add-remove" else 2
    domain = Domain.around(np.zeros(4), 2.0)
    X = sparse.csr_matrix(blobs(200) * 2)
    task = PrivateTask(domain.rows(X), domain, 3, adjacency, Loss(1.0, 0.0), sparse=True)
    kinds = {
        "partition 1, level 1": twice,
        "swap 1": 4 * twice,
        "choice of a set": 4 * twice,
        "recovery 1: clusters, feature 1": 2 * 0.5 * twice,
        "recovery 1: sums of features": np.sqrt(2) * 2 * twice,
        "recovery 1: rows": twice,
        "the best trial": 2**20 * twice,
    }
    method = Candidates(recovery="picks", picks=3, max_nonzeros=2, max_value=0.5, swaps=1, trials=2)
    charges = method(task).charges
    for start, moved in kinds.items():
        own = [c for c in charges if c.label.startswith(start)]
        assert own, start
        for c in own:
            assert c.scale * c.epsilon == pytest.approx(moved, rel=1e-5), start
    dense = Candidates(recovery="dense")(replace(task, rows=domain.rows(X.toarray()), sparse=False))
    (sums,) = (c for c in dense.charges if c.label == "recovery 1: sums of rows")
    assert sums.scale * sums.epsilon == pytest.approx(np.sqrt(4) * 2 * twice, rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"swaps": 6, "start": "uniform"}, {"trials": 3}])
def test_with_a_huge_budget_clusters_are_found(options):
    X = blobs(900, d=8, k=3, seed=4)
    task = make_task(X, epsilon=HUGE, ball=True)
    result = Candidates(dimension=4, **options)(task)
    rows = seen(task.rows)
    nearest = np.square(rows[:, None] - result.centers).sum(axis=2)
    assert nearest.min(axis=1).sum() < 1.1 * 900 * 8 * 0.05**2
    np.testing.assert_allclose(
        result.counts.values, np.bincount(nearest.argmin(axis=1), minlength=3), atol=1
    )


def test_the_best_of_several_trials_is_chosen():
    X = blobs(300)
    task = make_task(X, epsilon=HUGE, ball=True)
    choices = Candidates(steps=0)._filled(task, 300, task.cost)
    plan = choices._plan(task, 300)
    remaining = RemainingCost(task.cost, plan.weight)
    run = KMeansTrials(task, choices, plan, remaining)
    good = run.trial()
    bad = replace(good, centers=good.centers[::-1] + 0.05)
    for trials, best in (([bad, good], 1), ([good, bad, bad], 0)):
        assert run.best(trials, Cost(epsilon=HUGE)) == best


@both_adjacencies
@pytest.mark.parametrize("recovery", ["dense", "threshold", "picks"])
def test_csr_rows(recovery, adjacency):
    rng = np.random.default_rng(12)
    X = sparse.csr_matrix(rng.random((300, 50)) * (rng.random((300, 50)) < 0.1) / 3)
    method = Candidates(recovery=recovery, max_nonzeros=4, picks=3, steps=1)
    model = PrivateKMeans(4, epsilon=1.0, radius=1.0, method=method, adjacency=adjacency).fit(X)
    assert model.cluster_centers_.shape == (4, 50)
    assert model.predict(X).shape == (300,)
    X.data[3] = np.nan  # a row that is left out, or becomes the origin
    model.fit(X)
    if adjacency == "add-remove":
        model.fit(X[:0])


# ---- bad input ----


def test_bad_choices_raise_before_any_row_is_read():
    X = blobs()
    with pytest.raises(ValueError, match="dimension=5 is above the number of features, 4"):
        make_model(bounds=None, radius=1.0, method=Candidates(dimension=5)).fit(X)
    with pytest.raises(ValueError, match=r"swaps must be an integer >= 0; got 1\.5"):
        Candidates(swaps=1.5)
    with pytest.raises(ValueError, match="step_share must be a number above 1e-06 and below"):
        Candidates(step_share=0.0)
    with pytest.raises(ValueError, match="recovery must be one of"):
        Candidates(recovery="thick")
    with pytest.raises(ValueError, match="failure must be in"):
        Candidates(failure=1.0)
    csr = sparse.csr_matrix(X)
    with pytest.raises(ValueError, match="domain around the origin"):
        make_model("candidates", bounds=(0.0, 1.0)).fit(csr)
    with pytest.raises(TypeError, match="use method='candidates', or dense rows"):
        make_model("lloyd").fit(csr)


def test_a_budget_too_small_for_the_partition_is_said():
    with pytest.warns(UserWarning, match="a cube is cut if it has more than"):
        make_model(
            "candidates", epsilon=0.001, bounds=None, radius=1.0, adjacency="replace-one"
        ).fit(blobs())


def test_the_time_of_the_printed_numbers_is_said_before_spending():
    budget = Budget(1.0)
    model = make_model(n_clusters=2, method=Candidates(theory=True), budget=budget)
    with pytest.raises(UserWarning, match=r"2 clusters takes about .* s for 100,000 rows"):
        model.fit(blobs(30, 2))  # warnings are errors here
    assert budget.left.epsilon == 1.0
    assert Candidates(theory=True, swaps=20).notice(2) is None
    assert Candidates(theory=True, repeats=3).notice(2) is None
    assert Candidates().notice(50) is None
