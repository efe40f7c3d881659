"""What a fit reports while it runs: verbose lines, and scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kvariates.compat import CallbackSupportMixin
from kvariates.objectives.objective import Objective
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import Step, StopRule

__all__ = [
    "CallbackSupportMixin",
    "FitReport",
    "certifying",
    "printed",
    "reporting",
    "task_done",
]


def reporting(stop: StopRule, model: Any, task: Any, objective: Objective) -> StopRule:
    """The same rule, which prints verbose lines and calls scikit-learn's callbacks as well."""
    has_callbacks = bool(getattr(model, "_skl_callbacks", None))
    if not (model.verbose or has_callbacks):
        return stop

    def callback(step: Step) -> bool:
        if model.verbose:
            _print_step(step, objective.cost(step.statistics.cost), stop.tol)
        return has_callbacks and task_done(model, task, "iteration")

    return replace(stop, callback=callback)


def task_done(model: Any, task: Any, name: str) -> bool:
    """Tell scikit-learn's callbacks of a small task inside of `task`; whether one asks to stop."""
    inner = task.subcontext(task_name=name)
    inner.call_on_fit_task_begin(estimator=model)
    return bool(inner.call_on_fit_task_end(estimator=model))


def _print_step(step: Step, inertia: float, tol: float) -> None:
    print(f"Iteration {step.iteration}, inertia {inertia}.")
    if step.statistics.changed == 0:
        print(f"Converged at iteration {step.iteration}: strict convergence.")
    elif step.shift <= tol:
        print(
            f"Converged at iteration {step.iteration}: center shift {step.shift} "
            f"within tolerance {tol}."
        )


def printed(step: Progress) -> bool:
    """Print a step of a long computation."""
    print(step, flush=True)
    return False


@contextmanager
def certifying(model: Any, task: Any) -> Iterator[Report | None]:
    """The certificate of KMeans as a task of its fit; yields what its steps are reported to."""
    with _subtask(model, task, "certify") as report:
        yield report


@contextmanager
def _subtask(model: Any, task: Any, name: str) -> Iterator[Report | None]:
    own = task.subcontext(task_name=name, max_subtasks=None)
    own.call_on_fit_task_begin(estimator=model)

    def report(step: Progress) -> bool:
        if model.verbose:
            print(f"{type(model).__name__}: {name}: {step}", flush=True)
        return task_done(model, own, "step")

    told = model.verbose or getattr(model, "_skl_callbacks", None)
    yield report if told else None
    own.call_on_fit_task_end(estimator=model)


class FitReport:
    """Reports the phases of a fit, and their steps: verbose lines, and scikit-learn's callbacks.

    Callbacks see a task for the fit, in it a task for each phase, and in it one for each step. They
    do not get X: of a private fit they must not.
    """

    def __init__(self, model: Any, max_phases: int | None = None) -> None:
        self._model, self._name = model, type(model).__name__
        self._task = model._init_callback_context(max_subtasks=max_phases)
        self._task.call_on_fit_task_begin(estimator=model)

    @contextmanager
    def phase(self, name: str) -> Iterator[Report | None]:
        """A phase; yields what its steps are to be reported to, or None if nobody is told."""
        self.say(name)
        with _subtask(self._model, self._task, name) as report:
            yield report

    def say(self, words: str) -> None:
        """Print a line if the model is verbose."""
        if self._model.verbose:
            print(f"{self._name}: {words}", flush=True)

    def end(self) -> None:
        """The last report: the model is fitted."""
        self._task.call_on_fit_task_end(estimator=self._model)
