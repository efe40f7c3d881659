"""Callbacks work the same on every version of scikit-learn, and only one file knows versions."""

import re
from pathlib import Path

import numpy as np
import pytest
from api import CallbackSupportMixin, FitCallbacks, all_or_nothing, torn_down_after

import kvariates
from kvariates import KMeans

PACKAGE = Path(kvariates.__file__).parent
X = np.random.default_rng(0).normal(size=(60, 2))


class OwnCallbacks(KMeans):
    """KMeans as it is on versions of scikit-learn that have no callbacks."""

    set_callbacks = FitCallbacks.set_callbacks
    _init_callback_context = FitCallbacks._init_callback_context
    fit = all_or_nothing(torn_down_after(KMeans.fit.__wrapped__))


class Recorder:
    """Writes down every call; stops the fit after `most` tasks."""

    def __init__(self, most=np.inf):
        self.most, self.calls = most, []

    def record(self, hook, task, *data):
        parents = []
        while task is not None:
            parents.append((task.task_name, task.task_id, task.max_subtasks))
            task = task.parent
        self.calls.append((hook, *parents, *(None if d is None else d.shape for d in data)))

    def setup(self, estimator, context):
        self.record("setup", context)

    def on_fit_task_begin(self, estimator, context, *, X):
        self.record("begin", context, X)

    def on_fit_task_end(self, estimator, context, *, X, y, metadata):
        self.record("end", context, X, y, metadata)
        return len(self.calls) > self.most

    def teardown(self, estimator, context):
        self.record("teardown", context)


def recorded(cls, most=np.inf, X=X):
    recorder = Recorder(most)
    model = cls(3, init="random", n_init=2, random_state=0).set_callbacks(recorder)
    try:
        model.fit(X)
    finally:
        assert not {"_fit_task", "_callback_fit_ctx"} & vars(model).keys()
    return recorder.calls, model


@pytest.mark.parametrize("cls", [KMeans, OwnCallbacks])
def test_callbacks_see_runs_and_iterations(cls):
    calls, model = recorded(cls)
    fit = ("fit", 0, 2)
    assert calls[:3] == [
        ("setup", fit),
        ("begin", fit, X.shape),
        ("begin", ("run", 0, model.max_iter), fit, X.shape),
    ]
    assert calls[3] == ("begin", ("iteration", 0, 0), ("run", 0, model.max_iter), fit, None)
    assert calls[-2:] == [("end", fit, X.shape, None, None), ("teardown", fit)]
    iterations = [call[1][1] for call in calls if call[:1] == ("end",) and call[2] == calls[2][1]]
    assert iterations == [*range(len(iterations))] != []


@pytest.mark.skipif(
    CallbackSupportMixin is FitCallbacks, reason="this scikit-learn has no callbacks"
)
@pytest.mark.parametrize("most", [8, np.inf])
def test_our_callbacks_are_called_as_those_of_scikit_learn(most):
    theirs, ours = recorded(KMeans, most)[0], recorded(OwnCallbacks, most)[0]
    assert ours == theirs
    assert len(ours) > 10


@pytest.mark.parametrize("cls", [KMeans, OwnCallbacks])
def test_a_callback_stops_a_fit_and_none_are_left_after_a_failure(cls):
    all_calls, model = recorded(cls)
    some_calls, stopped = recorded(cls, most=0)
    assert len(some_calls) < len(all_calls)
    assert stopped.n_iter_ == 1 < model.n_iter_
    model.set_callbacks()
    assert "_skl_callbacks" not in vars(model.fit(X))
    with pytest.raises(TypeError, match="callbacks must be"):
        model.set_callbacks(Recorder)


def test_a_failed_fit_tears_down():
    recorder = Recorder()
    model = OwnCallbacks(3, init=lambda *_, random_state: 1 / 0).set_callbacks(recorder)
    with pytest.raises(ZeroDivisionError):
        model.fit(X)
    assert recorder.calls[-1][0] == "teardown"
    assert "_fit_task" not in vars(model)


def test_only_one_file_knows_versions_of_scikit_learn():
    asks = re.compile(r"sklearn\.callback|(sklearn|numpy|np|scipy)\.__version__|parse_version")
    found = {p.name for p in PACKAGE.rglob("*.py") if asks.search(p.read_text(encoding="utf-8"))}
    assert found == {"callbacks.py"}
