"""Without the packages of an extra, kvariates works, and what needs them says what to install."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from api import MissingPackageError, needed

import kvariates

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_USERS = EXTRAS["all"][0].partition("[")[2].rstrip("]").split(",")
# sklearn, joblib and narwhals may come with them; pandas and polars are never required.
BASE = {"numpy", "scipy", "scikit-learn", "threadpoolctl"}

LINES = {
    "cli": "kvariates: The command kvariates needs typer",
    "plot": "The picture of a balance needs matplotlib",
    "private": "Noise for a private fit needs opendp",
    "private (releases)": "Noise for a private fit needs opendp",
    "private (cryptography)": "A secure sum of several parties needs cryptography",
    "dask": "kvariates.dask needs dask",
    "cuda": "device='cuda' needs cuda",
    "ray": "kvariates.ray needs ray",
    "federated": "kvariates.federated needs flwr",
    "files": "reading rows.csv needs pyarrow",
    "save": "Saving or loading a model needs skops",
    "river": "kvariates.river needs river",
}


def name_of(need):
    return re.match(r"[\w-]+", need)[0]


def packages_of(extra):
    return {name_of(need) for need in EXTRAS[extra]}


def named_by(extra):
    """The packages of an extra, and the extras of these packages, as distributed of Dask.

    The packages cuda-core and cuda-bindings are modules of `cuda`.
    """
    words = {word for need in EXTRAS[extra] for word in re.findall(r"[A-Za-z][\w-]*", need)}
    return words | {word.split("-")[0] for word in words}


@pytest.fixture(scope="module")
def blocked():
    """What a process says in which no package of an extra can be imported."""
    packages = {"pandas", "polars", "cuda"} | {p for extra in FOR_USERS for p in packages_of(extra)}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "without_extras.py", *sorted(packages)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(kvariates.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("extra", LINES)
def test_what_needs_an_extra_says_what_to_install(blocked, extra):
    name = extra.partition(" ")[0]
    install = f"pip install 'kvariates[{name}]' (in a checkout: '.[{name}]')"
    said = blocked["lines"][extra].removesuffix("\n")
    assert said == f"{LINES[extra]}, which is not installed: {install}"


def test_everything_else_works_without_extras(blocked):
    assert blocked["failed"] == {}
    assert len(blocked["base"]) > 100


def test_importing_kvariates_alone_is_quick(blocked):
    assert blocked["eager"] == []


def test_the_base_is_small():
    assert {name_of(need) for need in PROJECT["dependencies"]} == BASE


def test_every_message_names_an_extra_that_installs_the_package():
    calls = [
        (path.name, [ast.literal_eval(argument) for argument in node.args[:2]])
        for path in (ROOT / "src" / "kvariates").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "needed"
        if all(isinstance(argument, ast.Constant) for argument in node.args[:2])
    ]
    wrong = [call for call in calls if call[1][0].split(".")[0] not in named_by(call[1][1])]
    assert wrong == []
    assert len(calls) >= len(LINES)


def test_every_public_name_is_found_and_has_one_place():
    for name, module in kvariates._MODULES.items():
        value = getattr(kvariates, name)
        if module == "kvariates":
            assert value is sys.modules[f"kvariates.{name}"]
        else:
            assert (value.__name__, value.__module__) == (name, module)
    assert {*kvariates._MODULES, "__version__"} == set(kvariates.__all__) <= set(dir(kvariates))
    with pytest.raises(AttributeError, match="'kvariates' has no attribute 'KMeanss'"):
        _ = kvariates.KMeanss


def test_a_package_that_is_there_is_returned():
    assert needed("json.decoder", "files") is sys.modules["json.decoder"]


def test_a_package_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has") as caught:
        needed("broken_package", "files")
    assert not isinstance(caught.value, MissingPackageError)
