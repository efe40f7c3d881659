"""Numbers as people write them: 1,234.5 and 1.234,5, 1 234 and 1'234, 20%, $5, (5), a long minus.

Cells that say that a number is missing may stand among them; `MISSING` are always read so, words
as "unknown" only in a column whose other cells are numbers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvariates.sources.columns import listed
from kvariates.sources.text_format import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS = "'\u2019 \u00a0\u202f\u2009"  # thousands separators beside the comma or the point
MOSTLY = 0.8  # share of numbers from which a column of text looks numeric
MOST_WORDS = 5  # that are no numbers, for which a remedy is offered
# Words for a missing number, in small letters. A column of such words alone is text.
MISSING_WORDS = frozenset({
    "unknown", "unk", "unbekannt", "inconnu", "desconocido", "n.a.", "n. a.", "k.a.", "k. a.",
    "keine angabe", "nicht verf\u00fcgbar", "n.v.", "n.d.", "nd", "s/d", "no data", "not available",
    "not applicable", "undefined", "blank", "tbd", "*", "**", "..", "...", "---",
    "\u2013", "\u2014",
})  # fmt: skip
FORMULA = "^[=+@-]."  # the beginning of a cell that a spreadsheet may run
INTEGER = r"^(-?[1-9]\d{0,17}|0)$"
SHORT = r"^-?(0|[1-9]\d{0,8})(MARK\d{1,6})?$"  # few digits, so that a float holds them all

_BLANKS = "[ \u00a0\u202f]*"
_SIGNS = "+\u2212\\-"
_SYMBOLS = "\u20a0-\u20bf\u00a3\u00a5\u0e3f"
_CODES = (
    "EUR|USD|GBP|CHF|JPY|CNY|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|INR|BRL|MXN|ZAR|KRW|AUD|CAD|NZD|SGD|"
    "HKD|Euro|z\u0142|K\u010d"
)
CURRENCY = rf"(?:[A-Z]{{0,3}}\$|[{_SYMBOLS}]|{_CODES}|kr\.?|Fr\.)"
# What is taken off a cell, in this order, and what stays of it.
MONEY = (
    (rf"^([{_SIGNS}(]?){_BLANKS}{CURRENCY}{_BLANKS}", r"\1"),
    (rf"{_BLANKS}{CURRENCY}(\)?)$", r"\1"),
    (rf"^\({_BLANKS}([\d.,].*)\)$", r"-\1"),
)
# A number with marks: 1,234.5 or 1.234,5 or 1 234 or 20% (before it is known which mark is which).
NUMBER = re.compile(r"[+\-\u2212]?(\d[\d.,'\u2019 \u00a0\u202f]*|[.,]\d+)([eE][+-]?\d+)?\s?%?")


def without_currency(cell: str) -> str:
    """The cell without a currency, and with a minus in place of parentheses."""
    for pattern, stays in MONEY:
        cell = re.sub(pattern, stays, cell)
    return cell


def is_marked_number(cell: str) -> bool:
    """Whether a cell is a number, with any marks: thousands separators, a per cent, a currency."""
    cell = cell.strip()
    return (NUMBER.fullmatch(cell) or NUMBER.fullmatch(without_currency(cell))) is not None


@dataclass(frozen=True, eq=False)
class FoundNumbers:
    """A column of text, read as numbers."""

    numbers: Any  # a pyarrow array of float64; None if a cell is no number, or if there is none
    marks: tuple[str, ...] = ()  # what was taken off ("thousands separators"), or read as missing
    share: float = 1.0  # of cells that are numbers, among those that are not missing
    bad: int = -1  # the index of the first cell that is neither a number nor missing, if any
    words: tuple[str, ...] = ()  # different cells that are neither, in their order
    currency: str = ""  # of the numbers. A column with several is not read as numbers

    @property
    def looks_numeric(self) -> bool:
        return self.bad >= 0 and (self.share >= MOSTLY or _is_hexadecimal(self.words[0]))

    @property
    def is_empty(self) -> bool:
        """Whether all cells are missing, or words for a missing number."""
        return self.numbers is None and self.bad < 0

    def why_left_out(self, name: str) -> str:
        """Why a column of this name that looks numeric is left out, and what helps."""
        line = f"column {name!r} is left out: "
        if self.currency:
            return f"{line}it has several currencies: {self.currency}"
        cell = f"{self.words[0]!r} in row {self.bad + 1} is not a number"
        return f"{line}{cell}{cell_remedy(self.words)}"


def cell_remedy(words: tuple[str, ...]) -> str:
    """What to do about these cells. Those that begin with a number are not missing."""
    if _is_hexadecimal(words[0]):
        return "; write hexadecimal numbers as decimal ones"
    begins = re.compile(rf"[{_SIGNS}]?[.,]?\d")  # with a number
    if len(words) > MOST_WORDS or any(begins.match(without_currency(word)) for word in words):
        return ""
    options = " ".join(f"--na {shlex.quote(word)}" for word in words)
    return f"; {options} reads {'it' if len(words) == 1 else 'them'} as missing"


def _is_hexadecimal(cell: str) -> bool:
    return re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]+", cell) is not None


def said_marks(found: Mapping[str, FoundNumbers]) -> list[str]:
    """What was taken off columns, in lines for the user."""
    marked: dict[str, list[str]] = {}
    for name, column in found.items():
        for mark in column.marks:
            marked.setdefault(mark, []).append(name)
    return [f"{mark} in {listed(names)}" for mark, names in marked.items()]


def find_numbers(
    column: pa.ChunkedArray | pa.Array, decimal: str, missing: AbstractSet[str] = MISSING, *,
    each: bool = False,
) -> FoundNumbers:  # fmt: skip
    """Read a column of text as numbers, missing cells as null.

    With `each`, a cell that is no number is null, too, and does not matter for the other cells.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    written = pc.utf8_trim_whitespace(column)
    written = pc.if_else(pc.is_in(written, pa.array(sorted(missing))), None, written)
    text = written
    for pattern, stays in MONEY:
        text = pc.replace_substring_regex(text, pattern, stays)
    fits = pc.match_substring_regex(text, _pattern(decimal))
    said: tuple[str, ...] = ()
    if not each:
        is_word = pc.is_in(pc.utf8_lower(written), pa.array(sorted(MISSING_WORDS)))
        good, known = pc.sum(fits).as_py() or 0, len(written) - written.null_count
        other = pc.invert(pc.or_(fits, is_word))
        if pc.any(other).as_py():
            words = pc.unique(written.filter(other).slice(0, 1000)).to_pylist()
            at = pc.index(other, pa.scalar(True)).as_py()
            return FoundNumbers(None, (), good / known, at, tuple(words))
        if not good:
            return FoundNumbers(None)
        said = tuple(pc.unique(written.filter(is_word)).to_pylist())
    text, written = pc.if_else(fits, text, None), pc.if_else(fits, written, None)
    currencies = () if each else _currencies(written)
    if len(currencies) > 1:  # amounts of several currencies cannot be compared
        at = pc.index(pc.match_substring(written, currencies[1]), pa.scalar(True)).as_py()
        return FoundNumbers(None, (), 1.0, at, (), listed(currencies))
    numbers, taken = _numbers(text, decimal)
    if currencies:
        taken = (*taken, f"the currency {currencies[0]}")
    if pc.any(pc.match_substring(written, "(")).as_py():
        taken = (*taken, "negative numbers in parentheses")
    if said:
        taken = (*taken, f"{listed(said)} read as missing")
    return FoundNumbers(numbers, taken, currency="".join(currencies))


def _currencies(text: pa.ChunkedArray | pa.Array) -> tuple[str, ...]:
    """The different currencies of numbers, in the order in which they appear."""
    from pyarrow import compute as pc

    signed = text.filter(pc.match_substring_regex(text, CURRENCY))
    if not len(signed):
        return ()
    found = pc.struct_field(pc.extract_regex(signed, f"(?P<currency>{CURRENCY})"), "currency")
    return tuple(pc.unique(found).to_pylist())


def _numbers(text: pa.ChunkedArray | pa.Array, decimal: str) -> tuple[Any, tuple[str, ...]]:
    """The numbers of cells that fit the pattern, and what was taken off."""
    import pyarrow as pa
    from pyarrow import compute as pc

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
    return numbers, marks


def _pattern(decimal: str) -> str:
    other, mark = (",", r"\.") if decimal == "." else (r"\.", ",")
    groups = "|".join(rf"(?:{g}\d{{3}})+" for g in (other, *GROUPS))
    whole = rf"(?:[1-9]\d{{0,2}}(?:{groups})|\d+)"  # 030 123 is a code, not a number
    return rf"^[+\-\x{{2212}}]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?\s?%?$"


def plain_column(
    column: pa.ChunkedArray, decimal: str | None, missing: frozenset[str]
) -> pa.ChunkedArray:
    """A column of text as it is, or as plain numbers if these lose nothing.

    What a number would lose, as the zeros of 00501, digits of a long identifier or a per cent,
    keeps the column text. `decimal`: None for identifiers, of which 1.1 and 1.10 differ.
    """
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
