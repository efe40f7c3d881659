"""The bytes of a model.skops, without traces of the process that wrote it.

skops names the parts of a model by their addresses in memory, and its archive has the times of
writing. Addresses depend on what was allocated before, and so on the number of private rows. Here
parts are numbered in the order in which they appear, and all times are the same.
"""

from __future__ import annotations

import io
import json
from pathlib import PurePath
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

SCHEMA = "schema.json"
LEVEL = 1  # of compression


def model_bytes(model: Any, skops: Any) -> bytes:
    """The model, as `skops.io.load` reads it. The same model gives the same bytes."""
    with ZipFile(io.BytesIO(skops.dumps(model))) as archive:
        numbers: dict[int, int] = {}
        files: dict[str, str] = {}
        schema = _renumbered(json.loads(archive.read(SCHEMA)), numbers, files)
        parts = {new: archive.read(old) for old, new in files.items()}
    parts[SCHEMA] = json.dumps(schema, indent=2).encode()
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        for name, content in parts.items():
            entry = ZipInfo(name)  # of the year 1980
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, content, ZIP_DEFLATED, LEVEL)
    return made.getvalue()


def _renumbered(node: Any, numbers: dict[int, int], files: dict[str, str]) -> Any:
    """A part of the schema with new numbers (from 1: skops takes 0 for none) and file names."""
    if isinstance(node, list):
        return [_renumbered(each, numbers, files) for each in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "__id__" and isinstance(value, int):
            made[key] = numbers.setdefault(value, len(numbers) + 1)
        elif key == "file" and isinstance(value, str):
            made[key] = files.setdefault(value, f"{len(files) + 1}{PurePath(value).suffix}")
        else:
            made[key] = _renumbered(value, numbers, files)
    return made
