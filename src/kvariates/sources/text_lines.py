"""Lines of a text table as pyarrow reads them: single blanks, and no end as spreadsheets write it.

In memory and in blocks the same lines are left out at the end: rows without any value, and a row of
totals above them.
"""

from __future__ import annotations

import csv
import re
from typing import Any

from kvariates.sources.text_format import MISSING
from kvariates.sources.text_sniffing import is_marked_number

TOTAL = re.compile(
    r"((grand|sub)[ -]?)?totals?|sum|summe|gesamt(summe)?|insgesamt|totale|somme|suma|ukupno",
    re.IGNORECASE,
)


class TextLines:
    """Takes the parts of a text, in UTF-8 and in their order. The empty part is the end of it.

    It returns what is to be read, later than it was given: the last line is held back. `skip` lines
    come before the first row. Cells that are separated by blanks get a single one between them.
    """

    def __init__(self, delimiter: str, *, skip: int = 0) -> None:
        self._delimiter, self._skip = delimiter, skip
        self._nothing = b" \t\r\n" + delimiter.encode()
        self._held, self._lines = b"", 0
        self._empty, self._total = 0, ""

    def __call__(self, part: Any) -> bytes:
        text = self._held + bytes(part)
        full = len(text.rstrip(self._nothing))
        start = max(text.rfind(b"\n", 0, full), text.rfind(b"\r", 0, full)) + 1
        ready, self._held = text[:start], text[start:]
        self._lines += ready.count(b"\n") + ready.count(b"\r") - ready.count(b"\r\n")
        if not part:
            ready, self._held = ready + self._last_line(full - start), b""
        if self._delimiter != " ":
            return ready
        single = re.sub(rb"[ \t]+", b" ", ready.replace(b"\r\n", b"\n"))
        return re.sub(rb"(?m)^ +| +$", b"", single)

    def _last_line(self, full: int) -> bytes:
        """The line that was held back, if it is a row, without the empty rows below it."""
        end = self._held.find(b"\n", full) + 1
        line, below = (self._held[:end], self._held[end:]) if end else (self._held, b"")
        self._empty = sum(1 for row in below.split(b"\n") if row.strip())
        if self._lines > self._skip and _is_total(line, self._delimiter):
            self._total = line.decode("utf-8", "replace").strip()
            return b""
        return line

    def remarks(self) -> list[str]:
        """What was left out, in lines for the user."""
        said = []
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
