"""`algorithm="auto"` chooses by work that is counted, so that a busy machine cannot mislead it."""

import time

import numpy as np
import pytest
from laws.cases import rows, start

from kvariates import _native
from kvariates.data import scans
from kvariates.data.rows import Rows
from kvariates.refining.assigners import InMemoryAssigner


def choices(monkeypatch, X, k, slow=None, steps=25):
    """Which kernel assigned the rows in each step, if the kernel `slow` sleeps."""
    told = []
    with monkeypatch.context() as patch:
        for name in ("assign", "assign_hamerly", "assign_yinyang"):
            kernel = getattr(_native, name)

            def spy(*given, name=name, kernel=kernel):
                told.append(name)
                if name == slow:
                    time.sleep(0.02)
                return kernel(*given)

            patch.setattr(scans._native, name, spy)
        assigner = InMemoryAssigner(Rows.of(X), None, k, "auto")
        centers = start(X, k)
        for _ in range(steps):
            statistics = assigner.assign(centers)
            counts = np.maximum(statistics.counts, 1)[:, None]
            centers = np.where(statistics.counts[:, None] > 0, statistics.total_sums / counts, centers)
    return told


@pytest.mark.parametrize(("d", "k", "bounded"), [(6, 20, "hamerly"), (40, 80, "yinyang")])
def test_a_slow_machine_does_not_change_the_choice(monkeypatch, d, k, bounded):
    X = rows(3000, d, seed=3, groups=k)
    told = choices(monkeypatch, X, k)
    kernel = f"assign_{bounded}"
    assert {"assign", kernel} <= set(told)
    assert told == choices(monkeypatch, X, k, slow=kernel)
    assert told == choices(monkeypatch, X, k, slow="assign")
