"""Summaries against their exact laws: unbiased weights and costs, uniform samples, k-means#."""

import itertools

import numpy as np
import pytest
from api import (
    MergeReduce,
    Reservoir,
    SummaryOptions,
    WeightedPoints,
    coreset,
    kmeans_sharp,
    lightweight,
    rounded_to_integers,
)
from api import merge_reduce_module as merge_reduce
from sampling import exact
from sampling.chi_square import ALPHA, follows, unbiased
from scipy.stats import chi2_contingency

REDUCTIONS = {"coreset": coreset, "lightweight": lightweight}
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS.values(), ids=REDUCTIONS)


def some_rows(n, seed=0):
    """Return rows in clusters of different sizes, the first column being their number."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 5 * rng.integers(3, size=(n, 1)) ** 2
    X[:, 0] = np.arange(n)
    X[:, 0] /= 64
    return X


def numbers(points):
    return np.rint(points.points[:, 0] * 64).astype(int)


def new_weights(points, n):
    out = np.zeros(n)
    out[numbers(points)] = points.weights
    return out


# ---- coresets ----


def reduced(reduction, X, weight, size, runs):
    rng, rows = np.random.default_rng(1), WeightedPoints(X, weight)
    return [reduction(rows, SummaryOptions(size, 3), rng) for _ in range(runs)]


WEIGHTS = {
    "equal": np.ones(30),
    "counts": np.random.default_rng(2).integers(1, 9, 30).astype(float),
    "a heavy row": np.append(np.full(29, 0.5), 300.0),
}


@every_reduction
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_a_reduction_keeps_every_weight_on_average(reduction, weight):
    X = some_rows(30)
    found = reduced(reduction, X, weight, 9, 1500)
    assert max(points.n for points in found) <= 9
    assert unbiased(np.array([new_weights(points, 30) for points in found]), weight)


@every_reduction
def test_the_cost_of_fixed_centers_is_unbiased(reduction):
    X, weight = some_rows(30), WEIGHTS["counts"]
    centers = [X[[0, 9]], X[[3, 4, 29]] + 1, np.zeros((1, 3))]

    def costs(points, weights):
        apart = [((points[:, None] - c) ** 2).sum(axis=2).min(axis=1) for c in centers]
        return [weights @ cost for cost in apart]

    found = reduced(reduction, X, weight, 9, 1500)
    samples = np.array([costs(points.points, points.weights) for points in found])
    assert unbiased(samples, np.array(costs(X, weight)))


def test_biased_reductions_would_be_seen():
    X, weight = some_rows(30), WEIGHTS["counts"]
    rows = WeightedPoints(X, weight)
    rng, n = np.random.default_rng(3), 1500

    def equal(points, new):
        return np.full(len(new), rows.total / len(new))

    def by_nearest(points, new):
        near = ((X[:, None] - points[None]) ** 2).sum(axis=2).argmin(axis=1)
        return np.bincount(near, weight, len(points))

    for wrong in (equal, by_nearest):
        samples = np.zeros((n, 30))
        for sample in samples:
            points = coreset(rows, SummaryOptions(9, 3), rng)
            sample[numbers(points)] = wrong(points.points, points.weights)
        assert not unbiased(samples, weight)


# ---- merge and reduce ----


def tree(X, rng, size=8, batch=50):
    summary = MergeReduce(SummaryOptions(size, 2), coreset)
    for first in range(0, len(X), batch):
        summary.add(WeightedPoints.of(X[first : first + batch], None), rng)
    return summary


@pytest.fixture
def small_buckets(monkeypatch):
    """Buckets as small as the summary, so that few rows make several levels."""
    monkeypatch.setattr(merge_reduce, "LARGER", 1)


@pytest.mark.usefixtures("small_buckets")
def test_weights_are_unbiased_through_several_levels():
    """Leaves have 64 rows, and 8 buckets make one of the next level: 550 rows need two levels."""
    X, rng = some_rows(550), np.random.default_rng(4)
    samples = np.array([new_weights(tree(X, rng).points(rng), 550) for _ in range(300)])
    assert (samples.sum(axis=1) == 550).all()
    groups = np.add.reduceat(samples, np.arange(0, 550, 11), axis=1)  # single rows are kept rarely
    assert unbiased(groups, np.full(50, 11.0))


@pytest.mark.usefixtures("small_buckets")
def test_a_merged_summary_has_the_law_of_one():
    """Both streams fill their leaves, so the tree is the same: here with 2 and 6 buckets."""
    X, cut = some_rows(8 * 32), 2 * 32

    def apart(rng):
        parts = tree(X[:cut], rng, 4), tree(X[cut:], rng, 4)
        parts[0].merge(parts[1], rng)
        return parts[0]

    def together(rng):
        return tree(X, rng, 4)

    counts = []
    for number, make in enumerate((apart, together)):
        rng = np.random.default_rng(5 + number)
        chosen = np.concatenate([numbers(make(rng).points(rng))[:1] for _ in range(400)])
        counts.append(np.bincount(chosen // 8, minlength=32))
    counts = np.array(counts)[:, np.sum(counts, axis=0) >= 16]
    assert counts.shape[1] >= 4
    assert chi2_contingency(counts).pvalue > ALPHA


def test_merged_weights_are_unbiased_for_any_cut():
    X, rng = some_rows(150), np.random.default_rng(7)
    samples = np.zeros((500, 150))
    for sample in samples:
        left, right = tree(X[:97], rng, 6), tree(X[97:], rng, 6)
        left.merge(right, rng)
        sample += new_weights(left.points(rng), 150)
    assert (samples.sum(axis=1) == 150).all()
    assert unbiased(np.add.reduceat(samples, np.arange(0, 150, 5), axis=1), np.full(30, 5.0))


# ---- reservoir ----

RATES = np.array([1.0, 4, 2, 0.5, 3])
RUNS = 4000


def sets_law(rates, size):
    """Return the law of the kept set: draws by weight without replacement."""
    law = exact.sequence_law_of(exact.forgy_step, np.zeros((len(rates),) * 2), size, rates)
    return exact.pushed(law, frozenset)


def filled(X, weight, size, rng, cuts=()):
    reservoir = Reservoir(SummaryOptions(size, 1))
    weight = np.ones(len(X)) if weight is None else weight
    for rows, weights in zip(np.split(X, cuts), np.split(weight, cuts), strict=True):
        reservoir.add(WeightedPoints(rows, weights), rng)
    return reservoir


def kept(reservoir, rng):
    return frozenset(reservoir.points(rng).points[:, 0].astype(int).tolist())


@pytest.mark.parametrize(("rates", "size"), [(RATES, 1), (np.ones(5), 2), (RATES, 3)])
def test_a_reservoir_is_a_draw_without_replacement(rates, size):
    X, rng = np.arange(5.0)[:, None], np.random.default_rng(8)
    drawn = [kept(filled(X, rates, size, rng, (1, 3)), rng) for _ in range(RUNS)]
    assert follows(drawn, sets_law(rates, size)) > ALPHA


def test_merged_reservoirs_are_one():
    X, rng, drawn = np.arange(5.0)[:, None], np.random.default_rng(9), []
    for _ in range(RUNS):
        left = filled(X[:2], RATES[:2], 2, rng)
        left.merge(filled(X[2:], RATES[2:], 2, rng), rng)
        drawn.append(kept(left, rng))
    assert follows(drawn, sets_law(RATES, 2)) > ALPHA


def test_a_weight_counts_as_so_many_equal_rows():
    """The order in which different rows are drawn first is the same."""
    counts, rng, drawn = np.array([1, 3, 2, 4]), np.random.default_rng(10), []
    X = np.repeat(np.arange(4.0), counts)[:, None]
    for _ in range(RUNS):
        part = filled(X, None, 6, rng).to_dict()["parts"][0]
        order = part["points"][np.argsort(part["keys"]), 0].astype(int).tolist()
        drawn.append(tuple(dict.fromkeys(order))[:2])
    law = exact.sequence_law_of(exact.forgy_step, np.zeros((4, 4)), 2, counts * 1.0)
    assert follows(drawn, law) > ALPHA


def test_a_uniform_sample_keeps_every_weight_on_average():
    """7 rows of weight 3, of which 4 are kept: weights are integers with the mean 21 / 4."""
    X, rng, samples = np.arange(7.0)[:, None] / 64, np.random.default_rng(11), np.zeros((3000, 7))
    for sample in samples:
        sample += new_weights(filled(X, np.full(7, 3.0), 4, rng).points(rng), 7)
    assert set(np.unique(samples)) == {0, 5, 6}
    assert (samples.sum(axis=1) == 21).all()
    assert unbiased(samples, np.full(7, 3.0))


def test_rounding_keeps_the_mean_and_the_total():
    weights, rng = np.array([1.25, 2.5, 3.0, 0.75, 4.5]), np.random.default_rng(12)
    samples = np.array([rounded_to_integers(weights, 12.0, rng) for _ in range(4000)])
    assert (samples.sum(axis=1) == 12).all()
    assert (np.abs(samples - weights) < 1).all()
    assert unbiased(samples, weights)


# ---- k-means# ----


def sharp_law(X, weights, first, later):
    """Return the law of the rows taken: `first` draws by weight, `later` draws by D^2 of them."""
    D, law = exact.squared(X), {}
    p = weights / weights.sum()
    for start in itertools.product(range(len(X)), repeat=first):
        chance = np.prod(p[list(start)])
        q = exact.plain_step(D, weights, list(set(start)))
        for rest in itertools.product(np.flatnonzero(q).tolist(), repeat=later):
            key = frozenset(start + rest)
            law[key] = law.get(key, 0.0) + chance * np.prod(q[list(rest)])
    return law


def test_kmeans_sharp_follows_its_law():
    """For k = 2 a round draws ceil(3 ln 2) = 3 rows; the size leaves two to the second round."""
    X = np.array([[0.0, 0], [1, 0], [0, 2.5], [6, 5], [7, 3.5], [-4, 1]])
    weights = np.array([1.0, 4, 2, 0.5, 3, 1])
    rows, rng, drawn = WeightedPoints(X, weights), np.random.default_rng(13), []
    number = {tuple(row): i for i, row in enumerate(X.tolist())}
    for _ in range(RUNS):
        points = kmeans_sharp(rows, SummaryOptions(5, 2), rng)
        near = ((X[:, None] - points.points) ** 2).sum(axis=2).argmin(axis=1)
        assert np.array_equal(points.weights, np.bincount(near, weights, points.n))
        drawn.append(frozenset(number[tuple(row)] for row in points.points.tolist()))
    assert follows(drawn, sharp_law(X, weights, 3, 2)) > ALPHA
