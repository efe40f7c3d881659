"""What a fit reports while it runs: verbose lines, and scikit-learn's callbacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvariates.objectives.objective import Objective
from kvariates.refining.lloyd import Step, StopRule


def reporting(stop: StopRule, model: Any, task: Any, objective: Objective) -> StopRule:
    """The same rule, which prints verbose lines and calls scikit-learn's callbacks as well."""
    has_callbacks = bool(getattr(model, "_skl_callbacks", None))
    if not (model.verbose or has_callbacks):
        return stop

    def callback(step: Step) -> bool:
        if model.verbose:
            _print_step(step, objective.cost(step.statistics.cost), stop.tol)
        if not has_callbacks:
            return False
        inner = task.subcontext(task_name="iteration")
        inner.call_on_fit_task_begin(estimator=model)
        return bool(inner.call_on_fit_task_end(estimator=model))

    return replace(stop, callback=callback)


def _print_step(step: Step, inertia: float, tol: float) -> None:
    print(f"Iteration {step.iteration}, inertia {inertia}.")
    if step.statistics.changed == 0:
        print(f"Converged at iteration {step.iteration}: strict convergence.")
    elif step.shift <= tol:
        print(
            f"Converged at iteration {step.iteration}: center shift {step.shift} "
            f"within tolerance {tol}."
        )
