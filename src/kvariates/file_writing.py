"""Files that appear when they are complete, and that outlive a loss of power."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

OWNER_ONLY = 0o600


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
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Until the folder is on the disk, the old name may come back."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
