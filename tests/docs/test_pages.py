"""Pages, proofs and examples hang together: links lead somewhere, and no page is left out."""

from __future__ import annotations

import ast
import re

import pytest
from docs.code_blocks import PAGES, ROOT, text

PROOFS = sorted((ROOT / "src" / "kvariates" / "privacy" / "proofs").glob("*.md"))
EXAMPLES = sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples/sample_tables.py"})
LINK = re.compile(r"\]\(([\w./-]+)?(#[^)\s]+)?\)")


def anchors(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,4} (.+)$", prose, flags=re.MULTILINE)
    named = re.findall(r"^\(([\w-]+)\)=$", page, flags=re.MULTILINE)
    return {slug(heading) for heading in headings} | set(named)


def slug(heading):
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, *(str(proof.relative_to(ROOT)) for proof in PROOFS)])
def test_links_lead_to_a_file_and_to_a_heading(page):
    here = (ROOT / page).resolve()
    lost = []
    for name, anchor in LINK.findall(text(page)):
        target = here.parent / name if name else here
        if not target.exists():
            lost.append(name)
        elif anchor and target.suffix == ".md" and anchor[1:] not in anchors(target.read_text()):
            lost.append(name + anchor)
    assert lost == []


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", text(page), flags=re.DOTALL):
            listed |= set(re.findall(r"^([\w/*]+)$", tree, flags=re.MULTILINE))
    pages = {path.stem for path in ROOT.glob("docs/*.md")} - {"index"}
    assert pages - listed == set()


def test_the_page_on_privacy_links_to_every_proof():
    linked = set(re.findall(r"/proofs/(\w+\.md)\)", text("docs/private.md")))
    assert {proof.name for proof in PROOFS} - linked == set()


def test_every_setting_has_its_theorem_and_says_when_not_to_use_it():
    for name in ("kmeans", "kmedian", "private", "larger_than_memory", "many_machines"):
        page = text(f"docs/{name}.md")
        assert re.search(r"^## The theorems? in plain words$", page, flags=re.MULTILINE)
        assert re.search(r"^##+ When (to use|not)", page, flags=re.MULTILINE)


def test_readme_is_short():
    assert len(text("README.md").splitlines()) < 120


def test_there_are_fifteen_examples():
    assert len(EXAMPLES) >= 15


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_and_a_picture(path):
    source = path.read_text(encoding="utf-8")
    title, line, *_ = ast.get_docstring(ast.parse(source)).splitlines()
    assert line == "=" * len(title)
    assert "plt.show()" in source
