"""Progress: scikit-learn's callbacks and verbose lines of all estimators; what they may say."""

import re
from collections import Counter

import numpy as np
import pytest
from api import DISTORTIONS
from api import anticlusters_module as anticlusters
from api import medoid_search_module as medoid_search
from contracts.medians import ring

import kvariates
from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    OnlineKMeans,
    PrivateKMeans,
    PrivateKMedian,
    StreamingKMeans,
    VerticalKMeans,
    choose_k,
)

RNG = np.random.default_rng(0)
X = np.abs(np.concatenate([RNG.normal(c, 0.5, size=(50, 3)) for c in (1, 5, 9)])) + 0.1
DEMAND = np.arange(len(X))
BOX = {"epsilon": 3.0, "bounds": (0.0, 12.0)}


class Recorder:
    """A callback that keeps the names of tasks, and asks to stop after `stop` steps."""

    def __init__(self, stop=None):
        self.begun, self.ended, self.data, self.stop = [], [], [], stop
        self.set_up = self.torn_down = 0

    def setup(self, estimator, context):
        self.set_up += 1

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.begun.append(context.task_name)
        self.data.append(X)

    def on_fit_task_end(self, estimator, context, *, X=None):
        self.ended.append(context.task_name)
        self.data.append(X)
        steps = sum(name in ("step", "iteration") for name in self.ended)
        return self.stop is not None and steps >= self.stop


MODELS = {
    "KMeans": (KMeans(3, random_state=0), X, {}, {"fit": 1, "run": 1}),
    "KMeans certified": (
        KMeans(5, certify=True, random_state=0), RNG.random((150, 3)), {},
        {"fit": 1, "run": 1, "certify": 1},
    ),
    **{
        f"KMeans {name}": (KMeans(3, distortion=name, random_state=0), X, {}, {"fit": 1, "run": 1})
        for name in DISTORTIONS
    },
    "KMedian": (KMedian(3, n_init=2, random_state=0), X, {}, {"fit": 1, "run": 2}),
    "KMedian certified": (
        KMedian(9, certify=True, random_state=0), X, {}, {"fit": 1, "run": 1, "certify": 1},
    ),
    "KMedian on a graph": (
        KMedian(3, metric="graph", init=[0, 1, 2], random_state=0), ring(), {},
        {"fit": 1, "run": 1},
    ),
    "StreamingKMeans": (StreamingKMeans(3, random_state=0), X, {}, {"fit": 1, "batches": 1}),
    "StreamingKMeans of batches": (
        StreamingKMeans(3, random_state=0), list(X.reshape(3, 50, 3)), {},
        {"fit": 1, "batches": 1, "step": 3},
    ),
    "OnlineKMeans": (
        OnlineKMeans(3, random_state=0), X, {}, {"fit": 1, "batches": 1, "step": 6},
    ),
    "OnlineKMeans of batches": (
        OnlineKMeans(3, random_state=0), list(X.reshape(3, 50, 3)), {},
        {"fit": 1, "batches": 1, "step": 3},
    ),
    "VerticalKMeans": (
        VerticalKMeans(3, random_state=0), [X[:, :1], X[:, 1:]], {}, {"fit": 1, "iterations": 1},
    ),
    "AntiClustering": (
        AntiClustering(3, random_state=0), X, {}, {"fit": 1, "exchanges": 1, "balance": 1},
    ),
    **{
        f"AntiClustering {name}": (
            AntiClustering(3, objective=name, random_state=0), X, {}, {"fit": 1, "exchanges": 1},
        )
        for name in ("kplus", "diversity", "dispersion")
    },
    "PrivateKMeans": (
        PrivateKMeans(3, **BOX), X, {}, {"fit": 1, "read the rows": 1, "releases": 1},
    ),
    "PrivateKMedian": (
        PrivateKMedian(3, epsilon=5.0), X, {"demand": DEMAND},
        {"fit": 1, "read the points": 1, "releases": 1},
    ),
}  # fmt: skip
WITH_STEPS = [name for name in MODELS if not name.startswith("Private")]
WITH_STEPS.remove("KMedian")  # the search over a matrix is one native call


def test_every_estimator_is_here():
    public = [getattr(kvariates, name) for name in kvariates.__all__]
    fitted = {each.__name__ for each in public if isinstance(each, type) and hasattr(each, "fit")}
    assert fitted == {name.split()[0] for name in MODELS}


def refit(name, *callbacks, verbose=0):
    model, data, options, _ = MODELS[name]
    model = type(model)(**model.get_params()).set_params(verbose=verbose)
    return model.set_callbacks(*callbacks).fit(data, **options)


@pytest.mark.parametrize("name", MODELS)
def test_callbacks_see_the_tasks_of_a_fit(name):
    recorder = Recorder()
    refit(name, recorder)
    found, expected = Counter(recorder.begun), MODELS[name][3]
    assert {task: found[task] for task in expected} == expected
    assert found == Counter(recorder.ended)
    assert recorder.set_up == recorder.torn_down == 1
    assert (recorder.begun[0], recorder.ended[-1]) == ("fit", "fit")
    if name in WITH_STEPS:
        assert found["step"] + found["iteration"] > 0


@pytest.mark.parametrize("name", [name for name in MODELS if "Private" not in name])
def test_reports_change_no_bit_of_a_fit(name, capsys):
    plain, told = refit(name), refit(name, Recorder(), verbose=1)
    fitted = ("labels_", "inertia_", "medoid_indices_", "cluster_centers_", "n_sweeps_")
    known = [a for a in (*fitted, "objective_", "converged_") if hasattr(plain, a)]
    assert known
    for attribute in known:
        np.testing.assert_equal(getattr(plain, attribute), getattr(told, attribute))
    if hasattr(plain, "certificate_"):
        assert plain.certificate_ == told.certificate_


@pytest.mark.parametrize("name", MODELS)
def test_verbose_fits_print_and_others_do_not(name, capsys):
    refit(name)
    assert capsys.readouterr().out == ""
    refit(name, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2
    own = name.split()[0]
    assert own == "KMeans" or all(line.startswith(f"{own}: ") for line in lines)
    if "certified" in name:
        assert any(re.search("certify: bound, (step|sample) [0-9]+: [0-9.]+$", x) for x in lines)


@pytest.mark.parametrize("name", ["PrivateKMeans", "PrivateKMedian"])
def test_reports_of_a_private_fit_say_nothing_about_rows(name, capsys):
    """The same tasks and lines for other rows; callbacks do not get X."""
    model, data, options, _ = MODELS[name]
    seen = []
    for rows, demand in ((data, DEMAND), (data * 0.5, DEMAND[:77])):
        recorder = Recorder()
        fresh = type(model)(**model.get_params()).set_params(verbose=1).set_callbacks(recorder)
        fresh.fit(rows, **({"demand": demand} if options else {}))
        assert all(part is None for part in recorder.data)
        seen.append((recorder.begun, recorder.ended, capsys.readouterr().out))
    assert seen[0] == seen[1]
    assert not re.search(r"\d", seen[0][2])


@pytest.mark.parametrize("estimator", [StreamingKMeans, OnlineKMeans])
@pytest.mark.parametrize("rows", [X, [X[:60], X[60:110], X[110:]]], ids=["table", "batches"])
def test_the_bar_of_scikit_learn_follows_a_stream(estimator, rows, capsys):
    callback = pytest.importorskip("sklearn.callback")
    model = estimator(3, random_state=0).set_callbacks(callback.ProgressBar())
    assert model.fit(rows).n_rows_seen_ == len(X)
    assert estimator.__name__ in capsys.readouterr().out


def test_a_fit_that_fails_tears_its_callbacks_down_and_keeps_the_model():
    for name in MODELS:
        model, _, options, _ = MODELS[name]
        recorder = Recorder()
        fresh = type(model)(**model.get_params()).set_callbacks(recorder)
        before = set(vars(fresh))
        with pytest.raises((TypeError, ValueError)):
            fresh.fit("rows.csv", **options)
        assert recorder.set_up == recorder.torn_down
        assert set(vars(fresh)) == before


def test_a_callback_can_end_a_search_of_medoids():
    all_swaps = refit("KMedian on a graph")
    model = refit("KMedian on a graph", Recorder(stop=1))
    assert model.n_swaps_ == 1 < all_swaps.n_swaps_
    assert model.inertia_ > all_swaps.inertia_
    assert "candidates only" in model.guarantee_lost_


def test_a_callback_can_end_the_iterations_of_parties():
    all_steps = refit("VerticalKMeans")
    assert refit("VerticalKMeans", Recorder(stop=1)).n_iter_ == 1 < all_steps.n_iter_


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("Anti")])
def test_a_callback_can_end_the_sweeps_of_exchanges(name):
    whole, model = refit(name), refit(name, Recorder(stop=1))
    assert model.n_sweeps_ == 1 < whole.n_sweeps_
    assert model.objective_ <= whole.objective_
    assert whole.converged_ > model.converged_
    assert np.bincount(model.labels_).tolist() == [50, 50, 50]


def test_a_callback_sees_every_sweep_of_the_longest_search():
    recorder = Recorder()
    model = AntiClustering(3, n_restarts=1, random_state=0).set_callbacks(recorder).fit(X)
    assert Counter(recorder.begun)["step"] == model.n_sweeps_ > 1
    few = AntiClustering(3, n_restarts=1, max_sweeps=2, random_state=0)
    assert few.set_callbacks(Recorder()).fit(X).n_sweeps_ == 2


def test_sweeps_that_draw_partners_are_one_step_for_callbacks(monkeypatch):
    """Their random numbers are counted inside of the native call, so it is not divided."""
    monkeypatch.setattr(anticlusters, "TRIED", 0)
    recorder = Recorder(stop=1)
    told = AntiClustering(3, random_state=0).set_callbacks(recorder).fit(X)
    assert Counter(recorder.begun)["step"] == 0
    plain = AntiClustering(3, random_state=0).fit(X)
    np.testing.assert_array_equal(told.labels_, plain.labels_)


def test_a_search_without_a_matrix_reports_its_swaps(monkeypatch):
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    recorder = Recorder()
    KMedian(9, init="random", random_state=0).set_callbacks(recorder).fit(X)
    assert Counter(recorder.begun)["step"] > 0


def test_choose_k_prints_a_line_for_every_k(capsys):
    plain = choose_k(X, (2, 6), random_state=0)
    assert capsys.readouterr().out == ""
    told = choose_k(X, (2, 6), random_state=0, verbose=1)
    assert np.array_equal(plain.inertia, told.inertia)
    assert plain.k == told.k
    lines = capsys.readouterr().out.splitlines()
    ks = [int(line.split("k = ")[1].split(":")[0]) for line in lines if line.startswith("inertia")]
    assert ks == [2, 3, 4, 5, 6]
    assert sum(line.startswith("dividing clusters, k = ") for line in lines) >= 6
