"""k-means with size limits: limits hold, the cost never rises, and the stated gap is true."""

import itertools
import math
import pickle

import numpy as np
import pytest
from api import HostData, LimitedScan, Rows, SizeLimits, StopRule, refine_within
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import brute
from laws.cases import LAYOUTS, cluster, every_matrix, fit, rows, same_bits, start, weights_for
from laws.threads import on_threads
from sklearn.base import clone

from kvariates import KMeans
from kvariates.sources import blocks

# ---- whole rows of unequal weight ----


def assigned(X, centers, weight, limits):
    """Labels and gap of one assignment."""
    scan, labels = LimitedScan(Rows.of(X), weight, limits), np.full(len(X), -1, np.int32)
    scan.assign(centers, None, labels, None)
    return labels, scan.gap


def test_the_gap_bounds_the_distance_to_the_best_assignment():
    rng = np.random.default_rng(0)
    found = gaps = 0
    for _ in range(60):
        X, weight = rng.normal(size=(7, 2)), rng.exponential(size=7)
        centers = rng.normal(size=(2, 2))
        squares, total = brute.squared_distances(X, centers) * weight[:, None], weight.sum()
        limits = SizeLimits(0.4 * total, max(0.6 * total, weight.max()))
        every = np.array(list(itertools.product(range(2), repeat=7)))
        sizes = np.array([np.bincount(one, weight, 2) for one in every])
        allowed = (sizes.min(axis=1) >= limits.low) & (sizes.max(axis=1) <= limits.high)
        if not allowed.any():
            continue
        best = squares[np.arange(7), every[allowed]].sum(axis=1).min()
        try:
            labels, gap = assigned(X, centers, weight, limits)
        except ValueError:  # heuristics can fail; how often is counted
            continue
        found += 1
        cost = squares[np.arange(7), labels].sum()
        assert best - 1e-12 <= cost <= best + gap + 1e-9
        assert gap > 0 or cost == pytest.approx(best)
        gaps += gap > 0
    assert found > 45
    assert gaps > 10


def test_weights_are_repeats_that_are_not_divided():
    rng = np.random.default_rng(1)
    X, weight = rng.normal(size=(80, 2)), rng.integers(0, 5, size=80).astype(float)
    centers, total = start(X, 5), weight.sum()
    limits = SizeLimits(0.95 * total / 5, 1.05 * total / 5)
    labels, gap = assigned(X, centers, weight, limits)
    squares = brute.squared_distances(X, centers)
    cost = (weight * squares[np.arange(80), labels]).sum()
    again = np.repeat(np.arange(80), weight.astype(int))
    copies, none = assigned(X[again], centers, None, limits)
    divided = squares[again, copies].sum()
    assert none == 0.0 < gap
    assert divided <= cost
    assert cost - gap == pytest.approx(divided)
    zero = weight == 0
    np.testing.assert_array_equal(labels[zero], squares[zero].argmin(axis=1))


def test_equal_weights_are_counts():
    X = rows(200, 3)
    init = start(X, 6)
    counted = fit(X, init, size_min=30, size_max=35)
    weighed = fit(X, init, np.full(200, 0.2), size_min=6.0, size_max=7.0)
    np.testing.assert_array_equal(counted.labels_, weighed.labels_)
    assert weighed.assignment_gap_ == 0.0


# ---- Lloyd ----


def costs_of_lloyd(X, init, weight, limits):
    costs = []

    def note(step):
        costs.append(step.statistics.cost)
        return False

    end = refine_within(limits, False, HostData(Rows.of(X), weight), init, StopRule(100, 0.0, note))
    return costs, end


@pytest.mark.parametrize("weighted", [False, True])
def test_the_cost_never_rises(weighted):
    for seed in range(8):
        X = rows(400, 3, seed=seed)
        weight = weights_for(400, seed) if weighted else None
        total = weight.sum() if weighted else 400
        limits = SizeLimits(0.9 * total / 8, max(1.1 * total / 8, weight.max() if weighted else 0))
        costs, end = costs_of_lloyd(X, start(X, 8, seed), weight, limits)
        assert len(costs) > 2
        assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(costs))
        assert end.inertia <= costs[-1] * (1 + 1e-12)
        assert end.n_iter < 100


@every_matrix
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_limits_without_effect_change_nothing(dtype, layout, metric):
    X = LAYOUTS[layout](rows(300, 4, dtype, sparsity=0.4))
    init = start(X, 9)
    free = fit(X, init, metric=metric)
    assert same_bits(free, fit(X, init, metric=metric, size_min=0, size_max=300))


def test_threads_do_not_change_a_fit():
    X, weight = rows(3000, 4), weights_for(3000)
    limits = {"size_min": 0.08 * weight.sum(), "size_max": 0.12 * weight.sum()}
    fits = on_threads(lambda: cluster(X, 10, weight, **limits))
    assert all(same_bits(one, fits[0]) for one in fits)
    assert len({one.assignment_gap_ for one in fits}) == 1


def test_empty_clusters_get_rows():
    X = np.repeat([[0.0], [1.0], [5.0], [9.0]], 5, axis=0)
    model = fit(X, np.array([[0.0], [0.0], [0.0], [0.0]]), size_max=8)
    assert model.inertia_ == 0.0
    assert (np.bincount(model.labels_) == 5).all()


def test_many_equal_rows_are_divided():
    model = cluster(np.ones((4000, 2)), 7, size_min=571, size_max=572)
    assert {*np.bincount(model.labels_)} == {571, 572}


# ---- KMeans ----


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**20), st.integers(1, 30), st.integers(1, 6), st.floats(0, 1), st.floats(1, 2),
    st.sampled_from(["none", "equal", "whole", "any"]),
)  # fmt: skip
@example(0, 5, 1, 5e-324, 2.0, "any")  # a lower limit far below the lightest row
@example(0, 2, 1, 2.0**-52, 1.0, "any")
def test_limits_hold_or_one_error_says_why(seed, n, k, low, high, kind):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, 2)).astype(float)
    weight = {
        "none": None, "equal": np.full(n, 0.1), "whole": rng.integers(0, 4, n).astype(float),
        "any": rng.exponential(size=n),
    }[kind]  # fmt: skip
    mass = np.ones(n) if weight is None else weight
    limits = low * mass.sum() / k, high * mass.sum() / k
    model = KMeans(k, random_state=0, size_min=limits[0], size_max=limits[1])
    if n < k or not mass.any():
        return
    try:
        model.fit(X, sample_weight=weight)
    except ValueError as error:
        text = str(error)
        assert "\n" not in text
        assert "size_m" in text
        # Limits that leave room for two rows more or less can always hold.
        room = min(high - 1, 1 - low) * mass.sum() / k
        assert room < 2 * mass.max()
        return
    sizes = np.bincount(model.labels_, mass, k)
    assert sizes.min() >= limits[0] * (1 - 2e-9)
    assert sizes.max() <= limits[1] * (1 + 2e-9)
    assert model.assignment_gap_ >= 0


def test_the_best_of_several_runs_is_kept_and_can_be_pickled():
    X = rows(200, 3)
    options = {"size_min": 20, "size_max": 30}
    one, many = cluster(X, 8, **options), cluster(X, 8, n_init=5, **options)
    assert many.inertia_ <= one.inertia_
    again = pickle.loads(pickle.dumps(many))
    np.testing.assert_array_equal(again.labels_, many.labels_)
    assert same_bits(clone(many).fit(X), many)


def test_predict_takes_the_nearest_centre():
    X = rows(200, 3)
    model = cluster(X, 8, size_min=25, size_max=25)
    nearest = brute.nearest(X, model.cluster_centers_)
    np.testing.assert_array_equal(model.predict(X), nearest)
    assert (nearest != model.labels_).any()
    own = brute.squared_distances(X, model.cluster_centers_)[np.arange(200), model.labels_]
    assert model.inertia_ == pytest.approx(own.sum())


def test_no_theorem_holds_but_a_certificate_does():
    X = np.repeat(rows(40, 2), 2, axis=0)  # equal rows in different clusters
    model = cluster(X, 4, size_min=19, size_max=21, certify=True)
    assert model.guarantee_ is None
    assert "limits" in model.guarantee_lost_
    free = cluster(X, 4, n_init=10)
    assert 0 < model.certificate_.lower_bound <= free.inertia_ <= model.inertia_
    assert model.certificate_.cost == model.inertia_


X, HEAVY = rows(50, 2), np.r_[np.ones(49), 12.0]
UNEQUAL = np.random.default_rng(0).exponential(size=50)


@pytest.mark.parametrize(
    ("options", "weight", "words"),
    [
        ({"size_min": 11}, None,
         "size_min=11 and n_clusters=5 need a total size of at least 55, but X has n_samples=50."),
        ({"size_max": 9.5}, None,
         "total size of 45, but X has n_samples=50. Raise size_max to at least 10, or n_clusters."),
        ({"size_min": 10, "size_max": 9}, None,
         "size_min=10 is above size_max=9; swap them or give one."),
        ({"size_max": 11.9}, HEAVY,
         "a total size of 55, but X has the weight 61. Raise size_max to at least 13"),
        ({"size_max": 12.5, "size_min": 12.5}, HEAVY / 2,
         "need a total size of at least 62.5, but X has the weight 30.5"),
        ({"size_max": 11}, np.r_[np.full(49, 0.5), 12.0],
         "A row has the weight 12, more than size_max=11. Raise size_max, or divide"),
        ({"size_min": UNEQUAL.sum() / 5, "size_max": UNEQUAL.sum() / 5}, UNEQUAL,
         "was found: rows cannot be divided, and their weights go up to"),
        ({"size_min": -1}, None, "size_min"),
        ({"size_max": 0}, None, "size_max"),
        ({"size_max": 20, "algorithm": "hartigan"}, None,
         "not work with algorithm='hartigan'; use algorithm='auto', 'lloyd', 'swap'."),
        ({"size_max": 20, "distortion": "mahalanobis"}, None, "use distortion=None."),
    ],
)  # fmt: skip
def test_limits_that_cannot_hold_are_refused(options, weight, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        KMeans(5, random_state=0, **options).fit(X, sample_weight=weight)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_infinite_limit_is_none():
    with_limit, without = (
        KMeans(5, random_state=0, size_min=8, size_max=high).fit(X) for high in (np.inf, None)
    )
    assert np.array_equal(with_limit.labels_, without.labels_)


def test_blocks_are_refused():
    with pytest.raises(ValueError, match="size_max=9 needs all rows in memory"):
        KMeans(5, size_max=9).fit(blocks(X))


def test_a_gap_of_an_earlier_fit_is_replaced():
    weight = weights_for(50)
    model = KMeans(3, random_state=0, size_max=weight.sum() / 2).fit(X, sample_weight=weight)
    assert math.isfinite(model.assignment_gap_)
    model.set_params(size_max=None).fit(X)
    assert model.assignment_gap_ == 0.0


def test_weights_too_different_for_limits_raise():
    """In whole units of the total, light rows would have other weights, and limits break."""
    X, w = np.random.default_rng(0).normal(size=(40, 2)), np.full(40, 0.3)
    w[0] = 1e15
    with pytest.raises(ValueError, match="too different for size limits of 2"):
        KMeans(5, size_min=2, random_state=0).fit(X, sample_weight=w)
    KMeans(5, size_min=0, random_state=0).fit(X, sample_weight=w)
