"""Models as files: `save` and `load` of every estimator.

skops writes what a model holds. Unlike a pickle, such a file cannot run code when it is loaded:
only arrays, numbers, texts and classes of kvariates and scikit-learn are made from it.
"""

from __future__ import annotations

import copy
import io
import json
import os
from importlib import import_module
from importlib.metadata import version
from numbers import Integral
from pathlib import Path, PurePath
from typing import Any, Self
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from kvariates.extras import needed
from kvariates.file_writing import write_aside

FORMAT = 3  # raised whenever what a model holds changes its meaning
SMALL = 2**28  # bytes of parts that are always read
MOST_TIMES = 100  # as many bytes of parts as the file has
HARMLESS = frozenset({
    "numpy.dtype", "scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix",
})  # fmt: skip
SCHEMA = "schema.json"
LEVEL = 1  # of compression


class SavedModel:
    """A mixin for estimators: a model can be written to a file and read again."""

    def save(self, path: str | Path) -> None:
        """Write the model to a file, from which `load` makes it again. Needs skops.

        The file holds what the model holds: its parameters and all that was found, labels too; of a
        `StreamingKMeans`, a `KMedian` or a `OnlineKMeans` that are rows of the data, which whoever
        gets the file can read. Callbacks, a Dask client, a budget and a `random_state` that is a
        generator are left out, and `device` is "auto" in the file: who loads the model may have no
        GPU. The file is written aside and moved into place: if that fails, an
        older file stays.
        """
        made = copy.copy(self)
        vars(made).pop("_skl_callbacks", None)
        seeded = isinstance(vars(made).get("random_state"), Integral)
        left_out = {"budget"} if seeded else {"budget", "random_state"}
        vars(made).update(dict.fromkeys(left_out & vars(made).keys()))
        if vars(made).get("device", "auto") != "auto":
            vars(made)["device"] = "auto"
        data = model_bytes(made)
        if foreign := _foreign_types(data)[1]:
            raise ValueError(
                f"this {type(self).__name__} holds {_some(foreign)}, which cannot be saved: a file "
                "holds no functions and no objects of other packages"
            )
        path = Path(path)
        write_aside(path, data, _mode_of(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model that `save` wrote, or the command `kvariates fit`. Streams can go on."""
        model = model_of(Path(path).read_bytes(), str(path))
        if isinstance(model, cls):
            return model
        found = type(model)
        if found.__name__ == "Pipeline":
            steps = ", ".join(name for name, _ in model.steps)
            raise ValueError(f"{path}: holds the steps {steps}; read it with kvariates predict")
        if not found.__module__.startswith("kvariates."):
            raise ValueError(f"{path}: is no model that kvariates saved")
        name = f"{found.__module__}.{found.__name__}" * (found.__name__ == cls.__name__)
        raise ValueError(
            f"{path}: holds a {name or found.__name__}; load it with {found.__name__}.load"
        )


def model_bytes(model: Any) -> bytes:
    """The model, as `skops.io.load` reads it. The same model gives the same bytes."""
    with ZipFile(io.BytesIO(_skops().dumps(model))) as archive:
        numbers: dict[int, int] = {}
        files: dict[str, str] = {}
        schema = _renumbered(json.loads(archive.read(SCHEMA)), numbers, files)
        parts = {new: archive.read(old) for old, new in files.items()}
    schema |= {"kvariates": version("kvariates"), "format": FORMAT}
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


def model_of(data: bytes, name: str) -> Any:
    """What a file holds. ValueError if that is anything but parts of models of kvariates.

    `name`: of the file, for messages.
    """
    skops = _skops()
    try:
        saved_by = _checked_schema(data, name)
        ours, foreign = _foreign_types(data)
        if foreign:
            what = "is no part of a model of kvariates"
            if all(map(_is_gone, foreign)):
                what = "this version does not have; use the version that saved it, or fit again"
            raise ValueError(f"{name}: holds {_some(foreign)}, which {what}")
        if saved_by.get("format", FORMAT) != FORMAT:
            raise ValueError(
                f"{name}: was saved by kvariates {saved_by['kvariates']} in format "
                f"{saved_by['format']}, and this version reads format {FORMAT}; use that version, "
                "or fit again"
            )
        return skops.loads(data, trusted=ours)
    except OSError:
        raise
    except Exception as error:  # a damaged file can raise anything
        line = first_line(error)
        if line.startswith(name):
            raise ValueError(line) from None
        raise ValueError(f"{name}: is damaged, or no saved model: {line}") from None


def _checked_schema(data: bytes, name: str) -> dict[str, Any]:
    """The description of the parts; ValueError if these are far larger than the file, or memory."""
    from kvariates.sources.input_file import check_size  # takes long to import

    with ZipFile(io.BytesIO(data)) as archive:
        size = sum(part.file_size for part in archive.infolist())
        if size > max(SMALL, MOST_TIMES * len(data)):
            raise ValueError(
                f"{name}: its parts have {size / 1e9:.3g} GB, more than {MOST_TIMES} times the "
                "file; it is damaged, or made to fill the memory"
            )
        check_size(size, name)
        schema: dict[str, Any] = json.loads(archive.read(SCHEMA))
        return schema


def _foreign_types(data: bytes) -> tuple[list[str], list[str]]:
    """The types in a file that skops does not know: those that are allowed, and the others."""
    found = _skops().get_untrusted_types(data=data)
    ours = [name for name in found if name in HARMLESS or _is_our_class(name)]
    return ours, sorted(set(found) - set(ours))


def _is_our_class(name: str) -> bool:
    """Whether it is a class that kvariates defines. Functions, methods and imports are not."""
    module, _, own = name.rpartition(".")
    if not module.startswith("kvariates."):
        return False
    try:
        found = vars(import_module(module)).get(own)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


def _is_gone(name: str) -> bool:
    """Whether it is called as a class of a module of kvariates, and there is none (any more)."""
    module, _, own = name.rpartition(".")
    if not (module.startswith("kvariates.") and module.islower() and own[0].isupper()):
        return False
    try:
        return own not in vars(import_module(module))
    except ImportError:
        return True


def _some(names: list[str]) -> str:
    return ", ".join(names[:3])


def first_line(error: Exception) -> str:
    """The first line of an error, for a message of one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _mode_of(path: Path) -> int:
    """The permissions that a file at this path has, or would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _skops() -> Any:
    return needed("skops.io", "save", "Saving or loading a model")
