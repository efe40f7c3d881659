"""Every proof page names its data sets and the code it is about, and that code names the page."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from api import PRIVATE_KMEDIAN_METHODS, PRIVATE_METHODS

from kvariates import privacy

PACKAGE = Path(inspect.getfile(privacy)).parents[1]
PAGES = sorted((PACKAGE / "privacy" / "proofs").glob("*.md"))
MARK = re.compile(r"# proof: (\w+\.md)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_the_metric_of_data_sets(page):
    text = page.read_text(encoding="utf-8")
    assert re.search(r"Data sets(\*\*)? are multisets of rows", text)
    assert "composition.md" in text or page.stem == "composition"


def marked():
    """For each page the functions and classes right below a comment `proof: page`."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        places = {i: page for i, line in enumerate(lines, 1) if (page := MARK.fullmatch(line))}
        nodes = ast.parse(source).body if places else []
        for node in nodes:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                above = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
                while above in places:
                    page = places.pop(above)[1]
                    found.setdefault(page, set()).add(f"{path.stem}.{node.name}")
                    above -= 1
        assert not places, f"{path.name}: a mark is not right above a function or a class"
    return found


def test_a_page_names_the_code_it_proves_and_the_code_names_the_page():
    titles = {page.name: page.read_text(encoding="utf-8").split("\n")[0] for page in PAGES}
    assert marked() == {name: set(re.findall(r"`(.+?)`", title)) for name, title in titles.items()}


def test_every_method_has_a_page_that_is_about_it():
    marks = marked()
    for entry in [*PRIVATE_METHODS.values(), *PRIVATE_KMEDIAN_METHODS.values()]:
        kind = type(entry.run)
        assert f"{kind.__module__.split('.')[-1]}.{kind.__name__}" in marks[entry.theorem]
