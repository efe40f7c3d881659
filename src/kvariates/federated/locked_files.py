"""Files that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Wait until no other process is inside; the lock ends with the process that has it."""
    beside = Path(path).with_name(f".{Path(path).name}.lock")
    beside.parent.mkdir(parents=True, exist_ok=True)
    with beside.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
