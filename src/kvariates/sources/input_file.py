"""A file to read, or standard input: its kind and its bytes, within the memory there is."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from kvariates.extras import needed
from kvariates.sources.columns import listed

STANDARD_INPUT = Path("-")
KINDS = {
    ".csv": "text", ".tsv": "text", ".tab": "text", ".txt": "text", ".psv": "text",
    ".dat": "text", ".data": "text", ".edges": "text", ".edgelist": "text",
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".npz": "numpy", ".npy": "numpy", ".mtx": "matrix market",
}  # fmt: skip
MAGIC = {
    b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow", b"\x93NUMPY": "numpy",
    b"%%MatrixMarket": "matrix market", b"%PDF": "PDF",
}  # fmt: skip
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".xlsm")
OTHERS = (".json", ".jsonl", ".xml", ".html", ".pkl", ".pickle", ".h5", ".hdf5", ".sqlite", ".db")
PIECE = 2**20


class TooLargeError(ValueError):
    """A file that does not fit the memory."""


@dataclass(frozen=True)
class InputFile:
    """A path, or "-" for standard input. Pre: `check` was called."""

    path: Path

    @property
    def is_stdin(self) -> bool:
        return self.path == STANDARD_INPUT

    @property
    def name(self) -> str:
        return "standard input" if self.is_stdin else str(self.path)

    @cached_property
    def in_memory(self) -> bool:
        """Whether pyarrow and NumPy get its bytes; otherwise they open the file."""
        return self._once or self.gzipped

    @cached_property
    def _once(self) -> bool:
        """Whether it can be read only once: standard input, a pipe."""
        return self.is_stdin or not self.path.is_file()

    @cached_property
    def _input(self) -> bytes:
        if self.is_stdin:
            return _limited(sys.stdin.buffer, self.name)
        with self.path.open("rb") as file:
            return _limited(file, self.name)

    @cached_property
    def gzipped(self) -> bool:
        return self._start(2) == b"\x1f\x8b"

    def _start(self, n: int) -> bytes:
        if self._once:
            return self._input[:n]
        with self.path.open("rb") as file:
            return file.read(n)

    @cached_property
    def kind(self) -> str:
        """What it holds: by its extension, otherwise by its first bytes; or "folder"."""
        if not self.is_stdin and self.path.is_dir():
            return "folder"
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        if self.gzipped and suffixes[-1:] == [".gz"]:
            suffixes.pop()
        last = suffixes[-1] if suffixes and not self.is_stdin else ""
        if last in KINDS:
            return KINDS[last]
        if last in SPREADSHEETS:
            raise ValueError(f"{self.name}: is a spreadsheet; save it as CSV first")
        if last == ".gz" and self._start(1):
            raise ValueError(f"{self.name}: is called .gz, but is not compressed by gzip")
        if last in OTHERS:
            raise ValueError(
                f"{self.name}: unknown extension {last}; known are {listed(list(KINDS), 20)}"
            )
        start = self.data[:16] if self.gzipped else self._start(16)
        if start.startswith(b"PK\x03\x04"):
            return "numpy"
        return next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), "text")

    @cached_property
    def data(self) -> bytes:
        """All its bytes, decompressed. ValueError if they would fill the memory."""
        if self._once:
            return _gunzip(self._input, self.name) if self.gzipped else self._input
        if self.gzipped:
            with self.path.open("rb") as file, gzip.open(file) as text:
                return _limited(text, self.name)
        check_size(self.path.stat().st_size, self.name)
        return self.path.read_bytes()

    def needs(self) -> None:
        """Raise ImportError, which says what to install, if a package for this kind is missing."""
        if self.kind in ("text", "parquet", "arrow", "folder"):
            needed("pyarrow", "files", f"reading {self.name}")

    def arrow(self) -> Any:
        """What pyarrow reads."""
        import pyarrow as pa

        return pa.BufferReader(self.data) if self.in_memory else str(self.path)

    def check(self) -> None:
        """Raise FileNotFoundError or ValueError unless it can be read."""
        if self.is_stdin:
            if sys.stdin is None:
                raise ValueError("standard input is closed; pipe a table into the command")
            if sys.stdin.isatty():
                raise ValueError("standard input is a terminal; pipe a table into the command")
            return
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path}: no such file")


def _gunzip(data: bytes, name: str) -> bytes:
    import io

    with gzip.open(io.BytesIO(data)) as text:
        return _limited(text, name)


def _limited(file: IO[bytes] | Any, name: str) -> bytes:
    """All bytes of a file. ValueError if they would fill the memory, or are damaged."""
    parts, size = [], 0
    try:
        while part := file.read(PIECE):
            size += len(part)
            check_size(size, name)
            parts.append(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name}: is damaged: {error}") from None
    return b"".join(parts)


def check_size(n_bytes: int, name: str) -> None:
    """Raise TooLargeError if so many bytes would fill more than half of the memory."""
    if n_bytes > memory() / 2:
        most = f"{memory() / 2e9:.3g} GB of memory"
        raise TooLargeError(f"{name}: its contents need more than {most}")


def memory() -> float:
    """Bytes of memory that this process may use."""
    most = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    words = limit.read_text().strip() if limit.exists() else ""
    return min(most, float(words)) if words.isdigit() else most
