"""Writes the result files of a run.

Files are written to a temporary directory and moved when all are complete, so that a run that fails
or is interrupted does not change the output directory.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def moved_into_place(out: Path) -> Iterator[Path]:
    """Yield a new directory to write into; on success its files move to `out`.

    They replace files of the same name; other files in `out` are not touched.
    """
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: exists and is not a directory")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        yield temporary
        out.mkdir(exist_ok=True)
        for file in sorted(temporary.iterdir()):
            os.replace(file, out / file.name)  # noqa: PTH105 (os.replace is atomic by its documentation)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a small table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
