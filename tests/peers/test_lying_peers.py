"""Peers that lie are dropped with the reason, or are one error where all rows are needed."""

import numpy as np
import pytest
from api import PEER_SEEDINGS, PeerLost, guarantee_of
from laws.cases import rows, weights_for
from peers.local_peers import box_of, fitted, local, lying, peers_of, shards_of
from peers.local_transport import LocalTransport

SHARDS = shards_of(rows(300, 3), (100, 200))
GROWING = iter([100.0, *(10.0 * i for i in range(1, 20))])  # the weight at first, then it grows


def changed(**parts):
    """Change parts of an answer; a function gets the true value."""
    return lambda answer: {
        **answer,
        **{name: f(answer[name]) if callable(f) else f for name, f in parts.items()},
    }


LIES = {
    "a potential that is no number": ("potential", changed(potential=np.nan), "is nan"),
    "a negative potential": ("potential", changed(potential=-1.0), "is -1"),
    "a growing potential": (
        "potential",
        lambda answer: answer if answer["potential"] == 100 else {"potential": next(GROWING)},
        "has grown",
    ),
    "an answer of another kind": ("potential", changed(potential="much"), "could not convert"),
    "an answer without the value": ("potential", lambda answer: {}, "has no 'potential'"),
    "a row of another dimension": ("draw", changed(points=np.zeros((1, 9))), "of shape"),
    "a row that is not finite": ("draw", changed(points=np.full((1, 3), np.inf)), "finite"),
    "sums of another shape": ("assign", changed(sums=np.zeros(2, np.int64)), "sums should be"),
    "sums that are not integers": ("assign", lambda a: {**a, "sums": a["sums"] * 1.0}, "int64"),
    "negative counts": ("assign", lambda a: {**a, "counts": a["counts"] - 999}, "negative"),
    "a negative spread": ("spread", changed(spread=-2.0), "spread is -2"),
    "other features": ("describe", changed(d=7), "has 7 features, others have 3"),
    "no rows": ("describe", changed(n=-5), "describes -5 rows"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies_is_dropped_with_the_reason(lie):
    question, change, reason = LIES[lie]
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    transport = LocalTransport(peers | {"peer 1": lying(question, change, SHARDS)})
    # The first peer is drawn for some centre: with nine centres a row of every peer is asked for.
    found = fitted(transport, 9, "dk-means++", least=2, shows_rows=False, seed=1)
    (dropped,) = found.transcript.dropped
    assert dropped.peer == "peer 1"
    assert reason in dropped.reason
    assert found.centers.shape == (9, 3)
    assert "peer 1" in guarantee_of("dk-means++", 9, found)


def put(value):
    """Replace the first value."""

    def change(values):
        copy = values.copy()
        if isinstance(copy, list):
            copy[0] = value
        else:
            copy.flat[0] = value
        return copy

    return change


def of_costs(value):
    """Replace the total of the costs, not that of the weights."""
    return changed(total=lambda total: total if total == 107 << 88 else value())


BEYOND = 100 << 92  # units of an exact sum: each of the 100 rows is below 1 << 92
GROWING_TOTALS = iter(range(1, 99))
# question, lie, words of the reason; all of them are read in exact seedings.
EXACT_LIES = [
    ("take", changed(points=lambda p: p[:, :2]), "rows should be finite, of shape (1, 3)"),
    ("take", changed(points=lambda p: p.astype(np.float32)), "rows should be finite"),
    ("take", changed(points=lambda p: p.tolist()), "rows should be finite"),
    ("take", changed(points=put(np.nan)), "rows should be finite"),
    ("take", changed(points=put(-99.0)), "outside the public bounds"),
    ("take", lambda answer: {}, "has no 'points'"),
    ("largest", changed(largest=np.nan), "largest cost is nan"),
    ("largest", changed(largest=-1.0), "largest cost is -1"),
    ("largest", changed(largest=np.inf), "largest cost is inf, at most"),
    ("largest", changed(largest=10**400), "malformed"),
    ("total", changed(total=-1), "total should be from 0"),
    ("total", changed(total=1.0), "total should be 1 integers"),
    ("total", changed(total=BEYOND + 1), "total should be from 0 to 4.95176e+29"),
    ("total", of_costs(lambda: BEYOND), "its total is"),  # more than that of rows in two corners
    ("total", changed(total=lambda t: 2 * t), "weights add up to 214, it described 107"),
    ("total", changed(total=1 << 99_999), "total should be from 0"),
    ("total", of_costs(lambda: next(GROWING_TOTALS)), "total should be from 0 to 1"),
    ("propose", changed(row=100), "row number should be from 0 to 99"),
    ("propose", changed(row=-1), "row number should be from 0"),
    ("propose", changed(row=0.0), "row number should be 1 integers"),
    ("propose", changed(bound=np.nan), "cost of a row should be finite"),
    ("propose", changed(cost=-1.0), "cost of a row should be finite"),
    ("propose", changed(bound=1e9, cost=1e9), "cost of a row should be finite, from 0 to"),
    ("propose", changed(bound=0.0, cost=0.0), "had the cost 0, and now has 0"),
    ("propose", lambda a: {**a, "bound": a["cost"] / 2}, "had the cost"),
    ("gain_bounds", changed(bounds=lambda b: b[:1]), "bounds of gains should be float64 of shape"),
    ("gain_bounds", changed(bounds=put(np.nan)), "not finite, or not in order"),
    ("gain_bounds", changed(bounds=lambda b: b[:, ::-1].copy()), "not finite, or not in order"),
    ("gain_bounds", changed(bounds=lambda b: b - 1e9), "not finite, or not in order"),
    ("gain_bounds", changed(bounds=lambda b: b + 1e9), "its gain is at least 1e+09, but its total"),
    ("gains", changed(gains=lambda g: g[:-1]), "gains should be"),
    ("gains", changed(gains=put(-1)), "gains should be from 0"),
    ("gains", changed(gains=put(BEYOND)), "gains should be from 0"),
    ("gains", changed(gains=put(0.5)), "gains should be"),
    ("rows_at", changed(rows=put(100)), "row numbers should be from 0 to 99"),
    ("rows_at", changed(rows=put(-1)), "row numbers should be from 0 to 99"),
    ("rows_at", changed(rows=lambda r: r[:0]), "row numbers should be int64 of shape"),
    ("rows_at", changed(rows=lambda r: r * 1.0), "row numbers should be int64"),
    ("masses", changed(masses=lambda m: m[1:]), "masses should be"),
    ("masses", changed(masses=put(-1)), "masses should be from 0"),
    ("masses", changed(masses=lambda m: [2 * v for v in m]), "weights add up to 214, it described"),
    ("masses", changed(masses=lambda m: [0 for _ in m]), "weights add up to 0, it described 107"),
]  # fmt: skip
INIT = {"gain_bounds": "k-means++", "gains": "k-means++", "rows_at": "k-means||",
        "masses": "k-means||"}  # fmt: skip


@pytest.mark.parametrize(("question", "change", "words"), EXACT_LIES)
def test_a_lie_in_an_exact_seeding_is_an_error_with_the_reason(question, change, words):
    weights = np.where(np.arange(100) == 0, 8.0, 1.0)
    shards = [(np.repeat(X[:10], 10, axis=0), weights) for X, _ in SHARDS]  # for equal gains
    peers = {name: peer.answer for name, peer in peers_of(shards).items()}
    peers["peer 1"] = lying(question, change, shards)
    with pytest.raises(PeerLost) as error:
        fitted(LocalTransport(peers), 9, INIT.get(question, "d2"), bounds=box_of(shards))
    assert str(error.value).startswith("peer peer 1: ")
    assert words in str(error.value)


def test_peers_whose_rows_are_never_accepted_are_no_endless_loop():
    """A cost falls only if centres are new."""
    lie = changed(cost=0.0)
    peers = {f"peer {i}": lying("propose", lie, SHARDS, f"peer {i}") for i in range(3)}
    with pytest.raises(PeerLost, match="and now has 0"):
        fitted(LocalTransport(peers), 9, "d2")


FAR_LIES = [
    ("far_costs", changed(costs=lambda c: c[:1]), "far costs should be float64 of shape (2,)"),
    ("far_costs", changed(costs=put(np.inf)), "cost of a row should be finite"),
    ("far_costs", changed(costs=put(-1.0)), "cost of a row should be finite"),
    ("far_costs", changed(costs=put(1e9)), "cost of a row should be finite, from 0 to"),
    ("far_rows", changed(points=put(99.0)), "outside the public bounds"),
    ("far_rows", changed(points=lambda p: p[:, :1]), "rows should be finite, of shape (2, 3)"),
    ("far_rows", changed(labels=put(4)), "labels should be from 0 to 3"),
    ("far_rows", changed(labels=put(-1)), "labels should be from 0 to 3"),
    ("far_rows", changed(labels=lambda v: v + 0.5), "labels should be int32"),
    ("far_rows", changed(labels=lambda v: np.full_like(v, 3)), "more far rows than rows in a"),
    ("far_rows", changed(weights=put(-1.0)), "row weights should be from 0 to 1"),
    ("far_rows", changed(weights=put(2.0)), "row weights should be from 0 to 1"),
    ("far_rows", changed(weights=put(np.nan)), "row weights should be from 0 to 1"),
    ("far_rows", changed(costs=lambda c: c / 2), "not those that it said before"),
    ("far_rows", lambda answer: {**answer, "costs": answer["costs"][:1]}, "far costs should be"),
]


@pytest.mark.parametrize(("question", "change", "words"), FAR_LIES)
def test_a_lie_about_far_rows_drops_the_peer(question, change, words):
    far = SHARDS[1][0].copy()
    far[:2] += 20.0  # the two rows that fill the empty clusters
    shards = [SHARDS[0], (far, None), SHARDS[2]]
    peers = {name: peer.answer for name, peer in peers_of(shards).items()}
    peers["peer 1"] = lying(question, change, shards)
    init = np.vstack([SHARDS[0][0][:2], SHARDS[0][0][[1, 1]]])
    found = fitted(LocalTransport(peers), 4, init, least=2, bounds=box_of(shards))
    (dropped,) = found.transcript.dropped
    assert dropped.peer == "peer 1"
    assert words in dropped.reason
    assert np.isfinite(found.centers).all()


def honest_shards():
    """Rows of all kinds, that no check may refuse."""
    X, weights = rows(300, 3, np.float32), weights_for(300)
    cut = shards_of(X, (1, 2, 150))
    far = X.astype(float)
    far[7] = 1e8
    tiny = np.where(np.arange(300) < 150, 1e-7, 1e7)
    return {
        "single rows": cut,
        "no rows": [*cut, (X[:0], None)],
        "weights": shards_of(X, (1, 100), weights),
        "weights of zero": [*shards_of(X, (200,), weights), (X[:9], np.zeros(9))],
        "weights of some": [*cut[:3], (cut[3][0], weights[150:])],
        "weights far apart": shards_of(X, (100, 200), tiny),
        "weights of all sizes": shards_of(X, (100, 200), weights**9),
        "a far row": shards_of(far, (100, 200)),
        "far from zero": shards_of(rows(300, 40) + 1e6, (100, 200)),
        "few different rows": shards_of(np.repeat(X[:3], 40, axis=0), (60,)),
        "and weights of zero": shards_of(np.repeat(X[:3], 40, axis=0), (60,), np.arange(120) % 2.0),
    }


def random_shards(rng):
    """A few rows of any size, cut anywhere, with or without weights."""
    n, d = rng.integers(12, 100), rng.choice([1, 3, 40])
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 13) + rng.choice([0, 1, 1e6])
    X = X[rng.integers(rng.choice([3, n]), size=n)].astype(rng.choice(["f4", "f8"]))
    weights = weights_for(n, seed=n) if rng.random() < 0.5 else None
    parts = np.split(np.arange(n), np.sort(rng.integers(n + 1, size=5)))
    return [(X[part], None if weights is None else weights[part]) for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize("init", [*PEER_SEEDINGS, "rows"])
def test_honest_peers_of_few_rows_are_never_dropped(init):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shards = random_shards(rng)
        X = np.concatenate([X for X, _ in shards])
        start = X[rng.integers(len(X), size=6)].astype(float) if init == "rows" else init
        found = fitted(
            local(shards), 6, start, seed, least=1, bounds=box_of(shards), tol=0.0, max_iter=50
        )
        assert found.transcript.dropped == [], seed


@pytest.mark.parametrize("kind", honest_shards())
@pytest.mark.parametrize("init", [*PEER_SEEDINGS, "empty clusters"])
def test_an_honest_peer_is_never_dropped(kind, init):
    shards = honest_shards()[kind]
    if init == "empty clusters":
        init = np.repeat(np.vstack([X[:2] for X, _ in shards])[[0, 2]], 4, axis=0).astype(float)
    found = fitted(local(shards), 8, init, least=1, bounds=box_of(shards))
    assert found.transcript.dropped == []
    assert found.inertia == fitted(local(shards), 8, init).inertia
