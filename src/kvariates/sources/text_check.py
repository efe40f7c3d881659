"""Finds what pyarrow's readers of CSV pass over: zero bytes, and a quotation mark without end."""

from __future__ import annotations

from typing import Any

import numpy as np

QUOTE, LINE = b'"', b"\n"


class TextCheck:
    """Looks at the parts of a text, in UTF-8 and in their order. The empty part is the end of it.

    It returns each part as it is, and raises ValueError, which begins with `place` and says the
    line. `skip` lines come before the first row and are not looked at; `lines` come before the
    first part. A quotation mark counts only if it begins a cell, or ends one that began with it.
    """

    def __init__(self, delimiter: str, *, place: str = "", skip: int = 0, lines: int = 0) -> None:
        self._begins = list(f"\r\n{delimiter}".encode())  # what comes before a cell
        self._place, self._skip, self._lines = place, skip, lines
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
