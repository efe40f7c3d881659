"""What differs between the versions of scikit-learn that kvariates supports, from 1.6 on.

| name | since |
|---|---|
| `CallbackSupportMixin` | 1.9; before, the same methods and hooks from here |

No other file of the package asks for a version. Which versions are supported follows SPEC 0
(https://scientific-python.org/specs/spec-0000): those of the last two years.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["CallbackSupportMixin", "FitCallbacks", "FitTask", "torn_down_after"]

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
