"""Labels by products of half precision are those of the reference arithmetic, bit for bit.

The kernels run on the processor, with tensor cores that lose as much as any card is known to lose.
"""

import numpy as np
import pytest
from api import KEPT, Changes, Filter, Shape, frame_of, is_small, shape_for
from cuda.on_host import HostCard
from laws.reference import dense_distances

STEPS = dict.fromkeys([1, 2, 3, 5, 15, 16], 1) | dict.fromkeys([17, 31, 33, 64, 100, 128], 8)


def shape_of(d, tile=64):
    """Small blocks, and few variants of the kernels, since each is compiled for a second or two."""
    steps = STEPS.get(d, 0)
    return Shape(steps, 16 * steps or -(-d // 32) * 32, 2, tile, 2 if steps else 3)


def kept_scores(of, n, k):
    """All scores of the next call, their slack, and that of the row."""
    kept = of._card.empty((n, k, 3), np.float32)
    of._counters.part(KEPT, KEPT + 1).put(np.array([kept.pointer], np.uint64))
    return kept


class Labelled:
    """A Filter and its labels; `check` compares a call with the reference."""

    def __init__(self, card, X, k, exact=False, **more):
        self.card, self.X = card, X
        shape = None if exact else more.pop("shape", None) or shape_of(X.shape[1])
        halves = more.pop("halves", None)
        more = {"KEEP_SCORES": 1} | more
        self.filter = Filter(
            card, card.put(X), k, exact=exact, shape=shape, halves=halves, more=more
        )
        self.labels = card.put(np.full(len(X), -1, np.int32))
        self.changes = Changes.for_rows(card, len(X))

    def check(self, C, bounded=False):
        old = self.labels.get()
        moved = self.card.zeros(len(C), np.float64) if bounded else None
        self.filter.nearest(self.card.put(C), self.labels, self.changes, moved)
        with np.errstate(all="ignore"):
            expected = dense_distances(self.X, C).argmin(axis=1)
        np.testing.assert_array_equal(self.labels.get(), expected)
        count = int(self.changes.count.get()[0])
        rows = self.changes.rows.get()[:count]
        assert sorted(rows) == list(np.flatnonzero(old != expected))
        np.testing.assert_array_equal(self.changes.before.get()[:count], old[rows])
        return self


# ---- data ----------------------------------------------------------------------------------------


def normal(rng, n, d, k):
    return rng.normal(size=(n, d)), rng.normal(size=(k, d))


def ties(rng, n, d, k):
    """Small integers, and every centre twice."""
    C = rng.integers(-2, 3, (k, d)).astype(float)
    C[k // 2 :] = C[: k - k // 2]
    return rng.integers(-2, 3, (n, d)).astype(float), C


def near_ties(rng, n, d, k):
    """Centres that differ from another one in the last digits."""
    C = rng.normal(size=(k, d))
    C[k // 2 :] = C[: k - k // 2] * (1 + 2.0 ** -rng.integers(20, 53, (k - k // 2, 1)))
    return rng.normal(size=(n, d)), C


def ranges(rng, n, d, k):
    """Features, rows and centres of sizes that differ by up to 2^60."""
    size = 2.0 ** rng.integers(-20, 20, d)
    X = rng.normal(size=(n, d)) * size * 2.0 ** rng.integers(-20, 20, (n, 1))
    return X, rng.normal(size=(k, d)) * size * 2.0 ** rng.integers(-20, 20, (k, 1))


def shifted(rng, n, d, k):
    return 1e6 + rng.normal(size=(n, d)), 1e6 + rng.normal(size=(k, d))


def far_row(rng, n, d, k):
    X, C = normal(rng, n, d, k)
    X[n // 2] *= 2.0**50
    return X, C


def far_center(rng, n, d, k):
    X, C = normal(rng, n, d, k)
    C[k // 2] *= 2.0**100
    return X, C


def far_centers(rng, n, d, k):
    X, C = normal(rng, n, d, k)
    return X, C * 2.0**100


def all_far(rng, n, d, k):
    """Only the first row is in the middle, and all others cannot be halves."""
    X, C = normal(rng, n, d, k)
    X[1:] += 2.0**60 * rng.choice([-1, 1], (n - 1, 1))
    return X, C * 2.0**60


def tiny(rng, n, d, k):
    """Squares of differences are subnormal or zero."""
    return rng.normal(size=(n, d)) * 1e-160, rng.normal(size=(k, d)) * 1e-160


def subnormal(rng, n, d, k):
    return rng.integers(0, 9, (n, d)) * 5e-324, rng.integers(0, 9, (k, d)) * 5e-324


def huge(rng, n, d, k):
    """Squares of differences are infinite, mostly."""
    return rng.normal(size=(n, d)) * 1e154, rng.normal(size=(k, d)) * 1e154


def equal(rng, n, d, k):
    return np.full((n, d), 3.25), np.full((k, d), 3.25)


CASES = [
    normal, ties, near_ties, ranges, shifted, far_row, far_center, far_centers, all_far, tiny,
    subnormal, huge, equal,
]  # fmt: skip
SIZES = [  # rows, features, centres
    (65, 1, 9), (70, 2, 129), (40, 3, 300), (33, 15, 128), (1, 16, 33), (66, 17, 7), (31, 31, 65),
    (90, 33, 127), (64, 64, 2), (70, 100, 1), (65, 128, 129), (40, 129, 8), (129, 200, 33),
    (10, 784, 130),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_labels_are_those_of_the_reference(card, size):
    rng = np.random.default_rng(size)
    n, d, k = size
    for make in CASES:
        X, C = make(rng, n, d, k)
        Labelled(card, X, k).check(C)
        Labelled(card, X, k, exact=True).check(C)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("make", [normal, near_ties, shifted])
def test_rows_of_other_types(card, make, dtype):
    X, C = make(np.random.default_rng(1), 80, 16, 40)
    X = np.where(np.abs(X) < 60000, X, 1).astype(dtype)
    Labelled(card, X, 40).check(C)
    Labelled(card, X, 40, exact=True).check(C)


@pytest.mark.parametrize("d", [3, 128, 200])
def test_only_rows_whose_label_changed_are_listed(card, d):
    rng = np.random.default_rng(d)
    X, C = normal(rng, 150, d, 20)
    labelled = Labelled(card, X, 20).check(C)
    for size in (1e-3, 0.1, 0, 1):
        labelled.check(C + size * rng.normal(size=C.shape))


@pytest.mark.parametrize("make", [normal, near_ties, ties, shifted, far_row, far_center, tiny])
@pytest.mark.parametrize("d", [3, 128])
def test_bounds_between_calls_change_no_label(card, d, make):
    rng = np.random.default_rng(d)
    X, C = make(rng, 150, d, 20)
    with_bounds, without = Labelled(card, X, 20), Labelled(card, X, 20)
    size = np.abs(X).mean() / 100
    for _ in range(5):
        with_bounds.check(C, bounded=True)
        without.check(C)
        C = C + size * rng.normal(size=C.shape) * rng.integers(0, 2, (20, 1))


def test_bounds_leave_out_rows(card):
    """If no centre moves further than half the way to another one, no row is looked at."""
    rng = np.random.default_rng(5)
    X = np.repeat([0.0, 100.0, 200.0], 50)[:, None] + rng.normal(size=(150, 3))
    C = np.arange(0.0, 225, 25)[:, None] * np.ones(3)
    labelled = Labelled(card, X, 9).check(C)
    for move, seen in ((0, 0), (5, 0), (1000, 150)):
        C[4] += move
        labelled.check(C, bounded=True)
        assert labelled.filter.measured_rows[3] == seen


def distances_in_long_double(labelled, C):
    frame = labelled.filter.halves.frame.get().astype(np.longdouble)
    gap = labelled.X.astype(np.longdouble)[:, None] - C
    return np.sqrt(np.square(gap * frame[0]).sum(axis=2))


@pytest.mark.parametrize("make", [normal, near_ties, shifted, far_center])
def test_kept_bounds_are_bounds(card, make):
    rng = np.random.default_rng(7)
    X, C = make(rng, 130, 16, 33)
    labelled = Labelled(card, X, 33)
    for step in range(3):
        labelled.check(C, bounded=step > 0)
        distance, label = distances_in_long_double(labelled, C), labelled.labels.get()
        upper, lower = labelled.filter._bounds.get().astype(np.longdouble).T
        own = np.take_along_axis(distance, label[:, None], 1)[:, 0]
        np.put_along_axis(distance, label[:, None], np.inf, 1)
        assert (own <= upper).all()
        assert (lower <= distance.min(axis=1)).all()
        assert make is near_ties or (upper < lower).mean() > 0.3
        C = C + 1e-3 * np.abs(X).mean() * rng.normal(size=C.shape)


@pytest.mark.parametrize("shape", [Shape(1, 16, 4, 128, 4), Shape(0, 160, 2, 64, 3)])
def test_copies_may_come_late(shape):
    """As late as the kernels allow, where in other tests copies come as early as possible."""
    rng = np.random.default_rng(0)
    card = HostCard(processors=1)
    for n, k in ((300, 150), (200, 9), (40, 65), (140, 300)):
        X, C = normal(rng, n, shape.width - 5, k)
        labelled = Labelled(card, X, k, shape=shape, LATE_COPIES=1).check(C)
        labelled.check(C + 0.1, bounded=True)


def test_filters_share_halves(card):
    X, C = normal(np.random.default_rng(3), 60, 5, 80)
    first = Labelled(card, X, 80).check(C)
    card.launches.clear()
    second = Labelled(card, X, 9, halves=first.filter.halves).check(C[:9])
    assert second.filter.halves is first.filter.halves
    assert "half_rows" not in card.launches


def test_small_integers_have_no_error(card):
    X = np.random.default_rng(3).integers(0, 256, (300, 16))
    labelled = Labelled(card, X.astype(np.float32), 9)
    assert (labelled.filter.halves.facts.get()[:, 1] < 1e-9).all()


def test_most_rows_are_decided_at_once(card):
    X, C = normal(np.random.default_rng(3), 500, 16, 64)
    slots, opened, left, _ = Labelled(card, X, 64).check(C).filter.measured_rows
    assert 0 < opened < slots < 25
    assert left == 0


def test_a_far_row_spoils_only_itself(card):
    X, C = far_row(np.random.default_rng(3), 500, 16, 64)
    slots, _, left, _ = Labelled(card, X, 64).check(C).filter.measured_rows
    assert slots < 25
    assert left == 1


def test_rows_without_a_slot_are_compared_with_all_centers(card, monkeypatch):
    monkeypatch.setattr("kvariates.cuda.filter.LEAST_ROOM", 20)
    X = np.arange(100)[:, None] % 6 + np.zeros(3)
    C = np.arange(12)[:, None] % 6 + np.zeros(3)
    slots, _, left, _ = Labelled(card, X, 12).check(C).filter.measured_rows
    assert (slots, left) == (100, 80)


def test_the_order_of_threads_does_not_matter():
    X, C = near_ties(np.random.default_rng(4), 100, 3, 40)
    for seed in range(4):
        Labelled(HostCard(seed=seed, processors=1 + seed % 2), X, 40).check(C)


def test_no_rows(card):
    Labelled(card, np.empty((0, 3)), 5).check(np.zeros((5, 3)))


# ---- bounds --------------------------------------------------------------------------------------


def broken_bounds(card, X, C, shape=None, **more):
    """How many (row, centre) have a score outside of their bounds.

    Once with the distances of the reference, and once with those of long double.
    """
    labelled = Labelled(card, X, len(C), shape=shape, **more)
    scores = kept_scores(labelled.filter, len(X), len(C))
    with np.errstate(all="ignore"):
        labelled.filter.nearest(card.put(C), labelled.labels, labelled.changes, None)
    frame = labelled.filter.halves.frame.get().astype(np.longdouble)
    v, w = ((A.astype(np.longdouble) - frame[1:]) * frame[0] for A in (X, C))
    rows = np.square(v).sum(axis=1) / 2
    exact = np.square(w).sum(axis=1) / 2 - v @ w.T
    rounded = dense_distances(X, C) * frame[0] ** 2 / 2 - rows[:, None]
    low, slack, own = np.moveaxis(scores.get().astype(np.longdouble), 2, 0)
    assert (own <= slack).all() or np.isinf(own).any()
    usable = np.isfinite(labelled.filter.halves.facts.get()[:, 1])[:, None] & (low < 2.0**98)
    assert usable.any()
    return sum(
        int((usable & ((t < low) | (np.abs(t - low - slack) > own))).sum())
        for t in (exact, rounded)
    )


@pytest.mark.parametrize("d", [1, 16, 33, 128, 200, 784])
def test_bounds_hold(card, d):
    rng = np.random.default_rng(d)
    for make in (normal, ties, near_ties, ranges, shifted, far_row, far_center, tiny):
        assert broken_bounds(card, *make(rng, 64, d, 64)) == 0, make.__name__


def small_integers(rng, n, d, k):
    """Halves without an error, and sums that need more than 24 bits."""
    X = rng.integers(1, 60, (n, d)).astype(float) + 2.0**-4
    C = rng.integers(1, 60, (k, d)).astype(float) + 2.0**-4
    return X, C


def unchanged(sample):
    return np.concatenate([[1.0], np.zeros(sample.shape[1])])


def test_bounds_of_sums_hold(card, monkeypatch):
    X, C = small_integers(np.random.default_rng(0), 64, 800, 64)
    monkeypatch.setattr("kvariates.cuda.filter.frame_of", unchanged)
    assert broken_bounds(card, X, C) == 0


@pytest.mark.parametrize("mistake", ["rows", "centers", "norms", "sums"])
def test_a_planted_mistake_is_found(card, monkeypatch, mistake):
    rng = np.random.default_rng(6)
    if mistake == "sums":
        X, C = small_integers(rng, 64, 800, 64)
        monkeypatch.setattr("kvariates.cuda.filter.frame_of", unchanged)
        assert broken_bounds(card, X, C, STEP_UNITS=0, FIXED_UNITS=0) > 0
        return
    run = HostCard.run

    def spoiled(self, file, name, grid, block, *args, **more):
        run(self, file, name, grid, block, *args, **more)
        at = {"half_rows": 6, "half_centers": 7}.get(name)
        column = {("rows", 6): 1, ("centers", 7): 2, ("norms", 7): 1}.get((mistake, at))
        if column is not None:
            facts = args[at].get()
            facts[:, column] = 0
            args[at].put(facts)

    monkeypatch.setattr(HostCard, "run", spoiled)
    X, C = normal(rng, 64, 16, 64)
    C = C.astype(np.float16).astype(float) if mistake != "centers" else C
    assert broken_bounds(card, X, C) > 0


# ---- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [99, 163, 227])
@pytest.mark.parametrize("d", [1, 16, 64, 128, 129, 512, 8192])
def test_blocks_fit_into_shared_memory(memory, d):
    for n, k in ((10, 9), (10**8, 60), (10**8, 5000)):
        shape = shape_for(n, d, k, 132, memory * 1024)
        assert shape.shared <= memory * 1024
        assert shape.width >= d
        assert shape.width == 16 * shape.steps or shape.width % 32 == 0


def test_the_frame_is_usable_for_any_rows():
    assert frame_of(np.zeros((3, 2))).tolist() == [1, 0, 0]
    assert frame_of(np.array([[5.0, 7.0]])).tolist() == [1, 5, 7]
    for size in (1e-320, 1e-200, 1e-3, 1e300):
        frame = frame_of(np.array([[-size], [size]]))
        assert np.isfinite(frame).all()
        if 1e-100 < size < 1e100:
            assert 64 <= size * frame[0] < 128


def test_few_centers_and_small_work_are_compared_in_float64():
    for n, d, k, exact in (
        (50, 3, 40, True), (10**8, 3, 40, True), (10**8, 100, 2, True), (10**5, 100, 8, False),
        (10**5, 15, 80, False),
    ):  # fmt: skip
        assert is_small(n, d, k) == exact
