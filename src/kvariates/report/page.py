"""One HTML page that needs no network: sections of text and figures, with its own style and code.

A Content-Security-Policy allows the page's own style and script, by their hashes, and pictures in
the page. So there are no `style` attributes; SVG attributes such as `fill` and `width` are allowed.
Every text that comes from data goes through `text`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from kvariates.palette import LONGEST_NAME, PALETTE, cut, lighter

MINUS = "\u2212"
CONTROLS = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421}
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # categories of characters
JOINERS = "\u200c\u200d"  # of letters, in some scripts
MOST_TICK_LETTERS = 24  # of the labels of an axis, for which page.css leaves room
LIGHT = {
    "paper": "#fdfcfa", "card": "#ffffff", "ink": "#1f242d", "soft": "#5d6573", "faint": "#8b92a0",
    "line": "#e4e2dc", "wash": "#f4f2ed", "accent": "#2a63a8", "good": "#14716f", "bad": "#a8322f",
    "above": "193 98 20", "below": "46 104 178",
}  # fmt: skip
DARK = {
    "paper": "#12161e", "card": "#191e28", "ink": "#e9ebf0", "soft": "#a7afbd", "faint": "#7d8696",
    "line": "#2b3240", "wash": "#1e2430", "accent": "#8db9f0", "good": "#6fcbc2", "bad": "#f0918c",
    "above": "232 149 74", "below": "98 158 236",
}  # fmt: skip
OPTIONS = ("init", "algorithm", "metric", "n_init", "size_min", "size_max", "certify", "missing")
PARAMETER = re.compile(rf"\b({'|'.join(OPTIONS)})=(?:'([^']*)'|(True)\b|(\d+))")
REFUSED = re.compile(r"The '(\w+)' parameter of \w+ must be")  # of scikit-learn
OTHERS = (
    (r"\bk_range\b", "-k"),
    (r"\bgroup_sizes\b", "--group-sizes"),
    (r"\b(must|cannot)_link\b", r"--\1-link"),
    (r"\bn_clusters=(?=\d)", "-k "),
    (r"\bn_clusters\b", "-k"),
    (r"\brandom_state\b", "--seed"),
    (r"\bsize_(min|max)\b", r"--size-\1"),
    (r"\binertia_", "the inertia"),
    (r"\bits the inertia", "its inertia"),
    (r"\bcertificate_", "the certificate"),
)


@dataclass(frozen=True)
class Section:
    """A part of a page. `html` is trusted: texts from data in it went through `text`."""

    id: str
    title: str
    html: str


def page_html(title: str, lead: str, sections: Iterable[Section]) -> str:
    """The whole page. `title` and `lead` are plain texts."""
    style, script = _style(), _read("page.js") + _read("scatter.js")
    hashes = [in_base64(hashlib.sha256(words.encode()).digest()) for words in (style, script)]
    policy = (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    shown = [section for section in sections if section.html]
    links = "".join(f'<a href="#{text(s.id)}">{text(s.title)}</a>' for s in shown)
    parts = "".join(
        f'<section id="{text(s.id)}"><h2>{text(s.title)}</h2>{s.html}</section>\n' for s in shown
    )
    return Template(_read("page.html")).substitute(
        policy=policy, style=style, script=script, title=text(title), lead=text(lead),
        links=links, sections=parts,
    )  # fmt: skip


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def text(value: Any) -> str:
    """A text from anywhere, for HTML text and for attributes in double quotes."""
    return html.escape(visible(str(value)), quote=True)


def visible(words: str) -> str:
    """Replace what would not be seen or would change the text around it.

    Control characters become their pictures (U+2400 ...); marks of the direction of text, other
    invisible characters and halves of surrogate pairs become U+FFFD.
    """
    if words.isascii() and words.isprintable():
        return words
    return "".join(
        "\ufffd" if unicodedata.category(letter) in HIDDEN and letter not in JOINERS else letter
        for letter in words.translate(CONTROLS)
    )


def number(value: float, digits: int = 4) -> str:
    """A number for readers: so many significant digits, at least all before the decimal point."""
    value = float(value)
    if not math.isfinite(value):
        return "∞" if value > 0 else MINUS + "∞" if value < 0 else "unknown"
    size, power = abs(value), ""
    if value == int(value) and size < 1e15:
        words = f"{int(value):,}"
    elif size >= 1e15 or size < 1e-4:
        words, power = f"{value:.{digits - 1}e}".split("e")
        power = f"e{power}"
    else:
        words = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"
    words = words.rstrip("0").rstrip(".") if "." in words else words
    return f"{words}{power}".replace("-", MINUS)


def number_within(value: float, width: float) -> str:
    """A number with digits enough to place it within a range of this width."""
    if not 0 < width < math.inf or not 0 < abs(value) < math.inf:
        return number(value)
    more = math.floor(math.log10(abs(value))) - math.floor(math.log10(width))
    return number(value, min(max(4, 4 + more), 15))


def counted(n: int, what: str) -> str:
    """A number and its noun, such as "1 row" and "2 rows"; `what` is in the plural."""
    return f"{n:,} {what[:-1] if n == 1 else what}"


def paragraph(words: str, kind: str = "") -> str:
    """A plain text as a paragraph."""
    return f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"


def short(words: str, most: int = LONGEST_NAME) -> str:
    """A plain text as HTML; of a long one the beginning, with the whole one as its title."""
    if len(words) <= most:
        return text(words)
    return f'<span title="{text(words)}">{text(cut(words, most))}</span>'


def promise_box(words: str) -> str:
    """A promise in plain words: a paragraph for each line, or for lines that a comma joins."""
    whole = words.replace(",\n", ", ")  # a sentence that goes on in the next line
    lines = "".join(paragraph(line) for line in whole.splitlines() if line.strip())
    return f'<div class="promise">{lines}</div>'


def preformatted(words: str, kind: str = "") -> str:
    """A text of several lines, each of them made visible."""
    lines = "\n".join(text(line) for line in words.splitlines())
    return f'<pre class="{kind}">{lines}</pre>' if kind else f"<pre>{lines}</pre>"


def scrolled(html: str, name: str, kind: str = "") -> str:
    """A table that scrolls: the keyboard reaches it, and screen readers say its name."""
    return (
        f'<div class="{f"scroll {kind}".strip()}" tabindex="0" role="region" '
        f'aria-label="{text(name)}">{html}</div>'
    )


def table(header: Sequence[str], rows: Iterable[Iterable[str]], kind: str = "") -> str:
    """A table of plain texts. A column whose cells all look like numbers is aligned right."""
    cells = [[text(cell) for cell in row] for row in rows]
    kinds = [' class="n"' * all(map(_numeric, column)) for column in zip(*cells, strict=True)]

    def row(tag: str, start: str, words: Iterable[str]) -> str:
        pairs = zip(words, kinds or [' class="n"'] * len(header), strict=True)
        return f"<tr>{''.join(f'<{start}{kind}>{word}</{tag}>' for word, kind in pairs)}</tr>"

    head = row("th", 'th scope="col"', map(text, header))
    body = "".join(row("td", "td", line) for line in cells)
    whole = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return scrolled(whole, f"Table: {', '.join(header)}", kind)


def _numeric(word: str) -> bool:
    return word in ("", "-") or word.lstrip(f"{MINUS}-+~").replace(",", "")[:1].isdigit()


def in_base64(content: bytes) -> str:
    """Bytes as letters."""
    return base64.b64encode(content).decode("ascii")


@cache
def _style() -> str:
    """page.css with the colours of both themes. Printing is always light."""
    light, dark = _colors(LIGHT, PALETTE), _colors(DARK, tuple(map(lighter, PALETTE)))
    clusters = "".join(f".k{i}{{--c:var(--k{i})}}" for i in range(len(PALETTE)))
    letters = range(1, MOST_TICK_LETTERS + 1)
    room = "".join(f".chart.l{n}{{padding-left:{0.44 * n + 1.1:.2f}rem}}" for n in letters)
    return (
        f":root{{{light};color-scheme:light}}"
        f"@media(prefers-color-scheme:dark){{:root{{{dark};color-scheme:dark}}}}"
        f":root[data-theme=light]{{{light};color-scheme:light}}"
        f":root[data-theme=dark]{{{dark};color-scheme:dark}}"
        f"@media print{{:root:root:root{{{light};color-scheme:light}}}}{clusters}\n"
        + room
        + _read("page.css")
    )


def _colors(theme: dict[str, str], palette: Iterable[str]) -> str:
    named = [f"--{name}:{color}" for name, color in theme.items()]
    return ";".join(named + [f"--k{i}:{color}" for i, color in enumerate(palette)])


def as_options(words: str) -> str:
    """Replace parameters, such as init='d2', by options of the command, such as --init d2."""
    words = PARAMETER.sub(_option, REFUSED.sub(_refused, words))
    for pattern, other in OTHERS:
        words = re.sub(pattern, other, words)
    return words


def _refused(found: re.Match[str]) -> str:
    name = {"n_clusters": "-k", "n_groups": "-g", "random_state": "--seed"}.get(found[1])
    return f"{name or '--' + found[1].replace('_', '-')} must be"


def _option(found: re.Match[str]) -> str:
    name, word, true, digits = found.groups()
    option = f"--{name.replace('_', '-')}"
    return option if true else f"{option} {digits or shlex.quote(word)}"
