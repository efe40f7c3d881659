"""Tests that need a card: `make test-gpu`, or any path in this folder.

They are collected only if a path in this folder is given: elsewhere they could only be skipped, and
a skipped test looks like one that has passed.
"""

from pathlib import Path

import pytest
from gpu.libraries import NO_CARD

HERE = Path(__file__).resolve().parent


def pytest_ignore_collect(collection_path, config):
    given = (Path(config.invocation_params.dir, arg.split("::")[0]) for arg in config.args)
    return None if any(path.resolve().is_relative_to(HERE) for path in given) else True


def pytest_collection_modifyitems(config, items):
    # All items of the session are given.
    own = any(item.path.is_relative_to(HERE) for item in items)
    if NO_CARD and own and not config.option.collectonly:
        pytest.exit(f"tests/gpu needs a card: {NO_CARD}", returncode=3)
