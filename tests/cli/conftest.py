"""A table and its model, which tests of several commands share."""

import numpy as np
import pytest
from cli.test_fit import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three groups of twenty rows, with a number and a name, and a model of them."""
    path = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    X = np.repeat([[0, 0], [5, 900], [9, 0]], 20, axis=0) + rng.normal(size=(60, 2))
    lines = [f"{i + 100},n{i},{x:.6f},{y:.6f}" for i, (x, y) in enumerate(X)]
    (path / "a.csv").write_text("\n".join(["id,name,x,y", *lines]) + "\n")
    words = ["--columns", "x,y", "--scale", "standard", "--seed", 1, "-o", path / "out"]
    assert run("fit", path / "a.csv", "-k", 3, *words).exit_code == 0
    return path
