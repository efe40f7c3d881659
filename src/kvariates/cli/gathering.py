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
    """What to read. `text`: the options of `TextOptions` in their order, None if not given."""
    from kvariates.cli.reading import ReadRequest
    from kvariates.sources import TextOptions

    delimiter, decimal, encoding, header, na, skip = text
    written = TextOptions(delimiter, decimal, encoding, header, tuple(na or ()), skip)
    how = missing or "error"
    return ReadRequest(data, names_of(columns), missing=str(how), text=written, **others)
