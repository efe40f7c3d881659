"""How a text table is written: its encoding, delimiter, decimal mark and names.

What was found (`text_sniffing.py`) can be said in one line, and each part can be given instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "blanks"}
BY_NAME = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}
COMMENT = "#"
HINT = (
    "--skip N leaves out lines before the table, --delimiter and --decimal say how it is written, "
    "--na WORD which cells are missing"
)  # for a table without numbers
MISSING = frozenset({  # in place of a number
    "", "NA", "N/A", "n/a", "na", "#N/A", "#NA", "NaN", "nan", "NAN", "-NaN", "-nan", "NULL",
    "null", "Null", "(null)", "None", "none", "NONE", "missing", "-", "--", "?", ".", "\\N",
    "#VALUE!", "#DIV/0!", "#REF!", "#NAME?", "#NUM!", "1.#QNAN", "-1.#IND", "#N/A N/A",
})  # fmt: skip


@dataclass(frozen=True)
class TextOptions:
    """What the caller knows about a text file. None: it is found out.

    Attributes
    ----------
    delimiter, decimal, encoding : str or None
    header : bool or None
        Whether the table begins with names.
    na : tuple of str
        Cells that are read as missing, as they are written, beside the usual ones.
    skip : int
        Lines before the table that are left out.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None
    na: tuple[str, ...] = ()
    skip: int = 0

    @property
    def missing(self) -> frozenset[str]:
        """The cells that say that a value is missing."""
        return MISSING | {word.strip() for word in self.na}

    def __post_init__(self) -> None:
        if self.skip < 0:
            raise ValueError(f"the number of lines to skip must be 0 or more, not {self.skip}")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", BY_NAME.get(self.delimiter, self.delimiter))
            plain = len(self.delimiter) == 1 and self.delimiter.isascii()
            if not plain or self.delimiter in '"\r\n\0':
                raise ValueError(
                    f"the delimiter must be one ASCII character, not {self.delimiter!r}"
                )
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"the decimal mark must be '.' or ',', not {self.decimal!r}")
        if self.decimal == self.delimiter == ",":
            raise ValueError("the delimiter and the decimal mark cannot both be ','")
        if self.encoding is not None:
            try:
                b"1,2\n\xe9".decode(self.encoding, "replace")
            except (LookupError, UnicodeError):
                raise ValueError(f"{self.encoding!r} is no known encoding") from None


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written."""

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]  # x0, x1, ... if the file does not name its columns
    header: bool  # whether the file names them
    skip: int  # lines before the first row: the names, comments, and what else stands there
    before: int = 0  # how many of these are neither names nor comments
    ambiguous: str = ""  # a number that could be read in two ways
    comments: int = 0  # lines before the first row that begin with #, without that of the names
    decimal_shown: bool = True  # by the beginning of the file
    missing: frozenset[str] = MISSING  # the cells that say that a value is missing
    units: str = ""  # the row of units below the names, which is left out

    def words(self) -> str:
        """What was found, in one line; empty for a plain CSV file."""
        other = "." if self.decimal == "," else ","
        said = {
            f"cells are separated by {WORDS.get(self.delimiter, repr(self.delimiter))}": (
                self.delimiter != "," and len(self.names) > 1
            ),
            "decimal commas": self.decimal == ",",
            f"encoding {self.encoding}": self.encoding not in ("utf-8", "ascii"),
            "no line of names (--header if there is one)": not self.header,
            f"{self.before} line{'s' * (self.before > 1)} before the table left out": self.before,
            f"the row below the names left out, as units: {self.units}": self.units,
            f"{comments_left_out(self.comments)} before the first row": self.comments,
            f"{self.ambiguous} is read with the decimal mark {self.decimal!r} "
            f"(--decimal {other!r} reads it otherwise)": self.ambiguous,
        }
        return "; ".join(words for words, holds in said.items() if holds)


def comments_left_out(n: int) -> str:
    """Words about comments."""
    return f"{n:,} {'comment' if n == 1 else 'comments'} left out"


def find_encoding(data: bytes, whole: bool) -> str:
    """The encoding of a text that begins with `data`; `whole`: it is the whole text.

    Raises ValueError if it is no text.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        return "utf-8"
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in data:
        raise ValueError(
            "is not a text file: it holds zero bytes (for UTF-16 give --encoding utf-16-le or -be)"
        )
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if whole or error.start < len(data) - 4:  # otherwise the sample ends inside a character
            return one_byte_encoding(data)
    return "utf-8"


def one_byte_encoding(data: bytes) -> str:
    """That of Windows in western Europe, unless it does not know one of these bytes."""
    return "latin-1" if re.search(rb"[\x81\x8d\x8f\x90\x9d]", data) else "cp1252"
