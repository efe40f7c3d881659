"""Plants mistakes in the library, one at a time, and shows which test catches each.

    python -m experiments.mutants             all of them (minutes)
    python -m experiments.mutants LLOYD TIES  those with one of these words in their name

A mutant is a piece of source that is replaced when its module is imported; no file is changed. It
is caught if a test fails that passes without it. The exit code is 1 if one is not caught.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import re
import subprocess
import sys
import time
from types import CodeType
from typing import Any

from experiments.mutant import ROOT, Mutant
from experiments.mutants_balancing import BALANCING
from experiments.mutants_clustering import CLUSTERING
from experiments.mutants_peers import PEERS
from experiments.mutants_private import PRIVATE

CHOSEN = "KVARIATES_MUTANT"  # the environment variable that names the mutant to plant

MUTANTS = [*CLUSTERING, *BALANCING, *PRIVATE, *PEERS]
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mutant: Mutant, name: str) -> None:
        super().__init__(name, str(mutant.path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self._mutant.path.read_text(encoding="utf-8")
        return compile(self._mutant.plant(source), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module of a mutant before anybody else does."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        module, file = self._mutant.module, self._mutant.path
        name = module.removesuffix(".__init__")
        if fullname != f"kvariates.{name}":
            return None
        loader, package = _Loader(self._mutant, fullname), name != module
        spec = importlib.machinery.ModuleSpec(
            fullname, loader, origin=str(file), is_package=package
        )
        if package:
            spec.submodule_search_locations = [str(file.parent)]
        return spec


def pytest_configure() -> None:
    """Plant the chosen mutant: this module is also a plugin of pytest."""
    if os.environ.get(CHOSEN):
        sys.meta_path.insert(0, _Finder(BY_NAME[os.environ[CHOSEN]]))


def failing_tests(tests: list[str], mutant: str = "") -> list[str]:
    """The tests that fail, or the first one if there is a mutant."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pytest", "-q", "-m", "not hostile", "-p", "no:cacheprovider", "-p",
         "experiments.mutants", *(["-x"] if mutant else []), *(f"tests/{test}" for test in tests)],
        cwd=ROOT, env={**os.environ, CHOSEN: mutant}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.findall(r"^(?:FAILED|ERROR) tests/(\S+::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise RuntimeError(done.stdout + done.stderr)
    return found


def main() -> int:
    """Run all mutants whose name has one of the given words; return 1 if one is not caught."""
    words = [word.lower() for word in sys.argv[1:]]
    chosen = [m for m in MUTANTS if not words or any(word in m.name.lower() for word in words)]
    caught: dict[str, str] = {}
    for mutant in chosen:
        begin = time.perf_counter()
        for found in failing_tests(mutant.tests.split(), mutant.name):
            caught[mutant.name] = found
        seconds = time.perf_counter() - begin
        print(
            f"{mutant.name}: {caught.get(mutant.name, 'NOT CAUGHT')} ({seconds:.0f} s)", flush=True
        )
    wrong = failing_tests(sorted(set(caught.values()))) if caught else []
    print(*(f"fails without a mutant too: {test}" for test in wrong), sep="\n")
    print(f"{len(chosen)} mutants, {len(chosen) - len(caught)} not caught")
    return int(len(caught) < len(chosen) or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
