"""A text table on its way to pyarrow: what is checked, changed and left out, in one pass.

| step | what it does |
|---|---|
| `TextCheck` | refuses zero bytes, and a quotation mark without end |
| `TextPass` | single blanks, one encoding; no comments, no empty rows and no totals at the end |
"""

from __future__ import annotations

import csv
import re
from typing import Any

import numpy as np

from kvariates.sources.text_format import (
    COMMENT,
    MISSING,
    TextFormat,
    comments_left_out,
    one_byte_encoding,
)
from kvariates.sources.text_numbers import is_marked_number
from kvariates.sources.text_sniffing import MOST_LETTERS

QUOTE, LINE = b'"', b"\n"

TOTAL = re.compile(
    r"((grand|sub)[ -]?)?totals?|sum|summe|gesamt(summe)?|insgesamt|totale|somme|suma|ukupno",
    re.IGNORECASE,
)


class TextCheck:
    """Looks at the parts of a text, in UTF-8 and in their order. The empty part is the end of it.

    It returns each part as it is, and raises ValueError, which begins with `place` and says the
    line. `skip` lines come before the first row and are not looked at. A quotation mark counts only
    if it begins a cell, or ends one that began with it.
    """

    def __init__(self, delimiter: str, *, place: str = "", skip: int = 0) -> None:
        self._begins = list(f"\r\n{delimiter}".encode())  # what comes before a cell
        self._place, self._skip, self._lines = place, skip, 0
        self._last = LINE[0]  # the byte before this part
        self._inside = False  # whether this part begins inside of quotation marks
        self._closed = False  # whether the last byte was a mark that ended a cell
        self._opened = 0  # the line of the mark that began the last such cell

    def __call__(self, part: Any) -> Any:
        text = self._rows(bytes(part))
        if (zero := text.find(b"\0")) >= 0:
            raise self._error(self._line(text, zero), "holds a zero byte, so it is not text")
        if QUOTE in text:
            self._look(text)
        elif text:
            self._closed = False
        if text:
            self._lines, self._last = self._lines + text.count(LINE), text[-1]
        if not part and self._inside:
            raise self._error(self._opened, "a quotation mark is not closed")
        return part

    def _rows(self, text: bytes) -> bytes:
        """The text without lines that come before the first row."""
        at = 0
        while self._skip and (end := text.find(LINE, at)) >= 0:
            at, self._skip, self._lines = end + 1, self._skip - 1, self._lines + 1
        return b"" if self._skip else text[at:]

    def _look(self, text: bytes) -> None:
        """Follow the quotation marks."""
        content = np.frombuffer(text, np.uint8)
        marks = np.flatnonzero(content == QUOTE[0])
        begins = np.isin(np.append(np.uint8(self._last), content)[marks], self._begins)
        doubled = np.diff(marks, prepend=-1 if self._closed else -2) == 1
        out = slice(int(self._inside), None, 2)  # marks outside of cells, if no other is among them
        if (begins[out] | doubled[out]).all():
            opened = marks[out][~doubled[out]]
            last = int(opened[-1]) if opened.size else -1
            self._inside ^= len(marks) % 2 == 1
            self._closed = not self._inside
        else:
            last = self._follow(begins.tolist(), doubled.tolist(), marks)
        if last >= 0:
            self._opened = self._line(text, last)
        self._closed &= int(marks[-1]) == len(text) - 1

    def _follow(self, begins: list[bool], doubled: list[bool], marks: Any) -> int:
        """One mark after the other. Returns where the last cell begins; -1: in an earlier part."""
        last = -1
        for i, (begin, double) in enumerate(zip(begins, doubled, strict=True)):
            if self._inside:
                self._inside, self._closed = False, True
                continue
            self._inside = begin or (double and self._closed)
            if self._inside and not (double and self._closed):
                last = int(marks[i])
            self._closed = False  # a mark inside of a cell is text
        return last

    def _line(self, text: bytes, at: int) -> int:
        return self._lines + text.count(LINE, 0, at) + 1

    def _error(self, line: int, what: str) -> ValueError:
        return ValueError(f"{self._place}line {line}: {what}")


class TextPass:
    """One pass over a text table; `how` says how it is written.

    It takes the parts of the text, in UTF-8 and in their order; the empty part is the end of it.
    It returns what is to be read, later than it was given: the last line is held back. Cells that
    are separated by blanks get a single one between them. Lines that are not UTF-8, although the
    beginning was, are read as Windows writes them; with `strict` they are an error.

    pyarrow asks it about rows with another number of cells than the table: comments are left out,
    others are an error.
    """

    def __init__(
        self, how: TextFormat, place: str, *, strict: bool = False, first: int = 0
    ) -> None:
        self.how, self._strict = how, strict
        self._check = TextCheck(how.delimiter, place=f"{place}: ", skip=how.skip)
        self._comments: list[int | None] = []  # to append is safe in threads
        self._first = first
        self.hexadecimal = False  # whether a number in the `first` bytes may be
        self._nothing = b" \t\r\n" + how.delimiter.encode()
        self._held, self._lines, self._ended = b"", 0, False
        self._empty, self._total, self._encoding = 0, "", ""

    def __call__(self, part: Any) -> bytes:
        text = self._rows(bytes(self._check(part)))
        if self._first > 0:  # pyarrow reads ahead: later bytes may have come or not
            seen, self._first = text[: self._first], self._first - len(text)
            self.hexadecimal = self.hexadecimal or b"0x" in seen or b"0X" in seen
        return text

    def _rows(self, part: bytes) -> bytes:
        """The lines that are complete now, as they are to be read."""
        if self._ended:  # pyarrow asks again
            return b""
        self._ended = not part
        text = self._held + part
        full = len(text.rstrip(self._nothing))
        start = max(text.rfind(b"\n", 0, full), text.rfind(b"\r", 0, full)) + 1
        ready, self._held = text[:start], text[start:]
        self._lines += ready.count(b"\n") + ready.count(b"\r") - ready.count(b"\r\n")
        if self._ended:
            ready, self._held = ready + self._last_line(full - start), b""
        ready = self._utf8(ready)
        if self.how.delimiter != " ":
            return ready
        single = re.sub(rb"[ \t]+", b" ", ready.replace(b"\r\n", b"\n"))
        return re.sub(rb"(?m)^ +| +$", b"", single)

    def _last_line(self, full: int) -> bytes:
        """The line that was held back, if it is a row, without the empty rows below it."""
        held = self._held
        found = re.compile(rb"\r\n|\n|\r").search(held, full)
        line, below = (held[: found.end()], held[found.end() :]) if found else (held, b"")
        self._empty = sum(1 for row in below.splitlines() if row.strip())
        if self._lines > self.how.skip and _is_total(line, self.how.delimiter):
            self._total = line.decode("utf-8", "replace").strip()
            return b""
        return line

    def _utf8(self, text: bytes) -> bytes:
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            if self._strict:
                raise
            self._encoding = one_byte_encoding(text)
            return text.decode(self._encoding).encode("utf-8")
        return text

    def odd_row(self, row: Any) -> str:
        """What pyarrow does with a row of another number of cells."""
        if not row.text.startswith(COMMENT):
            return "error"
        self._comments.append(row.number)
        return "skip"

    def row(self, line: int) -> int:
        """The number of a row, by its line as pyarrow counts them without threads."""
        before = sum(number is not None and number < line for number in self._comments)
        return line - self.how.skip - before

    def remarks(self) -> list[str]:
        """What was left out, in lines for the user."""
        said = [comments_left_out(len(self._comments))] if self._comments else []
        if self._encoding:
            said.append(f"lines that are not UTF-8 read as {self._encoding}")
        if self._empty:
            rows = "1 empty row" if self._empty == 1 else f"{self._empty} empty rows"
            said.append(f"{rows} at the end left out")
        if self._total:
            said.append(f"the last row left out, as totals: {self._total}")
        return said


def _is_total(line: bytes, delimiter: str) -> bool:
    """Whether a line names a total, and has only numbers or nothing beside it."""
    try:
        text = [line.decode("utf-8", "replace")]
        cells = next(csv.reader(text, delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return False
    first, *others = [cell.strip() for cell in cells if cell.strip() not in MISSING] or [""]
    return bool(TOTAL.fullmatch(first.rstrip(": "))) and all(map(is_marked_number, others))


def uneven_row(lines: Any, how: TextFormat) -> str | None:
    """The first row with another number of cells than there are columns, in words.

    Pre: `lines` begins with the first row.
    """
    reader = csv.reader(lines, delimiter=how.delimiter)
    width, row = len(how.names), 0
    csv.field_size_limit(MOST_LETTERS)
    try:
        for cells in reader:
            if not cells or (len(cells) != width and cells[0].startswith(COMMENT)):
                continue
            row += 1
            if len(cells) != width:
                number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
                return (
                    f"row {row} (line {how.skip + reader.line_num}) has {number}, and there are "
                    f"{width} columns; correct the line, or give --delimiter if "
                    f"{how.delimiter!r} is not the delimiter"
                )
    except csv.Error as error:
        return f"line {how.skip + reader.line_num}: {error}"
    return None
