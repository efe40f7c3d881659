"""Saves the state of a model in a file, so that a stream can go on later, in another process.

A state is a dictionary of numbers, strings, arrays and more such dictionaries. skops writes it:
unlike a pickle, such a file cannot run code when it is loaded. It is written aside and moved into
place, so that a full disk or a kill leaves the last file as it was.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kvariates.extras import needed
from kvariates.file_writing import write_aside

FORMAT = 2  # raised whenever a state changes its meaning


def save_state(path: str | Path, kind: str, state: dict[str, Any]) -> None:
    """Write the state of a model of the class `kind`. Raises OSError if it cannot be written."""
    path = Path(path)
    content = {"kvariates": version("kvariates"), "format": FORMAT, "kind": kind, "state": state}
    write_aside(path, _skops().dumps(content), _mode_of(path))


def load_state(path: str | Path, kind: str) -> dict[str, Any]:
    """The state that `save_state` wrote. ValueError if it is not one of this kind and format."""
    path = Path(path)
    try:
        content = _skops().loads(path.read_bytes(), trusted=[])
    except OSError:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(f"{path}: is damaged, or no saved model: {_first_line(error)}") from error
    if not isinstance(content, dict) or not {"format", "kind", "state"} <= content.keys():
        raise ValueError(f"{path}: is no model that kvariates saved")
    if content["kind"] != kind:
        raise ValueError(f"{path}: holds a {content['kind']}; load it with {content['kind']}.load")
    if content["format"] != FORMAT:
        raise ValueError(
            f"{path}: was saved by kvariates {content['kvariates']} in format {content['format']}, "
            f"and this version reads format {FORMAT}; use that version, or fit again"
        )
    state: dict[str, Any] = content["state"]
    return state


def _mode_of(path: Path) -> int:
    """The permissions that a file at this path has, or would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _skops() -> Any:
    return needed("skops.io", "save", "Saving or loading a stream")
