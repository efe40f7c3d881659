"""The build asks for OpenMP, no result has fused multiply-add, one wheel serves all new Pythons."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kvariates import _native

ROOT = Path(__file__).resolve().parents[1]


def configure(folder, *options):
    """Run CMake without compiling anything; return its exit code and what it prints."""
    if not all(map(shutil.which, ("cmake", "ninja"))):
        pytest.skip("cmake or ninja is missing: nothing was checked")
    command = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_build_without_openmp_must_be_asked_for(tmp_path):
    hidden = "-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON"
    failed, said = configure(tmp_path / "required", hidden)
    assert failed
    assert "OpenMP was not found: install it" in said
    failed, said = configure(tmp_path / "without", hidden, "-DKVARIATES_OPENMP=OFF")
    assert not failed
    assert "this build runs on ONE thread" in said


def test_only_the_filter_may_fuse_multiply_and_add(tmp_path):
    nanobind = subprocess.run(
        [sys.executable, "-m", "nanobind", "--cmake_dir"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    failed, said = configure(
        tmp_path, "-DSKBUILD=2", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind}",
    )  # fmt: skip
    assert not failed, said
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    own = {c["file"]: c["command"] for c in commands if str(ROOT / "native") in c["file"]}
    filters = ("filter_dense.cpp", "filter_double.cpp", "filter_sparse.cpp", "quantized_rows.cpp")
    filters += ("byte_rows.cpp", "byte_tiles.cpp", "byte_products.cpp")
    assert {*own} == {str(path) for path in ROOT.glob("native/*.cpp")}
    for name, command in own.items():
        fused = "fast" if name.endswith(filters) else "off"
        assert command.split("-ffp-contract=")[-1].split()[0] == fused, name


def test_one_module_serves_python_3_12_and_newer():
    """The name of the module has no version then, and the name of the wheel says abi3."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert settings["wheel"]["py-api"] == "cp312"
    stable = sys.version_info >= (3, 12)
    assert Path(_native.__file__).name.startswith("_native.abi3.") == stable


def test_the_oldest_versions_are_the_lower_bounds():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "oldest.py", "dev"],
        check=True, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    pinned = dict(need.split("==") for need in done.stdout.split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for need in (*project["dependencies"], *project["optional-dependencies"]["federated"]):
        name, bound = need.split(">=")
        assert pinned[name] == bound.split(",")[0]
    assert {"pytest", "ruff", "dask[array,dataframe,distributed]"} < pinned.keys()
