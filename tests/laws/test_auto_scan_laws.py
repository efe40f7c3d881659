"""`algorithm="auto"` chooses by work that is counted, so that a busy machine cannot mislead it."""

import time

import numpy as np
import pytest
from api import Rows, squared_moves, upper_bounds
from api import scans_module as scans
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


@pytest.mark.parametrize(("spread", "pays"), [(0.05, True), (5.0, False)])
def test_distances_between_centres_are_left_out_while_they_do_not_pay(monkeypatch, spread, pays):
    rng = np.random.default_rng(0)
    middle = np.repeat(rng.normal(size=(150, 30)), 40, axis=0)
    X = middle + spread * rng.normal(size=middle.shape)
    used, kernel = [], _native.assign_hamerly

    def spy(*given):
        used.append(given[-2])
        return kernel(*given)

    monkeypatch.setattr(scans._native, "assign_hamerly", spy)
    centers, labels, changes = X[::40].copy(), np.full(len(X), -1, np.int32), _native.Changes()
    scan, moved = scans.SCANS["hamerly"](Rows.of(X), len(centers)), None
    for _ in range(7):
        scan.assign(centers, moved, labels, changes)
        assert np.array_equal(labels, Rows.of(X).nearest(centers))
        moved = np.full(len(centers), 6.0, dtype=np.float32)  # no lower bound is left
        centers = centers + rng.normal(size=centers.shape) * (0.1 / 30)
    assert used == (
        [False] + 6 * [True] if pays else [False, True, False, True, False, False, False]
    )
