"""Fitted models as files: model.skops, which cannot run code when it is loaded.

A model of scaled columns, or of columns whose missing values were filled in, is a pipeline of
scikit-learn: the means, the scale, then the model. So ``predict`` takes rows in the units of the
file.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kvariates.cli.app import remark
from kvariates.cli.model_bytes import model_bytes
from kvariates.extras import needed
from kvariates.sources import Scale

LIMITS = (
    "the model has limits on the sizes of clusters, which hold for the rows of the fit only; here "
    "each row gets its nearest centre"
)
HARMLESS = frozenset({
    "numpy.dtype", "scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix",
    "kvariates.summaries.coreset.coreset",  # the reduction of a stream, a function
})  # fmt: skip


def save_model(
    model: Any, names: tuple[str, ...], scale: Scale | None, path: Path, means: Any = None
) -> None:
    """Write a model whose features have these names. `means`: of missing values, if filled in."""
    io = needed("skops.io", "save", "writing model.skops")
    made = model
    columns = np.array(names, dtype=object)
    if scale is not None or means is not None:
        made = _pipeline(model, columns, scale, means)
    elif getattr(model, "n_features_in_", None) == len(names):
        model.feature_names_in_ = columns
    path.write_bytes(model_bytes(made, io))


def _pipeline(model: Any, columns: Any, scale: Scale | None, means: Any) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps: list[tuple[str, Any]] = []
    if means is not None:
        steps.append(("fill", SimpleImputer().fit(means[None, :])))
    if scale is not None:
        scaler = StandardScaler()
        scaler.mean_, scaler.scale_, scaler.var_ = scale.mean, scale.spread, scale.spread**2
        scaler.n_features_in_ = len(columns)
        steps.append(("scale", scaler))
    steps[0][1].feature_names_in_ = columns
    return Pipeline([*steps, ("cluster", model)])


def filled_means(model: Any) -> Any:
    """What missing values were replaced by when the model was fitted; None: nothing."""
    fill = getattr(model, "named_steps", {}).get("fill")
    return None if fill is None else fill.statistics_


def _is_our_class(name: str) -> bool:
    """Whether it is a class that kvariates defines. Functions, methods and imports are not."""
    module, _, own = name.rpartition(".")
    if not module.startswith("kvariates."):
        return False
    try:
        found = getattr(import_module(module), own, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


def load_model(path: Path) -> Any:
    """The model of a file. ValueError if it is none, or holds anything but parts of kvariates."""
    io = needed("skops.io", "save", "reading a model")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        path = path / "model.skops"
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file")
    data = path.read_bytes()
    try:
        foreign = io.get_untrusted_types(data=data)
        ours = [name for name in foreign if name in HARMLESS or _is_our_class(name)]
        if len(ours) < len(foreign):
            others = ", ".join(sorted(set(foreign) - set(ours))[:3])
            raise ValueError(f"{path}: holds {others}, which is no part of a model of kvariates")
        model = io.loads(data, trusted=ours)
    except OSError:
        raise
    except Exception as error:  # a damaged file can raise anything
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        if line.startswith(str(path)):
            raise ValueError(line) from None
        raise ValueError(f"{path}: is damaged, or no saved model: {line}") from None
    last = model[-1] if hasattr(model, "steps") else model
    if not type(last).__module__.startswith("kvariates."):
        raise ValueError(f"{path}: holds a {type(last).__name__}, not a model of kvariates")
    if any(getattr(last, name, None) is not None for name in ("size_min", "size_max")):
        remark(LIMITS)
    return model
