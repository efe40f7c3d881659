"""The state of a stream: counts, forgetting, spread, merging and saving."""

import numpy as np
import pytest
from api import SYNOPSES, StreamState
from laws.test_summary_laws import same, stream
from scipy.spatial.distance import cdist
from scipy.stats import norm

every_synopsis = pytest.mark.parametrize("name", SYNOPSES)
PLAIN = (np.ndarray, int, float, str, bool, type(None))


def state_of(X, weight=None, name="coreset", half_life=None, batch=100):
    state = StreamState(40, 3, name, half_life, np.random.default_rng(0))
    for first in range(0, len(X), batch):
        part = slice(first, first + batch)
        state.add(X[part], None if weight is None else weight[part])
    return state


@every_synopsis
def test_counts_and_totals(name):
    X, weight = stream()
    state = state_of(X, weight, name)
    assert state.rows_seen == 1500
    assert state.weight_seen == weight.sum() == state.synopses().total
    assert same(state.synopses(), state.synopses())


@every_synopsis
@pytest.mark.parametrize("half_life", [None, 200.0])
def test_a_restored_stream_continues_with_the_same_draws(name, half_life):
    X, weight = stream()
    plain = state_of(X, weight, name, half_life)
    state = state_of(X[:700], weight[:700], name, half_life)
    state.synopses()  # asking changes no later draw
    saved = state.to_dict()
    state.add(X[700:], weight[700:])  # must not change what was saved
    restored = StreamState.from_dict(saved)
    for first in range(700, 1500, 100):
        restored.add(X[first : first + 100], weight[first : first + 100])
    assert same(restored.synopses(), plain.synopses())
    assert restored.spread() == plain.spread()
    assert restored.to_dict()["generators"] == plain.to_dict()["generators"]


def plain(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(part) for key, part in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return type(value) in PLAIN


@every_synopsis
def test_a_state_is_plain(name):
    assert plain(state_of(*stream(), name, 10.0).to_dict())


# ---- forgetting ----


def remaining(n, half_life):
    """Return the weights of n rows: halved by every `half_life` rows that follow."""
    return np.exp2(-np.arange(n)[::-1] / half_life)


@pytest.mark.parametrize("batch", [1, 7, 30])
def test_a_weight_is_halved_every_half_life(batch):
    X, weight = stream(30)
    weight += 1
    state = state_of(X, weight, half_life=2.5, batch=batch)
    points, expected = state.synopses(), weight * remaining(30, 2.5)
    assert np.array_equal(points.points, X)
    assert np.allclose(points.weights, expected, rtol=1e-12)
    assert np.isclose(state.weight_seen, expected.sum(), rtol=1e-12)


@every_synopsis
def test_forgetting_is_the_same_as_weights_given_by_hand(name):
    """1536 rows are 6 half-lives: the units of weights differ by a power of two."""
    X, _ = stream(1536)
    forgetting = state_of(X, None, name, 256.0).synopses()
    given = state_of(X, remaining(1536, 256.0), name).synopses()
    assert np.array_equal(forgetting.points, given.points)
    assert np.allclose(forgetting.weights, given.weights, rtol=1e-9)


@every_synopsis
@pytest.mark.parametrize("batch", [1, 1500])
def test_long_streams_forget_all_but_the_last_rows(name, batch):
    """1500 half-lives are more than float64 has; weights are scaled on the way."""
    X, _ = stream()
    state = state_of(X, None, name, 1.0, batch)
    points = state.synopses()
    assert np.isclose(state.weight_seen, 2.0, rtol=1e-12)
    assert np.isclose(points.total, 2.0, rtol=1e-9)
    assert np.isfinite(points.weights).all()
    if name == "coreset":  # the rows that weigh most
        assert np.array_equal(points.points[-3:], X[-3:])
        assert np.allclose(points.weights[-3:], [0.25, 0.5, 1], rtol=1e-12)


# ---- merging ----


@every_synopsis
def test_merged_streams(name):
    X, weight = stream()
    left, right = state_of(X[:600], weight[:600], name), state_of(X[600:], weight[600:], name)
    before = right.to_dict()["generators"]
    left.merge(right)
    assert left.rows_seen == 1500
    assert left.weight_seen == weight.sum() == left.synopses().total
    assert right.rows_seen == 900
    assert right.to_dict()["generators"] == before
    assert right.synopses().total == weight[600:].sum()


def test_merged_streams_have_the_witnesses_of_both():
    X, weight = stream(900)
    left, right = state_of(X[:500], weight[:500]), state_of(X[500:], weight[500:])
    left.merge(right)
    assert left.spread().standard_error == 0
    assert np.isclose(left.spread().value, true_spread(X, weight, left), rtol=1e-9)


def test_merged_streams_end_at_the_same_time():
    X, _ = stream(30)
    left, right = state_of(X[:10], half_life=3.0), state_of(X[10:], half_life=3.0)
    left.merge(right)
    points = left.synopses()
    expected = np.concatenate([remaining(10, 3.0), remaining(20, 3.0)])
    assert np.array_equal(points.points, X)
    assert np.allclose(points.weights, expected, rtol=1e-12)
    assert np.isclose(left.weight_seen, expected.sum(), rtol=1e-12)


# ---- spread ----


def true_spread(X, weight, state):
    cost = cdist(X, state.synopses().points, "sqeuclidean").min(axis=1)
    return float(weight @ cost)


@every_synopsis
def test_the_spread_of_few_rows_is_exact(name):
    X, weight = stream(900)
    spread = state_of(X, weight, name).spread()
    assert spread.standard_error == 0
    assert np.isclose(spread.value, true_spread(X, weight, state_of(X, weight, name)), rtol=1e-9)


@pytest.mark.parametrize("half_life", [None, 4000.0])
def test_the_spread_is_estimated_within_its_error(half_life):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8000, 3))
    weight = np.ones(8000) if half_life is None else remaining(8000, half_life)
    errors = []
    for _ in range(20):
        state = StreamState(60, 3, "coreset", half_life, rng)
        state.add(X, None)
        spread = state.spread()
        errors.append((spread.value - true_spread(X, weight, state)) / spread.standard_error)
    assert abs(np.mean(errors)) * len(errors) ** 0.5 < norm.isf(5e-7)
    assert 0.5 < np.std(errors) < 1.6


def test_a_batch_without_rows_or_weight_changes_nothing():
    X, _ = stream(200)
    state = state_of(X)
    before = state.synopses()
    state.add(X[:0], None)
    assert state.rows_seen == 200
    state.add(X[:5], np.zeros(5))
    assert state.rows_seen == 205
    assert state.weight_seen == 200
    assert same(state.synopses(), before)
