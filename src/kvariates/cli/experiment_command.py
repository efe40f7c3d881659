"""The work of `kvariates experiment`: runs an experiment of the repository."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

NO_REPOSITORY = (
    "the experiments are in the repository, not in the installed package: clone it, and run this "
    "command inside"
)


def repository() -> Path:
    """The folder that has the experiments: this one, one above it, or that of the package."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        marks = ("experiments/__init__.py", "src/kvariates", "pyproject.toml")
        if all((folder / mark).exists() for mark in marks):
            return folder
    raise ValueError(NO_REPOSITORY)


def experiments(folder: Path) -> dict[str, str]:
    """The experiments that can be run, with the first line of what they say about themselves."""
    found = {}
    for path in sorted((folder / "experiments").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            words = ast.get_docstring(ast.parse(text)) or ""
            found[path.stem] = words.split("\n", maxsplit=1)[0]
    return found


def run_experiment(folder: Path, name: str, words: list[str]) -> int:
    """Run an experiment with these arguments. Returns its exit code."""
    known = experiments(folder)
    if name not in known:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(known)}")
    before = os.environ.get("PYTHONPATH")
    paths = [str(folder / "src"), str(folder), *([before] if before else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", f"experiments.{name}", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode  # noqa: S603
