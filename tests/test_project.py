"""The documentation is true: versions agree, and the files that it names exist.

Its code runs in `tests/docs`.
"""

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from api import PRIVATE_KMEDIAN_METHODS, PRIVATE_METHODS, Table
from choice_tables import CHOICE_TABLES, restructured_text

import kvariates

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]
PLANNED = {"dask.py", "federated.py"}
PROOFS = ROOT / "src" / "kvariates" / "privacy" / "proofs"


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_all_versions_agree():
    version = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert kvariates.__version__ == version
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    assert f"\n## {version} " in text("CHANGELOG.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page):
    """A link is relative to the page, the name of a file is relative to the root or the package."""
    links = re.findall(r"\]\(([\w./-]+)\)", text(page))
    assert {link for link in links if not (ROOT / page).parent.joinpath(link).exists()} == set()
    named = set(re.findall(r"`([\w/]+\.(?:py|pyi|cpp|hpp|md))`", text(page))) - PLANNED
    folders = (ROOT, ROOT / "src" / "kvariates")
    assert {name for name in named if not any((f / name).exists() for f in folders)} == set()


def test_the_api_page_has_every_entry_of_every_table():
    modules = [m.name for m in pkgutil.walk_packages(kvariates.__path__, "kvariates.")]
    values = [v for name in modules for v in vars(importlib.import_module(name)).values()]
    tables = {id(v): v for v in values if isinstance(v, Table)}
    parts = (getattr(table, "table", table) for table in CHOICE_TABLES.values())  # of SEEDINGS
    assert set(tables) == {id(table) for table in parts}
    names = {name for table in tables.values() for name in table}
    assert {name for name in names if f'* - ``"{name}"``' not in restructured_text()} == set()


def test_the_page_on_privacy_has_every_method_and_the_proofs_exist():
    page = text("docs/private.md")
    named = re.findall(r'^\| `"([a-z-]+)"` \|.*/proofs/', page, flags=re.MULTILINE)
    assert {*named, "auto"} == set(PRIVATE_METHODS)
    linked = [str(entry.theorem) for entry in PRIVATE_METHODS.values()]
    for entry in PRIVATE_METHODS.values():  # a condition that is not checked loses the theorem
        assert (entry.lost is not None) == bool(entry.run.traits.missing)
    linked += [str(entry.theorem) for entry in PRIVATE_KMEDIAN_METHODS.values()]
    for proof in PROOFS.glob("*.md"):
        linked += re.findall(r"\]\((\w+\.md)\)", proof.read_text(encoding="utf-8"))
    assert {name for name in linked if not (PROOFS / name).exists()} == set()


@pytest.mark.parametrize("package", ["kmedoids", "igraph", "phe", "genieclust"])
def test_gpl_packages_are_used_in_benchmarks_only(package):
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    lists = {"": project["dependencies"], **extras}
    found = {name for name, needs in lists.items() if any(n.startswith(package) for n in needs)}
    assert found <= {"bench"}
    assert not any("bench" in need for need in extras["all"])


def test_every_target_of_the_makefile_is_explained():
    makefile = text("Makefile")
    targets = re.search(r"\.PHONY: (.*)", makefile)[1].split()
    for target in targets:
        assert target == "help" or f'@echo "make {target} ' in makefile
