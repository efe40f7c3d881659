"""The code follows docs/architecture.md.

The rules (levels of rooms, packages and the rooms that may use them) are read from two tables of
that page.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kvariates import KMeans, _native

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "kvariates"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PUBLIC = "__init__"
TWICE = {
    "KMeans"
}  # kvariates.KMeans, and the same on a cluster: kvariates.dask.KMeans, kvariates.ray.KMeans


def table(header):
    """Return the cells of the page's table that starts with `header`."""
    body = PAGE.split(f"| {header} |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in body.splitlines()[2:]]
    return [(key.strip(), cell) for key, cell in rows]


LEVELS = {
    room: int(level)
    for level, rooms in table("level | rooms")
    for room in re.findall(r"`(\w+)`", rooms)
}
PACKAGES = {
    {"scikit-learn": "sklearn"}.get(package, package): set(re.findall(r"`(\w+)`", rooms))
    for packages, rooms in table("package | used in")
    for package in packages.replace("`", "").split(", ")
}


def room_of(module):
    """kvariates.seeding.sampler -> seeding; kvariates -> __init__."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else PUBLIC


def module_of(path, package=PACKAGE):
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source, module, is_package):
    """Yield the absolute name of every import, at the top of the file or inside a function.

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
    other = room_of(name) if top == "kvariates" else top
    if PACKAGES.get(other) and room not in PACKAGES[other]:
        return f"{other} is for {', '.join(sorted(PACKAGES[other]))}"
    if top != "kvariates":
        known = other in PACKAGES or other in sys.stdlib_module_names
        return None if known else "a package that the page does not list"
    if other in (room, "datasets"):
        return None
    if other not in LEVELS:
        return None if room == PUBLIC else "no room imports kvariates/__init__.py"
    level = LEVELS["cli" if room == PUBLIC else room]
    if LEVELS[other] >= level:
        return f"level {level} does not import from level {LEVELS[other]}"
    return None


def complaints(package=PACKAGE):
    """Return every import under `package` that breaks a rule."""
    found = []
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        module = module_of(path, package)
        room = room_of(module)
        where = path.relative_to(package)
        if room not in LEVELS and room != PUBLIC:
            found.append(f"{where}: in no room of docs/architecture.md")
            continue
        names = imports(path.read_text(encoding="utf-8"), module, path.stem == "__init__")
        found += [f"{where}: {name}: {why}" for name in names if (why := complaint(room, name))]
    return found


def test_imports_go_down_only():
    assert complaints() == []


def test_every_room_is_on_the_page():
    paths = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()]
    rooms = {path.stem: path.name + "/" * path.is_dir() for path in paths}
    for name in ("__init__", "__pycache__", "datasets"):
        rooms.pop(name, None)
    assert rooms.keys() - set(LEVELS) == set()
    section = PAGE.split("## Rooms")[1].split("## Levels")[0]
    assert {name for name in rooms.values() if f"`{name}`" not in section} == set()


def test_no_two_public_classes_share_a_name():
    paths = [path for path in PACKAGE.rglob("*.py") if path.stem != "__init__"]
    classes = [
        node.name
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name, count in Counter(classes).items() if count > 1} - TWICE == set()


PUBLIC_MODULES = {
    f"kvariates{name}"
    for name in (
        "",
        ".dask",
        ".federated",
        ".plot",
        ".privacy",
        ".ray",
        ".report",
        ".river",
        ".sources",
    )
}


def test_tests_import_internals_from_one_table():
    """`tests/api.py`; then a module that moves changes no test."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for name in imports(path.read_text(encoding="utf-8"), path.stem, is_package=False):
            module, _, last = name.rpartition(".")
            public = {module, name} & PUBLIC_MODULES or name == "kvariates._native"
            inside = name.startswith("kvariates.") and name not in PUBLIC_MODULES
            is_file = (PACKAGE / Path(*module.split(".")[1:]) / f"{last}.py").exists()
            hidden = module != "kvariates" and is_file and name != "kvariates.privacy.price"
            if inside and (hidden or not public):
                found.append(f"{path.relative_to(ROOT)}: {name}")
    assert [line for line in found if not line.startswith("tests/api.py")] == []


@pytest.mark.parametrize(
    ("allowed", "file", "line"),
    [
        (True, "data/rows.py", "import numpy as np\nfrom .. import _native\nfrom . import graph"),
        (True, "seeding/__init__.py", "from .sampler import draw\nfrom ..data import rows"),
        (True, "estimators/kmeans.py", "from sklearn.base import X\nfrom ..seeding import x"),
        (True, "cli/__init__.py", "import typer\nfrom ..report import files\nfrom ..demo import x"),
        (True, "__init__.py", "from .estimators import KMeans\nfrom .seeding import sampler"),
        (False, "seeding/sampler.py", "from kvariates.estimators import KMeans"),
        (False, "seeding/sampler.py", "from ..estimators import KMeans"),
        (False, "seeding/__init__.py", "from ..objectives import objective"),
        (False, "seeding/sampler.py", "import kvariates.objectives.objective"),
        (False, "seeding/sampler.py", "from kvariates import KMeans"),
        (False, "seeding/sampler.py", "def late():\n    from ..cli import app"),
        (False, "seeding/sampler.py", "from kvariates import _native"),
        (False, "seeding/sampler.py", "from kvariates._native import Changes"),
        (False, "data/rows.py", "from sklearn.utils import check_array"),
        (False, "sources.py", "from .report import picture"),
        (False, "estimators/kmeans.py", "import requests"),
        (False, "__init__.py", "from .cli import app"),
        (False, "attic/box.py", "x = 1"),
    ],
)
def test_only_an_allowed_import_passes(tmp_path, allowed, file, line):
    path = tmp_path / "kvariates" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n", encoding="utf-8")
    assert len(complaints(tmp_path / "kvariates")) == (0 if allowed else 1)


def test_few_frames_lie_between_a_fit_and_the_kernel(monkeypatch):
    """From `KMeans.fit` to the kernels that assign rows, where a fit spends its time."""
    depths = {}

    def recorded(name, kernel):
        def call(*args):
            frame, depth = sys._getframe(1), 0
            while frame is not None:
                depth += Path(frame.f_code.co_filename).is_relative_to(PACKAGE)
                frame = frame.f_back
            depths[name] = max(depth, depths.get(name, 0))
            return kernel(*args)

        return call

    for name in ("assign", "assign_hamerly"):
        monkeypatch.setattr(_native, name, recorded(name, getattr(_native, name)))
    KMeans(20, random_state=0).fit(np.random.default_rng(0).normal(size=(3000, 8)))
    assert depths.keys() == {"assign", "assign_hamerly"}
    assert max(depths.values()) <= 8
