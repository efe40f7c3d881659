"""Laws of OnlineKMeans: exact running means, and nothing depends on layout, order or a pause."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from api import ClusterSums, OnlineKMeans, Rows
from laws.cases import DTYPES, LAYOUTS, rows, weights_for

BATCHES = [rows(40, 3, seed=seed) for seed in range(9)]


def learned(batches, weights=None, **options):
    model = OnlineKMeans(4, **{"random_state": 3, **options})
    for batch, weight in zip(batches, weights or [None] * len(batches), strict=True):
        model.partial_fit(batch, sample_weight=weight)
    return model


def bits(model):
    return model.cluster_centers_.tobytes()


def exact_means(centers, batches, weights):
    """Move centres as the model does, with fractions and one row at a time."""
    centers = centers.copy()
    sums = np.full(centers.shape, Fraction(0))
    masses = np.full(len(centers), Fraction(0))
    for batch, weight in zip(batches, weights, strict=True):
        apart = ((batch[:, None].astype(float) - centers) ** 2).sum(axis=2)
        for row, w, label in zip(batch, weight, apart.argmin(axis=1), strict=True):
            # A weighted value is rounded to float64, once, before it is added.
            sums[label] += [Fraction(float(w) * float(v)) for v in row]
            masses[label] += Fraction(float(w))
        for j in np.flatnonzero(masses):
            centers[j] = [float(s / masses[j]) for s in sums[j]]
    return centers


@pytest.mark.parametrize("spread", [0, 60])
@pytest.mark.parametrize("weighted", [False, True])
def test_centres_are_the_exact_means_of_their_rows(weighted, spread):
    """`spread`: values of very different magnitude, of which floating point sums lose digits."""
    batches = [b * 10.0 ** (spread * (i % 2)) for i, b in enumerate(BATCHES)]
    weights = [weights_for(40, seed=i) if weighted else np.ones(40) for i in range(9)]
    start = learned(batches[:4], weights[:4], update=False).cluster_centers_
    found = learned(batches, weights if weighted else None).cluster_centers_
    assert np.array_equal(found, exact_means(start, batches[3:], weights[3:]))


@pytest.mark.parametrize("weighted", [False, True])
def test_integers_are_the_sums_of_the_limbs(weighted):
    X = rows(50, 2, seed=5) * np.logspace(-150, 140, 50)[:, None]
    weight = weights_for(50) if weighted else None
    labels = (np.arange(50) % 3).astype(np.int32)
    found = ClusterSums(Rows.of(X), weight, 3).recompute(labels)
    terms = X if weight is None else X * weight[:, None]
    for j in range(3):
        for column in range(2):
            exact = sum(map(Fraction, terms[labels == j, column]))
            assert Fraction(found.sums.integers[j, column], 2**1074) == exact


def test_integer_weights_are_repeats():
    grid = [np.round(8 * b) for b in BATCHES]
    weights = [np.random.default_rng(i).integers(0, 4, size=40) for i in range(9)]
    repeats = [np.repeat(b, w, axis=0) for b, w in zip(grid, weights, strict=True)]
    # The draws of the first four batches agree in law only, so they are the same here.
    start = [b[:1] for b in grid[:4]]
    one = learned([*start, *grid[4:]], [[1.0]] * 4 + weights[4:])
    other = learned([*start, *repeats[4:]])
    assert bits(one) == bits(other)


def test_the_order_of_the_rows_of_a_batch_does_not_matter():
    rng = np.random.default_rng(0)
    assert bits(learned([rng.permutation(b) for b in BATCHES])) == bits(learned(BATCHES))


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_dtypes_agree(layout, update):
    """On values that float32 and a sparse distance hold exactly."""
    grid = [np.round(b) for b in BATCHES]
    expected = learned(grid, update=update).cluster_centers_
    for dtype in DTYPES:
        found = learned([LAYOUTS[layout](b.astype(dtype)) for b in grid], update=update)
        assert found.cluster_centers_.dtype == dtype
        assert np.array_equal(found.cluster_centers_, expected.astype(dtype))


def test_predictions_at_any_time_are_nearest_centres():
    model = OnlineKMeans(4, random_state=0)
    for i, batch in enumerate(BATCHES):
        model.partial_fit(batch)
        assert len(model.cluster_centers_) == min(i + 1, 4)
        apart = ((BATCHES[0][:, None] - model.cluster_centers_) ** 2).sum(axis=2)
        assert np.array_equal(model.predict(BATCHES[0]), apart.argmin(axis=1))
        assert model.transform(batch).shape == (40, min(i + 1, 4))


@pytest.mark.parametrize("pause", [1, 3, 6])
def test_a_stored_model_goes_on_as_if_nothing_had_happened(pause):
    stored = pickle.loads(pickle.dumps(learned(BATCHES[:pause])))
    for batch in BATCHES[pause:]:
        stored.partial_fit(batch)
    assert bits(stored) == bits(learned(BATCHES))


def test_updates_lower_the_cost_of_a_steady_stream():
    batches = [rows(300, 3, seed=i % 2) for i in range(20)]
    whole = np.concatenate(batches[:2])
    scores = {
        update: np.mean([
            learned(batches, update=update, random_state=seed).score(whole) for seed in range(10)
        ])
        for update in (False, True)
    }  # fmt: skip
    assert scores[True] > 0.9 * scores[False]
