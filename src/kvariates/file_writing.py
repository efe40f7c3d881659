"""Files that appear when they are complete.

A single file (`write_aside`) is on the disk before it appears, so it outlives a loss of power. The
files of a command (`moved_into_place`) appear together.

Files of a command are written to a temporary folder in the output folder (beside it, if it is new)
and moved at the end. If a move fails, the moves before it are undone. A killed process leaves its
folder, which is locked while the process lives; the next run removes it.
"""

from __future__ import annotations

import csv
import fcntl
import glob
import json
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

OWNER_ONLY = 0o600
OURS = "-kvariates-"  # in the names of temporary folders, so that no other folder is removed
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def write_aside(path: Path, data: bytes, mode: int = OWNER_ONLY) -> None:
    """Write a file next to its place, and move it there when it is on the disk.

    The folder is made if it is missing. A failure leaves the old file as it was. Raises OSError,
    which names `path`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.chmod(mode)
        aside.replace(path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    handle = os.open(path.parent, os.O_RDONLY)
    try:  # until the folder is on the disk, the old name may come back
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def moved_into_place(out: Path, files: Sequence[str] = (), *, force: bool = True) -> Iterator[Path]:
    """Yield a new folder to write into; on success its files move to `out`.

    They replace files of the same name; other files in `out` are not touched. Without `force`, an
    existing one of `files` is an error before anything is done.
    """
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: exists and is not a directory")
    check_free([out / name for name in files], force)
    made = _make_folders(out.parent)
    temporary: Path | None = None
    done, lock = False, -1
    try:
        temporary, lock = _temporary_folder(out)
        yield temporary
        with _signals_ignored():
            _move_all(sorted(temporary.iterdir()), out, force)
            done = True
    except BaseException as error:
        if not done:
            error.add_note("nothing was written")
        raise
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if lock >= 0:
            os.close(lock)
        for folder in [] if done else reversed(made):
            with suppress(OSError):
                folder.rmdir()


def check_free(files: Sequence[Path], force: bool) -> None:
    """Raise ValueError if one of the files exists (unless `force`) or is a folder."""
    for file in files:
        if file.is_dir():
            raise ValueError(f"{file}: is a folder, and a file of this name is to be written")
        if os.path.lexists(file) and not force:
            raise ValueError(f"{file}: exists; --force replaces it, -o names another place")


def refuse_inputs(out: Path, files: Sequence[str], inputs: Sequence[object]) -> None:
    """Raise ValueError if files in `out` would replace what is read, or lie in a folder of it."""
    for read in inputs:
        if not isinstance(read, Path) or str(read) == "-" or not read.exists():
            continue
        if read.is_dir() and out.resolve().is_relative_to(read.resolve()):
            raise ValueError(f"{out}: is in the folder that is read; write to another place")
        for file in (out / name for name in files):
            if file.exists() and file.samefile(read):
                raise ValueError(f"{file}: is read by this command; write to another place")


@contextmanager
def written_file(path: Path, inputs: Sequence[object], *, force: bool) -> Iterator[Path]:
    """Yield a path to write a file to, which moves to `path` on success; - is printed, as CSV.

    `inputs` are files that it must not replace.
    """
    if str(path) == "-":
        with tempfile.TemporaryDirectory() as name:
            yield (printed := Path(name, "labels.csv"))
            with printed.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
        return
    refuse_inputs(path.parent, [path.name], inputs)
    with moved_into_place(path.parent, [path.name], force=force) as folder:
        yield folder / path.name


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it. Returns the new ones."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()][::-1]
    above = missing[0].parent if missing else folder
    if not above.is_dir():
        raise ValueError(f"{above}: is not a directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder}: cannot be made: {error.strerror}") from None
    return missing


def _temporary_folder(out: Path) -> tuple[Path, int]:
    """A new folder, and the handle of its lock. Folders that killed runs have left are removed."""
    try:
        # Inside of a folder that exists: it may be another disk than the folder above it.
        where = out if out.is_dir() else out.parent
        for place in (out.parent, out):
            for left in place.glob(f"{glob.escape(f'.{out.name}{OURS}')}*"):
                _remove_left(left, out)
        made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=where))
        if (lock := _locked(made)) >= 0:  # only a folder that was locked has the name
            made = made.rename(made.with_name(f".{out.name}{OURS}{made.name[-8:]}"))
        return made, lock
    except OSError as error:
        raise ValueError(f"{out}: cannot be written: {error.strerror}") from None


def _locked(folder: Path) -> int:
    """Lock a folder until the process ends. Returns its handle; -1 if it cannot be locked."""
    handle = -1
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the disk has no locks
        if handle >= 0:
            os.close(handle)
        return -1
    return handle


def _remove_left(folder: Path, out: Path) -> None:
    """Remove the folder of a process that was killed. Files that it moved aside come back."""
    if (lock := _locked(folder)) < 0:
        return
    for old in folder.glob("*.old"):
        if not os.path.lexists(target := out / old.stem):
            old.rename(target)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _move_all(files: Sequence[Path], out: Path, force: bool) -> None:
    """Move files into a folder: all of them, or none."""
    check_free([out / file.name for file in files], force=True)
    new = not out.exists()
    out.mkdir(exist_ok=True)
    undo: list[tuple[Path, Path]] = []
    try:
        for file in files:
            target, old = out / file.name, file.with_name(f"{file.name}.old")
            if force and target.exists():
                target.rename(old)
                undo.append((old, target))
            _move(file, target, force)
            undo.append((target, file))
    except BaseException:
        for here, back in reversed(undo):
            here.rename(back)
        if new:
            with suppress(OSError):  # another run may have written into it
                out.rmdir()
        raise


def _move(file: Path, target: Path, force: bool) -> None:
    """Move a file. Without `force`, a file that another run has just written is not replaced."""
    if not force:
        try:
            target.hardlink_to(file)
        except OSError:  # there is a file, or the disk has no links
            check_free([target], force)
        else:
            file.unlink()
            return
    file.rename(target)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """The few renames are not interrupted. Only the main thread can change signals."""
    before = {}
    with suppress(ValueError):
        before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a small table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def json_text(content: Any, *, ascii_only: bool = False) -> str:
    """A result as JSON. NaN and infinity become null; an object that JSON does not know, a text."""
    return json.dumps(_plain(content), indent=2, ensure_ascii=ascii_only, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
