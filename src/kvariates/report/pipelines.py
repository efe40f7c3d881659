"""Pipelines of scikit-learn in reports: the model at their end, and the steps before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .colors import Array


@dataclass(frozen=True, eq=False)
class ModelAfterSteps:
    """A fitted model, and the steps of a pipeline that change rows before it."""

    model: Any
    before: Any = None  # a pipeline; None: no steps

    @classmethod
    def of(cls, model: Any) -> ModelAfterSteps:
        """The parts of a pipeline; of any other model, the model itself."""
        if not hasattr(model, "named_steps"):
            return cls(model)
        found = cls(model[-1], model[:-1])
        if hasattr(found.model, "ledger_") and not hasattr(found.model, "medoid_indices_"):
            raise ValueError(
                f"the ledger of {type(found.model).__name__} has no line for the steps before it: "
                "if they learned nothing from the rows, give the last step alone, model[-1]"
            )
        return found if found.steps else cls(found.model)

    @property
    def steps(self) -> list[Any]:
        """The transformers before the model."""
        steps = [] if self.before is None else [step for _, step in self.before.steps]
        return [step for step in steps if step not in (None, "passthrough")]

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the steps."""
        return tuple(type(step).__name__ for step in self.steps)

    def transformed(self, X: Any) -> Any:
        """The rows that the model saw."""
        return X if self.before is None or X is None else self.before.transform(X)

    def columns(self) -> tuple[str, ...]:
        """The names of the columns after the steps; empty if they do not tell."""
        try:
            return tuple(map(str, self.before.get_feature_names_out()))
        except (AttributeError, ValueError):
            return ()

    def in_first_units(self, centers: Array) -> Array | None:
        """Centres in the units before the steps; None if a step cannot be undone."""
        if self.before is None:
            return centers
        if not all(map(_can_be_undone, self.steps)):
            return None
        try:
            found = np.asarray(self.before.inverse_transform(centers), dtype=np.float64)
        except (TypeError, ValueError):  # such as names of categories
            return None
        return found if found.ndim == 2 and np.isfinite(found).all() else None


def _can_be_undone(step: Any) -> bool:
    """Without a function for it, the inverse of a FunctionTransformer changes nothing."""
    if hasattr(step, "inverse_func"):
        return step.func is None or step.inverse_func is not None
    return hasattr(step, "inverse_transform")
