"""What is told of a fit while it runs: verbose lines, and scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvariates.data.rows import F64, Rows, total_cost
from kvariates.refining.lloyd import Step


def iteration_callback(
    model: Any, task: Any, space: Rows, weight: F64 | None
) -> Callable[[Step], bool] | None:
    """Called once an iteration, true to stop; None when nobody looks."""
    listening = bool(getattr(model, "_skl_callbacks", None))
    if not (model.verbose or listening):
        return None

    def watch(step: Step) -> bool:
        if model.verbose:
            outside = model._frame.outside(step.centers)
            cost = model._frame.costs(space, outside, step.labels)
            _tell(step, total_cost(cost, weight), model._how.tol)
        if not listening:
            return False
        inner = task.subcontext(task_name="iteration")
        inner.call_on_fit_task_begin(estimator=model)
        return bool(inner.call_on_fit_task_end(estimator=model))

    return watch


def _tell(step: Step, inertia: float, tol: float) -> None:
    print(f"Iteration {step.iteration}, inertia {inertia}.")
    if step.changed == 0:
        print(f"Converged at iteration {step.iteration}: strict convergence.")
    elif step.shift <= tol:
        print(
            f"Converged at iteration {step.iteration}: center shift {step.shift} "
            f"within tolerance {tol}."
        )
