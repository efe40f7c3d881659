"""Laws: a fit in memory needs little beside X and its copy of one byte a value."""

import sys

import numpy as np
import pytest
from benchmarks.embedding_data import Rows
from benchmarks.memory import extra_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")

A_ROW = 128  # bytes: bounds, labels, costs


def test_few_tables_as_large_as_the_centres(tmp_path, monkeypatch):
    """The centres, their exact sums in one and a half, and a quarter for all else that grows so."""
    for name in ("MMAP", "TRIM"):  # glibc returns what is freed at once
        monkeypatch.setenv(f"MALLOC_{name}_THRESHOLD_", str(2**16))
    k, file = 500, tmp_path / "X.npy"
    X = Rows("made", 8_000, 384).make()
    np.save(file, X)
    of_centers = 8 * k * X.shape[1]
    assert extra_of("kvariates", file, k) < X.nbytes / 4 + A_ROW * len(X) + 2.75 * of_centers
