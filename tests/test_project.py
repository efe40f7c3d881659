"""The documentation is true: versions agree, examples run, and links lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

import kvariates
from kvariates.private_methods.methods import PRIVATE_METHODS

ROOT = Path(__file__).resolve().parents[1]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_all_versions_agree():
    version = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert kvariates.__version__ == version
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    assert f"\n## {version} " in text("CHANGELOG.md")


PAGES = ["README.md", "docs/quickstart.md", "docs/kmedian.md", "docs/private.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    """The code blocks of a page share their variables."""
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", text(page), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, names)


def test_the_page_on_privacy_has_every_method_and_its_proofs_exist():
    page, folder = text("docs/private.md"), ROOT / "src" / "kvariates" / "privacy" / "proofs"
    named = re.findall(r'^\| `"([a-z-]+)"` \|.*\]\(proofs/', page, flags=re.MULTILINE)
    assert {*named, "auto"} == set(PRIVATE_METHODS)
    linked = re.findall(r"\]\(proofs/(\w+\.md)\)", page)
    for proof in folder.glob("*.md"):
        linked += re.findall(r"\]\((\w+\.md)\)", proof.read_text(encoding="utf-8"))
    assert {name for name in linked if not (folder / name).exists()} == set()


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
