"""Columns of a text table as they are written: identifiers and other columns beside the labels.

A column of plain numbers is one of numbers. Anything that a number would lose, such as the zeros of
00501, digits of a long identifier, a per cent or a thousands separator, keeps the column text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvariates.sources.text_format import TextFormat, TextOptions
from kvariates.sources.text_sniffing import is_marked_number
from kvariates.sources.text_table import rows_as_text

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA = "^[=+@-]."  # the beginning of a cell that a spreadsheet may run
INTEGER = r"^(-?[1-9]\d{0,17}|0)$"
SHORT = r"^-?(0|[1-9]\d{0,8})(MARK\d{1,6})?$"  # few digits, so that a float holds them all


def original_columns(
    data: bytes, options: TextOptions, how: TextFormat, names: Sequence[str], identifiers: bool
) -> dict[str, pa.ChunkedArray]:
    """These columns of a text file, as plain numbers or as text.

    Numbers with decimals stay text if they are identifiers: 1.1 and 1.10 differ.
    """
    table = rows_as_text(data, options, how, names)
    decimal = None if identifiers else how.decimal
    return {name: _plain(table.column(name), decimal, how.missing) for name in names}


def _plain(
    column: pa.ChunkedArray, decimal: str | None, missing: frozenset[str]
) -> pa.ChunkedArray:
    import pyarrow as pa
    from pyarrow import compute as pc

    text: Any = pc.utf8_trim_whitespace(column)
    known = pc.if_else(pc.is_in(text, pa.array(sorted(missing))), None, text)
    if known.null_count == len(known):
        return column
    if pc.all(pc.match_substring_regex(known, INTEGER)).as_py():
        return known.cast(pa.int64())
    if decimal is None:
        return column
    if pc.all(pc.match_substring_regex(known, SHORT.replace("MARK", f"[{decimal}]"))).as_py():
        return pc.replace_substring(known, decimal, ".").cast(pa.float64())
    return column


def formula_of(column: Any) -> str:
    """The first cell of an Arrow column that a spreadsheet takes for a formula, or ""."""
    if str(getattr(column, "type", "")) not in ("string", "large_string"):
        return ""
    from pyarrow import compute as pc

    suspect = column.filter(pc.match_substring_regex(column, FORMULA))
    return first_formula(suspect.to_pylist())


def first_formula(cells: Sequence[str]) -> str:
    """The first text that a spreadsheet takes for a formula, or ""."""
    return next((c for c in cells if re.match(FORMULA, c) and not is_marked_number(c)), "")
