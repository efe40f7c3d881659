"""Files that appear when they are complete, and that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_aside(path: Path, data: bytes) -> None:
    """Write a file next to its place, and move it there when it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Wait until no other process is inside; the lock ends with the process that has it."""
    beside = Path(path).with_name(f".{Path(path).name}.lock")
    beside.parent.mkdir(parents=True, exist_ok=True)
    with beside.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
