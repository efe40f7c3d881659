"""What a fit reports while it runs: verbose lines, and scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kvariates.compat import CallbackSupportMixin
from kvariates.fitting import Watch
from kvariates.objectives.objective import Objective
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import Step, StopRule

__all__ = ["CallbackSupportMixin", "FitReport", "RunReport", "printed", "task_done"]


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
