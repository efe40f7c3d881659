"""Finds out how a text table is written, from its beginning.

| part | rule |
|---|---|
| delimiter | most rows have the same number of cells; of several such, most cells are numbers |
| decimal mark | the last mark of 1.234,5; the mark of 1,5; in doubt a point |
| names | the first row, if it has text above a column of numbers, or no number at all |
| table | begins at the first row with the usual number of cells |
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from kvariates.sources.text_format import COMMENT, MISSING, TextFormat, TextOptions, find_encoding
from kvariates.sources.text_numbers import MISSING_WORDS, is_marked_number, without_currency

SAMPLE_BYTES = 2**18
MOST_SAMPLE_BYTES = 2**26  # of a table with very long lines
SAMPLE_LINES = 20  # that a sample has at least
SAMPLE_ROWS = 400
DECIMAL_CELLS = 200  # the first cells of a column that show a decimal mark decide which it is
DECIMAL_ROWS = 20_000  # in which the decimal mark is looked for
MOST_LETTERS = 2**30  # of a cell
MOST_BEFORE = 30  # lines before the table
DELIMITERS = (",", "\t", ";", "|", " ")

# One column: "1,5" is not two cells. What is before the decimal comma, and behind it.
SIGNED = re.compile(r"[+\-\u2212]?\d+")
WHOLE = re.compile(r"[+\-\u2212]?(\d+|\d{1,3}([.'\u2019 \u00a0\u202f]\d{3})+)")
FRACTION = re.compile(r"\d+([eE][+-]?\d+)?(\s?%)?")
LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
YEAR = re.compile(r"(1[89]|20|21)\d\d")


def find_format(sample: bytes, options: TextOptions, whole: bool) -> TextFormat:
    """The format of a table that begins with `sample`. Raises ValueError if it is no table."""
    encoding = options.encoding or find_encoding(sample, whole)
    text = sample.decode(encoding, errors="replace").removeprefix("\ufeff")
    if not whole:  # the last line may be cut
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    lines = LINE_END.split(text)
    if not any(line.strip() for line in lines):
        raise ValueError("no rows: the file is empty")
    if not any(line.strip() for line in lines[options.skip :]):
        raise ValueError(f"no rows: nothing is left after the {options.skip:,} lines of --skip")
    said = re.fullmatch(r"\s*sep=(.)\s*", lines[options.skip], re.IGNORECASE)  # a line for Excel
    start = options.skip + (1 if said else 0)
    lines = lines[start:]
    delimiter = options.delimiter or (said[1] if said else _delimiter(lines))
    rows = sample_rows(lines, delimiter)
    if not rows:
        raise ValueError("no rows: the file has only comments")
    width = _width(rows)
    first = _first_row(rows, width)
    cells = [row.cells for row in rows[first:]]
    found = [row.cells for row in sample_rows(lines, delimiter, DECIMAL_ROWS)]
    decimal = find_decimal(zip_longest(*found, fillvalue=""), delimiter)
    if options.decimal is not None:
        decimal = DecimalMark(options.decimal, "", True)
    comment = _names_in_comment(lines, delimiter, width) if first == 0 else None
    names_first = _is_header(cells[0], cells[1:])
    header = options.header
    if header is None:
        header = comment is not None or names_first
    named = cells[0] if comment is None or names_first else comment
    used = first + (1 if header and named is cells[0] else 0)
    units = _units(cells[used - first :]) if header else ""
    used += 1 if units else 0
    skip = rows[used].begin if used < len(rows) else rows[-1].end
    names = _names(named, cells, width) if header else tuple(f"x{j}" for j in range(width))
    before = sum(not row.marked for row in rows[:first])
    comments = sum(line.startswith(COMMENT) for line in lines[:skip])
    if header and named is comment:
        comments -= 1
    return TextFormat(
        encoding, delimiter, decimal.mark, names, header, start + skip, before, decimal.ambiguous,
        comments, decimal.shown, options.missing, units,
    )  # fmt: skip


@dataclass(frozen=True)
class SampleRow:
    """The cells of a row, the lines before it, the lines up to its end, and whether # begins it."""

    cells: list[str]
    begin: int
    end: int
    marked: bool


def sample_rows(lines: Sequence[str], delimiter: str, most: int = SAMPLE_ROWS) -> list[SampleRow]:
    """The first rows, without empty lines and comments.

    A comment begins with #, and comes before the table or has another number of cells.
    """
    at, pulled = _lines_before(lines), 0

    def pull() -> Iterator[str]:
        nonlocal at, pulled
        for line in lines[at:]:
            at, pulled = at + 1, pulled + 1
            yield line.rstrip("\r\n ") + "\n" if delimiter == " " else line

    rows = []
    csv.field_size_limit(MOST_LETTERS)
    reader = csv.reader(pull(), delimiter=delimiter, skipinitialspace=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                marked = lines[at - pulled].startswith(COMMENT)
                rows.append(SampleRow([cell.strip() for cell in cells], at - pulled, at, marked))
            pulled = 0
            if len(rows) == most:
                break
    except csv.Error as error:
        raise ValueError(f"is not a table: {error}") from None
    width = _width([row for row in rows if not row.marked] or rows)
    return [row for row in rows if not row.marked or len(row.cells) == width]


def _lines_before(lines: Sequence[str]) -> int:
    """The number of empty lines and comments before the first other line."""
    others = (i for i, line in enumerate(lines) if line.strip() and not line.startswith(COMMENT))
    return next(others, len(lines))


def _width(rows: list[SampleRow]) -> int:
    """The usual number of cells; of several, the largest."""
    counts = Counter(len(row.cells) for row in rows)
    return max(counts, key=lambda width: (counts[width], width), default=0)


def _delimiter(lines: list[str]) -> str:
    """The delimiter for which most rows have as many cells, and most cells are numbers."""
    scores = {}
    for delimiter in DELIMITERS:
        rows = sample_rows(lines, delimiter)
        if delimiter == "," and _one_column(rows):
            return ";"
        if not rows or (width := _width(rows)) == 1 or (delimiter == " " and _one_group(rows)):
            continue
        cells = [cell for row in rows for cell in row.cells if cell not in MISSING]
        regular = sum(len(row.cells) == width for row in rows) / len(rows)
        numbers = sum(is_marked_number(cell) for cell in cells) / max(len(cells), 1)
        scores[delimiter] = (regular, numbers)
    if len(scores) > 1:
        scores.pop(" ", None)
    if not scores:
        return ","
    most = max(regular for regular, _ in scores.values())
    good = {name: score for name, score in scores.items() if score[0] >= 0.8 * most}
    return max(good, key=lambda name: good[name][1])


def _one_column(rows: list[SampleRow]) -> bool:
    """Whether this is a single column of numbers with decimal commas, below its name."""
    if len(rows) < 2 or len(rows[0].cells) != 1 or is_marked_number(rows[0].cells[0]):
        return False
    body = [row.cells for row in rows[1:]]
    pairs = [cells for cells in body if len(cells) == 2]
    alone = [cells[0] for cells in body if len(cells) == 1]
    if not pairs or len(pairs) + len(alone) < len(body):
        return False
    bare = [(without_currency(a), without_currency(b)) for a, b in pairs]
    whole = all(WHOLE.fullmatch(a) and FRACTION.fullmatch(b) for a, b in bare)
    alone = [without_currency(c) for c in alone]
    return whole and all(c in MISSING or WHOLE.fullmatch(c.rstrip("% ")) for c in alone)


def _one_group(rows: list[SampleRow]) -> bool:
    """Whether this is a single column of numbers with blanks between thousands."""
    if len(rows) < 2 or len(rows[0].cells) != 1:
        return False
    cells = [row.cells for row in rows[1:]]
    return all(
        SIGNED.fullmatch(c[0]) and all(re.fullmatch(r"\d{3}", g) for g in c[1:]) for c in cells
    )


def _first_row(rows: list[SampleRow], width: int) -> int:
    """The number of rows before the table: a title, remarks."""
    for i, row in enumerate(rows[:MOST_BEFORE]):
        if row.marked or (width > 2 and sum(map(bool, row.cells)) == 1):
            continue  # a comment, or a title that is filled up with empty cells
        shorter = len(row.cells) == width - 1 > 0 and not any(map(is_marked_number, row.cells))
        if len(row.cells) == width or (shorter and width > 2):
            return i
    return 0


def _names(named: list[str], cells: list[list[str]], width: int) -> tuple[str, ...]:
    """Names of all columns; one without a name is called column1, column2, ..."""
    if len(named) == width - 1:
        # The column of row names has no name, or the rows end with a delimiter.
        ends = all(row[-1] == "" for row in cells[1:] if len(row) == width)
        named = [*named, ""] if ends else ["", *named]
    named = [*named, *[""] * (width - len(named))]
    return tuple(name or f"column{j}" for j, name in enumerate(named, 1))


def _names_in_comment(lines: list[str], delimiter: str, width: int) -> list[str] | None:
    """The names in the last comment before the table: "# x,y,z" or "#,x,y"."""
    said = [line for line in lines[: _lines_before(lines)] if line.strip()]
    if not said or width < 2:
        return None
    words = said[-1].removeprefix(COMMENT)
    cells = sample_rows([words if words.strip(" ")[:1] != delimiter else "no" + words], delimiter)
    if (
        len(cells) != 1
        or len(cells[0].cells) != width
        or any(map(is_marked_number, cells[0].cells))
    ):
        return None
    first, *rest = cells[0].cells
    return ["#" if first == "no" else first, *rest]


def _units(body: list[list[str]]) -> str:
    """The first row in one line, if all columns of numbers below have text there: units.

    Text in one column only must be in brackets: it could also be a missing number.
    """
    first, rest = body[0] if body else [], body[1:]
    above = [cell for j, cell in enumerate(first) if cell and _numeric_column(rest, j)]
    words = MISSING | MISSING_WORDS
    if any(is_marked_number(cell) or cell.lower() in words for cell in above):
        return ""
    bracketed = any(re.fullmatch(r"\(.*\)|\[.*\]", cell) for cell in above)
    return " ".join(filter(None, first)) if len(above) > 1 or bracketed else ""


def _is_header(first: list[str], body: list[list[str]]) -> bool:
    """Whether the first row holds names: text above numbers, or no number at all."""
    numeric = [is_marked_number(cell) for cell in first]
    if not any(numeric):
        return True
    if not body:
        return False
    if first[0] == "" and first[1:] == [str(j) for j in range(len(first) - 1)]:
        return True  # a pandas frame without names
    text = (j for j, cell in enumerate(first) if cell not in MISSING and not numeric[j])
    if any(_numeric_column(body, j) for j in text):
        return True
    numbers = [j for j, is_number in enumerate(numeric) if is_number]
    below = [row[j] for row in body for j in numbers if j < len(row)]
    years = len(numbers) > 1 and all(YEAR.fullmatch(first[j]) for j in numbers)
    return years and not all(YEAR.fullmatch(cell) for cell in below)


def _numeric_column(body: list[list[str]], j: int) -> bool:
    cells = [row[j] for row in body if j < len(row) and row[j] not in MISSING]
    return bool(cells) and sum(map(is_marked_number, cells)) >= 0.8 * len(cells)


class DecimalMark(NamedTuple):
    """A decimal mark, a number that could be read in two ways or "", and whether cells show it."""

    mark: str
    ambiguous: str
    shown: bool


def find_decimal(columns: Iterable[Iterable[str]], delimiter: str) -> DecimalMark:
    """The decimal mark that most columns show; a point if none does.

    Columns count, not cells: addresses and versions, as 10.100.200.1, look like large numbers.
    """
    sure, unsure = Counter[str](), dict[str, str]()
    for column in columns:
        shown = Counter[str]()
        for cell in column:
            shown.update(_shown_marks(without_currency(cell).strip("+-\u2212% "), unsure))
            if shown.total() == DECIMAL_CELLS:
                break
        if shown:
            sure[max(".,", key=lambda mark: shown[mark])] += 1
    if sure:
        return DecimalMark(max(".,", key=lambda mark: sure[mark]), "", True)
    if delimiter not in ";\t|" or not unsure:
        return DecimalMark(".", "", False)
    return DecimalMark(*next(iter(unsure.items())), True)


def _shown_marks(cell: str, unsure: dict[str, str]) -> str:
    """The decimal mark of a number, or "". A number with two readings goes to `unsure`."""
    if not is_marked_number(cell) or not (found := re.search(r"[.,](?=[^.,]*$)", cell)):
        return ""
    mark, other = found[0], ",."[found[0] == ","]
    ahead, behind = cell[: found.start()], cell[found.end() :]
    if cell.count(mark) > 1 or other in ahead:
        if grouped(cell, mark):
            return other
        return mark if grouped(ahead, other) else ""  # "": a date, an address
    if len(behind) != 3 or not 1 <= len(ahead) <= 3 or ahead == "0":
        return mark
    unsure.setdefault(mark, cell)
    return ""


def grouped(cell: str, mark: str) -> bool:
    """Whether a mark stands between groups of three digits, as in 1.234.567."""
    return re.fullmatch(rf"\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+", cell) is not None
