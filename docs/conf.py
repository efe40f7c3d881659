"""Configuration of Sphinx; `make docs` builds the pages."""

import shutil
from importlib.metadata import version as installed
from pathlib import Path

from kvariates.report.choice_tables import restructured_text

HERE = Path(__file__).resolve().parent
(HERE / "choice_tables.txt").write_text(restructured_text(), encoding="utf-8")  # for api.rst
# The proofs are beside the code that they are about; the pages are a copy.
shutil.rmtree(HERE / "proofs", ignore_errors=True)
shutil.copytree(HERE.parent / "src" / "kvariates" / "privacy" / "proofs", HERE / "proofs")

project = "kvariates"
author = "the kvariates developers"
copyright = "2026, the kvariates developers"
version = release = installed("kvariates")

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
autosummary_generate = True
numpydoc_show_class_members = False
templates_path = []
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # links to headings, as on GitHub

html_theme = "pydata_sphinx_theme"
html_title = "kvariates"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}


def _link_to_copied_proofs(_app, _page, source):
    """Pages link to the proofs beside the code, so that links work in the repository, too."""
    source[0] = source[0].replace("](../src/kvariates/privacy/proofs/", "](proofs/")


def setup(app):
    """Sphinx calls this."""
    app.connect("source-read", _link_to_copied_proofs)
