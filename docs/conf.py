"""Configuration of Sphinx; `make docs` builds the pages and runs the examples."""

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import api_page  # noqa: E402
import benchmark_pages  # noqa: E402

import kvariates  # noqa: E402

api_page.write(HERE)
benchmark_pages.write(HERE)
# The proofs are beside the code that they are about; the pages are a copy.
shutil.rmtree(HERE / "proofs", ignore_errors=True)
shutil.copytree(ROOT / "src" / "kvariates" / "privacy" / "proofs", HERE / "proofs")

project = "kvariates"
author = "the kvariates developers"
copyright = "2026, the kvariates developers"
version = release = kvariates.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "*_example", "gallery/*.md5", "sg_execution_times.rst"]
autosummary_generate = ["api.rst", "public_names.rst"]
numpydoc_show_class_members = False
templates_path = []
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # links to headings, as on GitHub

html_theme = "pydata_sphinx_theme"
html_title = "kvariates"
html_context = {"default_mode": "auto"}  # without it the theme logs an error
html_static_path = ["_static"]
html_css_files = ["front.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],  # an icon; a field would need a second line
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
html_sidebars = {"index": [], "quickstart": [], "benchmarks": []}

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",  # all of them run
    "ignore_pattern": r"sample_tables\.py",  # it writes files that commands read
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "image_srcset": ["2x"],
    "matplotlib_animations": False,
}

_LINKS = (  # a page links to files of the repository; the built pages have them elsewhere
    (r"\]\(\.\./src/kvariates/privacy/proofs/", "](proofs/"),
    (r"\]\(\.\./examples/([\w]+)\.py\)", r"](gallery/\1.rst)"),
    (r"\]\(\.\./examples\)", "](gallery/index.rst)"),
)


def _link_to_copies(_app, _page, source):
    """Links of a page work in the repository and, changed here, in the built pages."""
    for pattern, replacement in _LINKS:
        source[0] = re.sub(pattern, replacement, source[0])


def setup(app):
    """Sphinx calls this."""
    app.connect("source-read", _link_to_copies)
