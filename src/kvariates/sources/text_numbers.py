"""Numbers as people write them: 1,234.5 and 1.234,5, 1 234 and 1'234, 20% and a long minus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvariates.sources.text_format import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS = "'\u2019 \u00a0\u202f\u2009"  # thousands separators beside the comma or the point
MOSTLY = 0.8  # share of numbers from which a column of text looks numeric


@dataclass(frozen=True, eq=False)
class FoundNumbers:
    """A column of text, read as numbers.

    Attributes
    ----------
    numbers : pyarrow array of float64, or None
        None if a cell is no number.
    marks : tuple of str
        What was taken off: "thousands separators", "per cents".
    share : float
        The share of cells that are numbers, among those that are not missing.
    bad : int
        The index of the first cell that is neither a number nor missing; -1 if there is none.
    """

    numbers: Any
    marks: tuple[str, ...]
    share: float
    bad: int

    @property
    def looks_numeric(self) -> bool:
        return self.numbers is None and self.share >= MOSTLY


def find_numbers(
    column: pa.ChunkedArray | pa.Array, decimal: str, *, each: bool = False
) -> FoundNumbers:
    """Read a column of text as numbers, missing cells as null.

    With `each`, a cell that is no number is null, too, and does not matter for the other cells.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.is_in(text, pa.array(sorted(MISSING))), None, text)
    known = len(text) - text.null_count
    if known == 0 and not each:
        return FoundNumbers(None, (), 0.0, -1)
    fits = pc.match_substring_regex(text, _pattern(decimal))
    good = pc.sum(fits).as_py() or 0
    if each:
        text, known = pc.if_else(fits, text, None), good
    if good < known:
        bad = pc.index(fits, pa.scalar(False)).as_py()
        return FoundNumbers(None, (), good / known, bad)
    per_cent = pc.ends_with(text, "%")
    plain = pc.utf8_rtrim(text, "% \t\r\n\f")
    plain = pc.replace_substring(pc.replace_substring(plain, "\u2212", "-"), "+", "")
    other = "," if decimal == "." else "."
    bare = pc.replace_substring_regex(plain, f"[{other}{GROUPS}]", "")
    grouped = pc.any(pc.not_equal(pc.utf8_length(bare), pc.utf8_length(plain))).as_py()
    numbers = pc.replace_substring(bare, decimal, ".").cast(pa.float64())
    marks = ("thousands separators",) if grouped else ()
    if pc.any(per_cent).as_py():
        numbers = pc.if_else(per_cent, pc.divide(numbers, 100.0), numbers)
        marks = (*marks, "per cents")
    return FoundNumbers(numbers, marks, 1.0, -1)


def _pattern(decimal: str) -> str:
    other, mark = (",", r"\.") if decimal == "." else (r"\.", ",")
    groups = "|".join(rf"(?:{g}\d{{3}})+" for g in (other, *GROUPS))
    whole = rf"(?:[1-9]\d{{0,2}}(?:{groups})|\d+)"  # 030 123 is a code, not a number
    return rf"^[+\-\x{{2212}}]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?\s?%?$"
