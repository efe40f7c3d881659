"""Finds what pyarrow's readers of CSV pass over: zero bytes, and a quotation mark without end."""

from __future__ import annotations

from typing import Any

QUOTE, LINE = b'"', b"\n"


class TextCheck:
    """Looks at the parts of a text, in UTF-8 and in their order. The empty part is the end of it.

    It returns each part as it is, and raises ValueError, which begins with `place` and says the
    line. `skip` lines come before the first row and are not looked at; `lines` come before the
    first part.
    """

    def __init__(self, delimiter: str, *, place: str = "", skip: int = 0, lines: int = 0) -> None:
        self._begin = (b"", LINE, delimiter.encode())  # what comes before a cell
        self._place, self._skip, self._lines = place, skip, lines
        self._last = b""  # the byte before this part
        self._odd = False  # whether the number of quotation marks is odd
        self._open = 0  # the line of the last mark, if it may begin a cell

    def __call__(self, part: Any) -> Any:
        text = bytes(part)
        if not text and self._odd and self._open:
            raise self._error(self._open, "a quotation mark is not closed")
        self._look(self._rows(text))
        return part

    def _rows(self, text: bytes) -> bytes:
        """The text without lines that come before the first row."""
        at = 0
        while self._skip and (end := text.find(LINE, at)) >= 0:
            at, self._skip, self._lines = end + 1, self._skip - 1, self._lines + 1
        return b"" if self._skip else text[at:]

    def _look(self, text: bytes) -> None:
        if (zero := text.find(b"\0")) >= 0:
            raise self._error(self._line(text, zero), "holds a zero byte, so it is not text")
        if (quote := text.rfind(QUOTE)) >= 0:
            self._odd ^= text.count(QUOTE) % 2 == 1
            before = text[quote - 1 : quote] if quote else self._last
            self._open = self._line(text, quote) if before in self._begin else 0
        self._lines += text.count(LINE)
        self._last = text[-1:] or self._last

    def _line(self, text: bytes, at: int) -> int:
        return self._lines + text.count(LINE, 0, at) + 1

    def _error(self, line: int, what: str) -> ValueError:
        return ValueError(f"{self._place}line {line}: {what}")
