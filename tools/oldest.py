"""Print the oldest versions that pyproject.toml allows, of the base packages and of extras.

usage: oldest.py EXTRA ...    (the result is for `pip install`)
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]


def packages(extras):
    """The requirements of the base and of these extras, also of extras that they name."""
    needs = list(PROJECT["dependencies"])
    for extra in extras:
        needs += PROJECT["optional-dependencies"][extra]
    for marked in needs:  # grows while it is read
        need = marked.partition(";")[0].strip()  # without the machines that it is for
        if inner := re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", need):
            needs += [n for e in inner[1].split(",") for n in PROJECT["optional-dependencies"][e]]
        else:
            yield need


def oldest(need):
    """numpy>=1.26,<3 -> numpy==1.26"""
    name, version = re.match(r"([\w.\[\],-]+?)[>=]=([\w.]+)", need).groups()
    return f"{name}=={version}"


if __name__ == "__main__":
    print(*sorted({oldest(need) for need in packages(sys.argv[1:])}))
