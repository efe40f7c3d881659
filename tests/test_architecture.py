"""The house cannot drift: every import in src/kvariates obeys docs/architecture.md.

The two tables of that page (floors, third-party packages) are the rules; they are read from it.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "kvariates"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FRONT_DOOR = "__init__"
NEIGHBOURS = {("cli", "demo"), ("cli", "report"), ("demo", "report")}


def table(header):
    """Return the cells of the page's table that starts with `header`."""
    body = PAGE.split(f"| {header} |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in body.splitlines()[2:]]
    return [(key.strip(), cell) for key, cell in rows]


FLOORS = {
    room: int(floor)
    for floor, rooms in table("floor | rooms")
    for room in re.findall(r"`(\w+)`", rooms)
}
PACKAGES = {
    {"scikit-learn": "sklearn"}.get(package, package): set(re.findall(r"`(\w+)`", rooms))
    for packages, rooms in table("package | used in")
    for package in packages.split(", ")
}


def room_of(module):
    """kvariates.seeding.sampler -> seeding; kvariates -> the front door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else FRONT_DOOR


def module_of(path, package=PACKAGE):
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source, module, is_package):
    """Yield the absolute name of everything a module imports, wherever the statement stands.

    ``from a import b`` yields a.b: b may be a module, and if it is not, the room is the same.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".") + ([""] if is_package else [])
                base = ".".join(filter(None, [*here[: -node.level], base]))
            yield from (f"{base}.{alias.name}" for alias in node.names)


def complaint(room, name):
    """Return why `room` must not import `name`, or None."""
    top = name.split(".")[0]
    if top == "kvariates":
        other = room_of(name)
        if other in (room, "datasets"):
            return None
        if other not in FLOORS:
            return None if room == FRONT_DOOR else "nobody imports the front door"
        floor = max(FLOORS.values()) if room == FRONT_DOOR else FLOORS[room]
        if FLOORS[other] >= floor and (room, other) not in NEIGHBOURS:
            return f"floor {floor} does not import from floor {FLOORS[other]}"
    elif top not in sys.stdlib_module_names:
        if top not in PACKAGES:
            return "a third-party package that has no room"
        if PACKAGES[top] and room not in PACKAGES[top]:
            return f"{top} is for {', '.join(sorted(PACKAGES[top]))}"
    return None


def complaints(package=PACKAGE):
    """Return every import under `package` that takes the stairs the wrong way."""
    found = []
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        module = module_of(path, package)
        room = room_of(module)
        where = path.relative_to(package)
        if room not in FLOORS and room != FRONT_DOOR:
            found.append(f"{where}: in no room of docs/architecture.md")
            continue
        names = imports(path.read_text(encoding="utf-8"), module, path.stem == "__init__")
        found += [f"{where}: {name}: {why}" for name in names if (why := complaint(room, name))]
    return found


def test_imports_go_down_the_stairs_only():
    assert complaints() == []


def test_the_page_was_read():
    assert FLOORS["guarantees"] == 0
    assert FLOORS["cli"] == 8
    assert PACKAGES["sklearn"] == {"estimators", "sources"}
    assert PACKAGES["numpy"] == set()


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("seeding/sampler.py", "from kvariates.estimators import KMeans"),
        ("seeding/sampler.py", "from ..estimators import KMeans"),
        ("seeding/sampler.py", "from .. import objectives"),
        ("seeding/__init__.py", "from ..objectives import objective"),
        ("seeding/sampler.py", "import kvariates.objectives.objective"),
        ("seeding/sampler.py", "from kvariates import KMeans"),
        ("seeding/sampler.py", "def late():\n    from ..cli import app"),
        ("data/metric.py", "import sklearn.utils"),
        ("data/metric.py", "from sklearn.utils import check_array"),
        ("sources.py", "import matplotlib.pyplot"),
        ("sources.py", "from .report import picture"),
        ("report/picture.py", "import pyarrow"),
        ("report/picture.py", "import rich"),
        ("report/picture.py", "from ..cli import app"),
        ("estimators/kmeans.py", "import requests"),
        ("__init__.py", "from .cli import app"),
        ("attic/box.py", "x = 1"),
    ],
)
def test_a_planted_violation_is_caught(tmp_path, file, line):
    path = tmp_path / "kvariates" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n", encoding="utf-8")
    assert len(complaints(tmp_path / "kvariates")) == 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("seeding/sampler.py", "import numpy as np\nfrom .. import _native\nfrom . import recipes"),
        ("seeding/__init__.py", "from .sampler import draw\nfrom ..data import rows"),
        ("estimators/kmeans.py", "from sklearn.base import BaseEstimator\nfrom ..seeding import x"),
        ("cli.py", "import typer\nfrom .report.files import write_rows\nfrom .demo import x"),
        ("__init__.py", "from .estimators import KMeans\nfrom .seeding import kmeans_plusplus"),
    ],
)
def test_what_is_allowed_is_allowed(tmp_path, file, line):
    path = tmp_path / "kvariates" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n", encoding="utf-8")
    assert complaints(tmp_path / "kvariates") == []
