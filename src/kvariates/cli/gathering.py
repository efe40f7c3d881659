"""Gathers the options of reading that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvariates.cli.options import names_of

if TYPE_CHECKING:
    from kvariates.cli.reading import ReadRequest


def gathered(
    data: Path, columns: str | None, missing: str | None, text: tuple[Any, ...], **others: Any
) -> ReadRequest:
    """What to read. `text`: delimiter, decimal mark, encoding and header, None if not given."""
    from kvariates.cli.reading import ReadRequest
    from kvariates.sources import TextOptions

    how = missing or "error"
    return ReadRequest(data, names_of(columns), missing=str(how), text=TextOptions(*text), **others)
