"""Writes the parts of the API reference that follow from the code.

| file | made from |
|---|---|
| `choice_tables.txt` | the tables of choices: every name that a parameter accepts |
| `public_names.rst` | `kvariates.__all__`, and the functions of `kvariates.plot` |
"""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

from choice_tables import restructured_text

import kvariates


def write(folder: Path) -> None:
    (folder / "choice_tables.txt").write_text(restructured_text(), encoding="utf-8")
    (folder / "public_names.rst").write_text(public_names(), encoding="utf-8")


def public_names() -> str:
    """A page with all public classes and functions, as lists of Sphinx' autosummary."""
    public = {name: getattr(kvariates, name) for name in sorted(kvariates.__all__)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    estimators = [
        n for n, value in classes.items() if hasattr(value, "fit") or hasattr(value, "split")
    ]
    others = [name for name in classes if name not in estimators]
    functions = [name for name, value in public.items() if inspect.isfunction(value)]
    parts = [
        "Public names\n============\n\n.. currentmodule:: kvariates\n",
        _listed("Estimators", estimators),
        _listed("Functions", functions),
        _listed("Densities and probes, the parts of the k-variates++ sampler", others),
    ]
    if importlib.util.find_spec("kvariates.plot"):
        from kvariates import plot

        drawn = list(getattr(plot, "__all__", ()))
        parts.append(_listed("Plots", [f"plot.{name}" for name in drawn]))
    return "\n".join(parts)


def _listed(title: str, names: list[str]) -> str:
    head = [title, "-" * len(title), "", ".. autosummary::", "   :toctree: generated"]
    return "\n".join([*head, "   :nosignatures:", "", *(f"   {name}" for name in names), ""])
