"""What a fit reports while it runs: verbose lines, and scikit-learn's callbacks.

scikit-learn has callbacks since 1.9. For older versions, from 1.6 on, the same methods and hooks
are here; no other file of the package asks for a version. Which versions are supported follows
SPEC 0 (https://scientific-python.org/specs/spec-0000): those of the last two years.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any

from kvariates.fitting import Watch
from kvariates.objectives.objective import Objective
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import Step, StopRule

__all__ = [
    "CallbackSupportMixin",
    "FitCallbacks",
    "FitReport",
    "RunReport",
    "printed",
    "task_done",
    "torn_down_after",
]

PASSED = ("X", "y", "metadata")  # to hooks that have a keyword-only argument of this name


class FitTask:
    """A task of a fit in the tree of its tasks: the fit, a run, an iteration.

    As scikit-learn's CallbackContext, for one estimator: callbacks of a meta-estimator are not
    passed on.
    """

    def __init__(
        self, callbacks: list[Any], task_name: str, max_subtasks: int | None, parent: Any = None
    ) -> None:
        self._callbacks, self._children = callbacks, 0
        self.task_name, self.max_subtasks = task_name, max_subtasks
        self.parent: FitTask | None = parent
        self.task_id = 0 if parent is None else parent._children

    def subcontext(self, task_name: str = "", *, max_subtasks: int | None = 0) -> FitTask:
        """The next task inside of this one."""
        child = FitTask(self._callbacks, task_name, max_subtasks, self)
        self._children += 1
        return child

    def call_on_fit_task_begin(self, *, estimator: Any, **data: Any) -> FitTask:
        """Tell all callbacks that this task begins."""
        self._call("on_fit_task_begin", estimator, data)
        return self

    def call_on_fit_task_end(self, *, estimator: Any, **data: Any) -> bool:
        """Tell all callbacks that this task ended; return whether one wants the fit to stop."""
        return self._call("on_fit_task_end", estimator, data)

    def _call(self, hook: str, estimator: Any, data: dict[str, Any]) -> bool:
        stop = False
        for callback in self._callbacks:
            call = getattr(callback, hook)
            named = inspect.signature(call).parameters.values()
            asked = [p.name for p in named if p.kind is p.KEYWORD_ONLY]
            stop |= bool(call(estimator, self, **{n: data.get(n) for n in asked if n in PASSED}))
        return stop


class FitCallbacks:
    """Callbacks of an estimator, by the methods of scikit-learn's CallbackSupportMixin."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks for the estimator, or remove them if none is given; return it."""
        hooks = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")
        if any(isinstance(c, type) or not all(hasattr(c, h) for h in hooks) for c in callbacks):
            raise TypeError(f"callbacks must be objects with the methods {', '.join(hooks)}.")
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            vars(self).pop("_skl_callbacks", None)
        return self

    def _init_callback_context(
        self, task_name: str = "fit", max_subtasks: int | None = 0
    ) -> FitTask:
        """The task of a whole fit, for which its callbacks are set up."""
        callbacks = getattr(self, "_skl_callbacks", [])
        self._fit_task = task = FitTask(callbacks, task_name, max_subtasks)
        for callback in callbacks:
            callback.setup(estimator=self, context=task)
        return task


def torn_down_after(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` after which callbacks are torn down, whether it fails or not."""

    @wraps(fit)
    def managed(model: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return fit(model, *args, **kwargs)
        finally:
            task = vars(model).pop("_fit_task", None)
            for callback in getattr(model, "_skl_callbacks", []) if task is not None else ():
                callback.teardown(estimator=model, context=task)

    return managed


try:
    from sklearn.callback import CallbackSupportMixin
except ModuleNotFoundError:
    CallbackSupportMixin = FitCallbacks


# ---- What our fits report -----------------------------------------------------------------------


def task_done(model: Any, task: Any, name: str) -> bool:
    """Tell scikit-learn's callbacks of a small task inside of `task`; whether one asks to stop."""
    inner = task.subcontext(task_name=name)
    inner.call_on_fit_task_begin(estimator=model)
    return bool(inner.call_on_fit_task_end(estimator=model))


def printed(step: Progress) -> bool:
    """Print a step of a long computation."""
    print(step, flush=True)
    return False


class FitReport:
    """Reports the phases of a fit, and their steps.

    Callbacks see a task for the fit, in it a task for each phase, and in it one for each step.
    `data`: X and y, for callbacks; not of a private fit.
    """

    def __init__(self, model: Any, max_phases: int | None = None, **data: Any) -> None:
        self._model, self._name, self._data = model, type(model).__name__, data
        self._has_callbacks = bool(getattr(model, "_skl_callbacks", None))
        self._task = model._init_callback_context(max_subtasks=max_phases)
        self._task.call_on_fit_task_begin(estimator=model, **data)

    @contextmanager
    def phase(self, name: str) -> Iterator[Report | None]:
        """A phase; yields what its steps are to be reported to, or None if nobody is told."""
        self.say(name)
        with self.part(name) as report:
            yield report

    @contextmanager
    def part(self, name: str) -> Iterator[Report | None]:
        """A phase of which only the steps are printed."""
        model, task = self._model, self._task.subcontext(task_name=name, max_subtasks=None)
        task.call_on_fit_task_begin(estimator=model)

        def report(step: Progress) -> bool:
            self.say(f"{name}: {step}")
            return task_done(model, task, "step")

        yield report if model.verbose or self._has_callbacks else None
        task.call_on_fit_task_end(estimator=model)

    def say(self, words: str) -> None:
        """Print a line if the model is verbose."""
        if self._model.verbose:
            print(f"{self._name}: {words}", flush=True)

    def end(self) -> None:
        """The last report: the model is fitted."""
        self._task.call_on_fit_task_end(estimator=self._model, **self._data)


class RunReport(FitReport, Watch):
    """Reports the runs of k-means as well, and the iterations of each."""

    def __init__(
        self, model: Any, max_phases: int | None, objective: Objective, **data: Any
    ) -> None:
        super().__init__(model, max_phases, **data)
        self._objective = objective

    @contextmanager
    def run(self, stop: StopRule) -> Iterator[StopRule]:
        model, X = self._model, self._data["X"]
        task = self._task.subcontext(task_name="run", max_subtasks=stop.max_iter)
        task.call_on_fit_task_begin(estimator=model, X=X)

        def callback(step: Step) -> bool:
            if model.verbose:
                _print_step(step, self._objective.cost(step.statistics.cost), stop.tol)
            return self._has_callbacks and task_done(model, task, "iteration")

        told = model.verbose or self._has_callbacks
        yield replace(stop, callback=callback) if told else stop
        task.call_on_fit_task_end(estimator=model, X=X)

    def seeded(self) -> None:
        if self._model.verbose:
            print("Initialization complete")


def _print_step(step: Step, inertia: float, tol: float) -> None:
    print(f"Iteration {step.iteration}, inertia {inertia}.")
    if step.statistics.changed == 0:
        print(f"Converged at iteration {step.iteration}: strict convergence.")
    elif step.shift <= tol:
        print(
            f"Converged at iteration {step.iteration}: center shift {step.shift} "
            f"within tolerance {tol}."
        )
