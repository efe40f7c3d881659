"""`algorithm="auto"` chooses by work that is counted, so that a busy machine cannot mislead it."""

import time

import numpy as np
import pytest
from api import Rows, squared_moves, upper_bounds
from api import assigners_module as scans
from laws import brute
from laws.cases import rows, start

from kvariates import _native


def choices(monkeypatch, X, k, slow=None, steps=25):
    """Which kernel assigned the rows in each step, if the kernel `slow` sleeps."""
    told = []
    with monkeypatch.context() as patch:
        for name in ("assign", "assign_hamerly", "assign_elkan", "assign_yinyang"):
            kernel = getattr(_native, name)

            def spy(*given, name=name, kernel=kernel):
                told.append(name)
                if name == slow:
                    time.sleep(0.02)
                return kernel(*given)

            patch.setattr(scans._native, name, spy)
        scan, centers, moved = scans.SCANS["auto"](Rows.of(X), k), start(X, k), None
        labels, changes = np.full(len(X), -1, dtype=np.int32), _native.Changes()
        for _ in range(steps):
            scan.assign(centers, moved, labels, changes)
            before, centers = centers, brute.means(X, np.ones(len(X)), labels, centers)
            moved = upper_bounds(squared_moves(before, centers))
    return told


@pytest.mark.parametrize(
    ("d", "k", "bounded"), [(6, 20, "hamerly"), (300, 40, "elkan"), (40, 260, "yinyang")]
)
def test_a_slow_machine_does_not_change_the_choice(monkeypatch, d, k, bounded):
    X = rows(3000, d, seed=3, groups=k if bounded == "hamerly" else 1)
    told = choices(monkeypatch, X, k)
    kernel = f"assign_{bounded}"
    assert {"assign", kernel} <= set(told)
    assert told == choices(monkeypatch, X, k, slow=kernel)
    assert told == choices(monkeypatch, X, k, slow="assign")
