"""How Sphinx builds these pages: `make docs`."""

from importlib.metadata import version as installed

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
