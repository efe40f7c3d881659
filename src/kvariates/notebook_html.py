"""HTML for notebooks: a title, lines of text and a table.

All text is escaped. There are no colours but those of the page, so light and dark pages both work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 50  # of a table; more are counted
BOX = (
    "margin:0.3em 0;padding:0.5em 0.8em;border:1px solid currentColor;border-radius:4px;"
    "display:inline-block;max-width:100%;overflow-x:auto;color:inherit;background:transparent;"
    "font-size:90%;line-height:1.4"
)
TABLE = "border-collapse:collapse;margin-top:0.4em;color:inherit;background:transparent"
CELL = "padding:0.1em 0.7em;text-align:right;border-top:1px solid currentColor;color:inherit"


def boxed(
    title: str, lines: Iterable[str] = (), headings: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (), marked: int | None = None,
) -> str:  # fmt: skip
    """A box with a title, a line of text for each of `lines`, and a table if there are rows.

    The row of number `marked` is bold.
    """
    parts = [f"<strong>{escape(title)}</strong>", *(f"<div>{escape(line)}</div>" for line in lines)]
    if rows:
        shown = enumerate(rows[:MOST_ROWS])
        body = "".join(_row(words, "td", bold=i == marked) for i, words in shown)
        if (left := len(rows) - MOST_ROWS) > 0:
            body += f'<tr><td colspan="{len(headings)}">and {left:,} more</td></tr>'
        head = f"<thead>{_row(headings, 'th', bold=True)}</thead>"
        parts.append(f'<table style="{TABLE}">{head}<tbody>{body}</tbody></table>')
    return f'<div class="kvariates" style="{BOX}">{"".join(parts)}</div>'


def shortened(text: str, most: int) -> str:
    """The text, cut to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def few(values: Sequence[object], most: int = 6) -> str:
    """Values in brackets: the first ones if they are many."""
    words = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values[:most]]
    return f"[{', '.join([*words, '...'] if len(values) > most else words)}]"


def _row(words: Sequence[str], tag: str, *, bold: bool) -> str:
    style = f"{CELL};font-weight:bold" if bold else CELL
    return "<tr>" + "".join(f'<{tag} style="{style}">{escape(w)}</{tag}>' for w in words) + "</tr>"
