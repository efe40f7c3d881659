"""Every proof page names its data sets, and every method has a page."""

import inspect
import re
from pathlib import Path

import pytest
from api import PRIVATE_METHODS

from kvariates import privacy

PAGES = sorted((Path(inspect.getfile(privacy)).parent / "proofs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_the_metric_of_data_sets(page):
    text = page.read_text(encoding="utf-8")
    assert re.search(r"Data sets(\*\*)? are multisets of rows", text)
    assert "composition.md" in text or page.stem == "composition"


def test_every_method_has_a_page():
    names = {page.name for page in PAGES}
    assert {entry.theorem for entry in PRIVATE_METHODS.values()} <= names
