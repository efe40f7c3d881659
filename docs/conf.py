"""How Sphinx builds these pages: `make docs`."""

import shutil
from importlib.metadata import version as installed
from pathlib import Path

# Proofs stand beside the code they are about; their pages are a copy.
HERE = Path(__file__).resolve().parent
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
myst_enable_extensions = ["colon_fence"]

html_theme = "pydata_sphinx_theme"
html_title = "kvariates"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
