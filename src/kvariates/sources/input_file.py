"""Files to read: here, elsewhere, or standard input. Their kinds and bytes, within the memory.

| source | files |
|---|---|
| a path; "-" | this file; standard input |
| a folder | all .parquet files in it and in its folders, sorted by their paths |
| a pattern, as "rows/*.parquet" | those that it matches, sorted by their paths |
| a list of paths | these, in this order |
| a URL, as "s3://bucket/a.parquet", or a file system | opened by pyarrow, or else by fsspec |
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kvariates.extras import needed
from kvariates.sources.columns import listed

if TYPE_CHECKING:
    import pyarrow as pa

STANDARD_INPUT = Path("-")
KINDS = {
    ".csv": "text", ".tsv": "text", ".tab": "text", ".txt": "text", ".psv": "text",
    ".dat": "text", ".data": "text", ".edges": "text", ".edgelist": "text",
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".npz": "numpy", ".npy": "numpy", ".mtx": "matrix market",
    ".fvecs": "fvecs", ".bvecs": "bvecs", ".ivecs": "ivecs",
}  # fmt: skip
MAGIC = {
    b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow", b"\x93NUMPY": "numpy",
    b"PK\x03\x04": "numpy", b"%%MatrixMarket": "matrix market", b"%PDF": "PDF",
}  # fmt: skip
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".xlsm")
OTHERS = (".json", ".jsonl", ".xml", ".html", ".pkl", ".pickle", ".h5", ".hdf5", ".sqlite", ".db")
SCHEME = re.compile(r"([A-Za-z][\w+.-]+)://")
PIECE = 2**20


class TooLargeError(ValueError):
    """A file that does not fit the memory."""


class Url(str):
    """The URL of a file or folder, where a path is asked for. A path would change its slashes."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return PurePosixPath(self).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self).suffix

    def is_file(self) -> bool:
        return input_file(self).type == "file"

    def is_dir(self) -> bool:
        return input_file(self).type == "folder"


PathOrUrl = Path | Url
Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def path_or_url(words: str | os.PathLike[str]) -> PathOrUrl:
    """What `words` name: a path on this machine, of which file:// is one too, or a URL."""
    text = os.fspath(words)
    if text.startswith("file:///"):
        return Path(url2pathname(urlsplit(text).path))
    return Url(text) if SCHEME.match(text) else Path(text)


@dataclass(frozen=True)
class InputFile:
    """A path, or "-" for standard input.

    `files` is the file system of pyarrow that it is in, None for that of this machine.
    """

    path: Path
    files: Any = None
    url: str = ""

    @property
    def is_stdin(self) -> bool:
        return self.path == STANDARD_INPUT and self.files is None

    @property
    def name(self) -> str:
        return "standard input" if self.is_stdin else self.url or str(self.path)

    @cached_property
    def type(self) -> str:
        """What is at the path: "file", "folder", "pipe" or "nothing"."""
        if self.files is not None:
            from pyarrow import fs

            kinds = {fs.FileType.File: "file", fs.FileType.Directory: "folder"}
            try:
                return kinds.get(self.files.get_file_info(self.path.as_posix()).type, "nothing")
            except OSError as error:  # of the network
                reason = str(error).splitlines()[0]
                raise ValueError(f"{self.name}: cannot be read: {reason}") from error
        if self.is_stdin:
            return "pipe"
        if self.path.is_dir():
            return "folder"
        return "file" if self.path.is_file() else "pipe" if self.path.exists() else "nothing"

    @property
    def size(self) -> int:
        """Its bytes, as they are stored. Pre: it is a file."""
        if self.files is not None:
            return int(self.files.get_file_info(self.path.as_posix()).size)
        return self.path.stat().st_size

    @property
    def once(self) -> bool:
        """Whether it can be read only once: standard input, a pipe."""
        return self.type == "pipe"

    @cached_property
    def in_memory(self) -> bool:
        """Whether pyarrow and NumPy get its bytes; otherwise they open the file."""
        return self.once or self.gzipped

    @cached_property
    def _input(self) -> bytes:
        with nullcontext(sys.stdin.buffer) if self.is_stdin else self.path.open("rb") as file:
            return _limited(file, self.name)

    @cached_property
    def gzipped(self) -> bool:
        return self._start(2) == b"\x1f\x8b"

    def _start(self, n: int) -> bytes:
        with self.opened() as file:
            return bytes(file.read(n))

    def opened(self) -> IO[bytes] | Any:
        """The bytes as they are stored."""
        if self.once:
            return io.BytesIO(self._input)
        if self.files is not None:
            return self.files.open_input_file(self.path.as_posix())
        return self.path.open("rb")

    @cached_property
    def kind(self) -> str:
        """What it holds: by its extension, otherwise by its first bytes; or "folder"."""
        if self.type == "folder":
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
        return next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), "text")

    @cached_property
    def data(self) -> bytes:
        """All its bytes, decompressed. ValueError if they would fill the memory."""
        if not self.once and not self.gzipped:
            check_size(self.size, self.name)
        with self.opened() as file:
            if not self.gzipped:
                return bytes(file.read())
            with gzip.open(file) as text:
                return _limited(text, self.name)

    def needs(self) -> None:
        """Raise ImportError, which says what to install, if a package for this kind is missing."""
        if self.kind in ("text", "parquet", "arrow", "folder"):
            needed("pyarrow", "files", f"reading {self.name}")

    def arrow(self, *, stored: bool = False) -> pa.NativeFile:
        """Its bytes for pyarrow, decompressed unless they are to be as they are `stored`."""
        import pyarrow as pa

        if self.in_memory and not stored:
            return pa.BufferReader(self.data)
        return pa.OSFile(str(self.path)) if self.files is None else self.opened()

    def check(self) -> None:
        """Raise FileNotFoundError or ValueError unless it can be read."""
        if self.is_stdin:
            if sys.stdin is None:
                raise ValueError("standard input is closed; pipe a table into the command")
            if sys.stdin.isatty():
                raise ValueError("standard input is a terminal; pipe a table into the command")
            return
        if self.type == "nothing":
            raise FileNotFoundError(f"{self.name}: no such file")

    def inside(self) -> list[InputFile]:
        """The .parquet files of a folder and its folders."""
        if self.files is None:
            paths = [path for path in self.path.rglob("*.parquet") if path.is_file()]
        else:
            from pyarrow import fs

            found = self.files.get_file_info(fs.FileSelector(self.path.as_posix(), recursive=True))
            paths = [Path(info.path) for info in found if info.is_file]
        paths = [p for p in paths if p.suffix == ".parquet" and p.name[0] not in "._"]
        if not paths:
            raise ValueError(f"{self.name}: no .parquet file in this folder")
        return [replace(self, path=path, url="") for path in sorted(paths)]

    def matches(self) -> list[InputFile]:
        """The files that a path matches, which is a pattern; the path itself if there is one."""
        if not re.search(r"[*?\[]", str(self.path)) or self.type != "nothing":
            return [self]
        if self.files is None:
            paths = [Path(path) for path in glob.glob(str(self.path), recursive=True)]  # noqa: PTH207
        else:
            from pyarrow import fs

            folder = fs.FileSelector(self.path.parent.as_posix(), allow_not_found=True)
            found = (Path(info.path) for info in self.files.get_file_info(folder) if info.is_file)
            paths = [path for path in found if PurePosixPath(path.name).match(self.path.name)]
        if not paths:
            raise FileNotFoundError(f"{self.name}: no file matches")
        return [replace(self, path=path, url="") for path in sorted(paths)]


def input_file(source: str | os.PathLike[str], files: Any = None) -> InputFile:
    """The file at a path, in a file system of pyarrow or fsspec, or at a URL."""
    if files is not None:
        return InputFile(Path(source), _of_arrow(files))
    scheme = SCHEME.match(str(source))
    return InputFile(Path(source)) if scheme is None else _of_url(str(source), scheme[1])


def _of_arrow(files: Any) -> Any:
    """A file system of pyarrow, which one of fsspec is made to be."""
    from pyarrow import fs

    if isinstance(files, fs.FileSystem):
        return files
    with suppress(ImportError):
        from fsspec import AbstractFileSystem

        if isinstance(files, AbstractFileSystem):
            return fs.PyFileSystem(fs.FSSpecHandler(files))
    raise TypeError(f"filesystem must be one of pyarrow or fsspec, not {type(files).__name__}")


def _of_url(url: str, scheme: str) -> InputFile:
    if scheme.lower() in ("http", "https", "ftp"):
        raise ValueError(f"{url}: files are not read over {scheme}://; download it first")
    needed("pyarrow", "files", f"reading {url}")
    from pyarrow import fs

    try:
        files, path = fs.FileSystem.from_uri(url)
    except Exception:  # a scheme that only fsspec knows
        try:
            from fsspec.core import url_to_fs

            other, path = url_to_fs(url)
            files = _of_arrow(other)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ValueError(
                f"{url}: neither pyarrow nor fsspec can open it ({reason}); download it first"
            ) from None
    here = isinstance(files, fs.LocalFileSystem)
    return InputFile(Path(path)) if here else InputFile(Path(path), files, url)


def input_files(source: Source, files: Any = None) -> list[InputFile]:
    """The files of a path, a folder, a pattern, or a list of paths. Each of them exists."""
    if not isinstance(source, str | os.PathLike):
        return [file for path in source for file in input_files(path, files)]
    given = input_file(source, files).matches()
    for file in given:
        file.check()
    return [each for file in given for each in (file.inside() if file.type == "folder" else [file])]


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
