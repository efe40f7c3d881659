"""Packages that only a part of kvariates needs, imported when that part is used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class MissingPackageError(ImportError):
    """A package of an extra is not installed. The message is one line: what needs it, and how."""


def needed(package: str, extra: str, what: str | None = None) -> ModuleType:
    """The module `package`, or MissingPackageError if it is not installed.

    The message names `extra`, by which it is installed, and `what` needs it (None: the module of
    kvariates named like the extra).
    """
    top = package.split(".", maxsplit=1)[0]
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != top:  # installed, but something that it needs is not
            raise
    raise MissingPackageError(
        f"{what or f'kvariates.{extra}'} needs {top}, which is not installed: "
        f"pip install 'kvariates[{extra}]' (in a checkout: '.[{extra}]')",
        name=top,
    )


def pandas_for(what: str) -> ModuleType:
    """pandas, which no extra installs; ImportError if it is missing."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install pandas.") from error
