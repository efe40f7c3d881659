"""What every reader of a source offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kvariates.sources.columns import Field, listed
from kvariates.sources.input_file import InputFile
from kvariates.sources.pieces import (
    ArrowPiece,
    Piece,
    Place,
    arrow_field,
)

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_ROWS = 2**19
PIECE_BYTES = 2**26  # of a piece of rows with many columns


class Part(NamedTuple):
    """A file, or another part of a source, and its columns."""

    place: str
    fields: tuple[Field, ...]


class Reader(ABC):
    """Reads a source, a piece at a time.

    Attributes
    ----------
    description : str
        The source, for messages.
    repeatable : bool
        Whether the source can be read more than once.
    named : bool
        Whether columns have names of their own; otherwise they are called x0, x1, ...
    decodes : bool
        Whether to make a piece takes more than to look at data in memory.
    n_rows, n_bytes : int or None
        None: unknown before the source is read.
    parts : list of Part, or None
    remarks : list of str
        How a text table is read, in lines for the user.
    remarks_after : list of str
        What the last pass left out of it.
    doubtful : dict
        Its columns of text that look numeric: a line about each.
    hint : str
        What to try if no column holds numbers.
    """

    label: str

    @property
    def description(self) -> str:
        return self.label

    @property
    def repeatable(self) -> bool:
        return True

    @property
    def named(self) -> bool:
        return True

    @property
    def decodes(self) -> bool:
        return False

    @property
    def n_rows(self) -> int | None:
        return None

    @property
    def n_bytes(self) -> int | None:
        return None

    @property
    def parts(self) -> list[Part] | None:
        return None

    @property
    def remarks(self) -> list[str]:
        return []

    @property
    def remarks_after(self) -> list[str]:
        return []

    @property
    def doubtful(self) -> dict[str, str]:
        return {}

    @property
    def hint(self) -> str:
        return next(iter(self.doubtful.values()), "")

    @abstractmethod
    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        """Read the wanted columns (all, if the parts are unknown) of about so many rows a piece."""

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows as they are, in batches; of a text table as text."""
        pieces = self.pieces(names, PIECE_ROWS)
        return (piece.batch for piece in pieces if isinstance(piece, ArrowPiece))

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        """These columns of all rows as Arrow arrays, whatever they hold."""
        batches = list(self.as_written(names))
        return {name: self._joined(name, [b.column(name) for b in batches]) for name in names}

    def _joined(self, name: str, arrays: list[pa.Array]) -> pa.ChunkedArray:
        """One column. Its arrays, of several files, may have different types of numbers."""
        import pyarrow as pa
        from pyarrow import types

        arrays = [a.dictionary_decode() if types.is_dictionary(a.type) else a for a in arrays]
        kinds = {array.type for array in arrays}
        if len(kinds) > 1:
            if not all(arrow_field(name, kind).numeric for kind in kinds):
                words = listed(sorted(map(str, kinds)))
                raise ValueError(f"{self.description}: column {name!r} holds {words}")
            arrays = [array.cast(pa.float64(), safe=False) for array in arrays]
        column = pa.chunked_array(arrays) if arrays else pa.chunked_array([], pa.null())
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        return valid_text(column) if is_text else column


def valid_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with characters in place of bytes that are not UTF-8, as Parquet may hold them."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        cells = [None if cell is None else cell.decode("utf-8", "replace") for cell in raw]
        return pa.chunked_array([pa.array(cells, pa.large_string())])
    return column


@contextmanager
def one_line_errors(place: str | Callable[[], str]) -> Iterator[None]:
    """Raise errors of a reader as ValueError with one line that names the place."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # pyarrow, polars and DuckDB have errors of their own
        where = place if isinstance(place, str) else place()
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if reason.startswith(where):
            raise
        raise ValueError(f"{where}: cannot be read: {reason}") from error


def piece_rows(columns: int, rows: int) -> int:
    """How many rows to read at once."""
    return min(rows, PIECE_ROWS, max(1, PIECE_BYTES // (8 * columns)))


def arrow_pieces(
    batches: Iterable[pa.RecordBatch], source: str, bytes_read: Callable[[], int] = lambda: 0
) -> Generator[ArrowPiece]:
    """A piece for each batch, with the number of its first row."""
    first = 0
    for batch in batches:
        yield ArrowPiece(batch, Place(source, first), bytes_read())
        first += batch.num_rows


@dataclass(frozen=True)
class FileReader(Reader):
    """What readers of one file share."""

    file: InputFile

    @property
    def decodes(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return self.file.name

    @property
    def n_bytes(self) -> int:
        return len(self.file.data) if self.file.once else self.file.size
