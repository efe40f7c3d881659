"""Finds the code of a page: fenced blocks, commands after a `$`, and commands inside a sentence."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
INLINE = re.compile(
    r"(?<!`)`((?:kvariates [a-z-]|make [a-z]|python (?:-m )?[a-z])[^`\n]*(?:\n[^`\n]+)?)`"
)


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    found = FENCE.finditer(text(page))
    return [Block(page, m["language"].strip(), m["text"]) for m in found]


def python_blocks(page: str, language: str = "python") -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


def shell_commands(page: str) -> list[list[str]]:
    """The words of every command of the page, without comments."""
    lines = [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language == "console"
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]
    prose = FENCE.sub("", text(page))
    lines += [" ".join(match[1].split()) for match in INLINE.finditer(prose)]
    return [shlex.split(line, comments=True) for line in lines]
