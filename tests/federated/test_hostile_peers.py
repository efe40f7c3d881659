"""Peers that lie are dropped with a reason, and the others get the fit they would have alone."""

from __future__ import annotations

import numpy as np
import pytest
from api import FlowerTransport, fit, server_options
from federated.fake_grid import BOX, FakeGrid, LyingNode, Node, blobs, loader

from kvariates.federated import client_app

SHARDS = np.array_split(blobs(200), 4)
LIAR = 2


def lie(name, **parts):
    """Change parts of the answers to one question; a function gets the true value."""

    def change(asked, answer):
        if asked != name or not isinstance(answer, dict):
            return answer
        values = {
            part: value(answer[part]) if callable(value) else value for part, value in parts.items()
        }
        return {**answer, **values}

    return change


def growing(asked, answer, seen=[]):  # noqa: B006
    if asked != "potential":
        return answer
    seen.append(1)
    return {"potential": answer["potential"] if len(seen) == 1 else 100.0 + len(seen)}


def without(asked, answer):
    return {} if asked == "potential" else answer


def first(array, value):
    changed = array.copy()
    changed.flat[0] = value
    return changed


def endless(asked, answer):
    return None if asked == "potential" else answer


def oversized(asked, answer):
    return b"x" * 2000 if asked == "potential" else answer


def nonsense(asked, answer):
    return b"\x00\x00\x00\x02{}" if asked == "potential" else answer


LIES = {
    "NaN potential": (lie("potential", potential=np.nan), "its potential is nan"),
    "infinite potential": (lie("potential", potential=np.inf), "its potential is inf"),
    "negative potential": (lie("potential", potential=-1.0), "its potential is -1"),
    "other weight": (lie("potential", potential=1e6), "its weight was 50"),
    "enormous potential": (
        lie("potential", potential=lambda v: v if v == 50.0 else 41_000.0),
        "at most 40000 is possible",
    ),
    "growing potential": (growing, "has grown"),
    "potential of digits": (lie("potential", potential=10**400), "malformed"),
    "text as potential": (lie("potential", potential="much"), "could not convert"),
    "no potential": (without, "no 'potential'"),
    "too many rows": (lie("describe", n=10**9, weight=1e9), "at most 100 are possible"),
    "too much weight": (lie("describe", weight=1e9), "at most 100 are possible"),
    "negative weight": (lie("describe", weight=-1.0), "describes 50 rows of weight -1"),
    "wrong dimension": (lie("describe", d=3), "has 3 features, the public bounds have 2"),
    "wrong dtype": (lie("describe", dtype="|O"), "has rows of type object"),
    "values beyond the bounds": (
        lie("describe", scale=lambda v: [1e300, *v[1:]]), "outside the public bounds"),
    "impossible magnitudes": (
        lie("describe", scale=lambda v: [v[0], -1.0, *v[2:]]), "not one of rows"),
    "NaN magnitudes": (lie("describe", scale=lambda v: [np.nan, *v[1:]]), "not one of rows"),
    "spread": (lie("spread", spread=1e9), "its spread is 1e+09"),
    "centre outside": (lie("draw", points=np.array([[11.0, 0.0]])), "outside the public bounds"),
    "NaN centre": (lie("draw", points=np.array([[np.nan, 0.0]])), "should be finite"),
    "centre of 3 features": (lie("draw", points=np.zeros((1, 3))), "should be finite, of shape"),
    "two centres": (lie("draw", points=np.zeros((2, 2))), "should be finite, of shape"),
    "counts above n": (lie("assign", counts=lambda c: c + 20), "more than its 50 rows"),
    "counts that overflow": (
        lie("assign", counts=lambda c: np.full_like(c, 2**62)), "more than its 50 rows"),
    "negative count": (lie("assign", counts=lambda c: first(c, -1)), "a count is negative"),
    "too many changes": (lie("assign", changed=51), "the labels of 51 rows"),
    "weights above the weight": (
        lie("assign", weights=lambda w: first(w, 100 << 30)), "its weights add up to more than 50"),
    "sums outside": (
        lie("assign", sums=lambda s: first(s, 40 << 30)), "rows inside the public bounds"),
    "limbs that overflow": (lie("assign", sums=lambda s: first(s, 2**62)), "larger than those"),
    "sums of floats": (lie("assign", sums=lambda s: s.astype(float)), "sums should be int64"),
    "sums of another shape": (lie("assign", sums=lambda s: s[:, :1]), "sums should be int64"),
    "column sums": (
        lie("column_sums", limbs=lambda s: first(s, 99 << 30)), "rows inside the public bounds"),
    "enormous cost": (lie("evaluate", cost=1 << 1100), "its cost is"),
    "negative cost": (lie("evaluate", cost=-1), "its cost is -"),
    "float cost": (lie("evaluate", cost=1.0), "not an integer"),
    "endless": (endless, "no answer within 0.3 s"),
    "oversized": (oversized, "more than 1500"),
    "nonsense": (nonsense, "cannot be decoded"),
}  # fmt: skip


def fitted(nodes):
    transport = FlowerTransport(FakeGrid(nodes), 0.3, max_bytes=1500)
    options = server_options(4, bounds=BOX, max_rows=100, random_state=2)
    return fit(transport, options)


@pytest.mark.parametrize(("change", "words"), LIES.values(), ids=LIES.keys())
def test_a_peer_that_lies_is_dropped_with_the_reason(change, words):
    app = client_app(loader(SHARDS), random_state=5)
    nodes = [Node(app, i) for i in range(4)]
    nodes[LIAR] = LyingNode(app, LIAR, change)
    found = fitted(nodes)
    assert [dropped.peer for dropped in found.transcript.dropped] == [str(LIAR)]
    assert words in found.transcript.dropped[0].reason
    assert "\n" not in found.transcript.dropped[0].reason
    assert str(LIAR) in found.guarantee_lost
    rest = np.concatenate([shard for i, shard in enumerate(SHARDS) if i != LIAR])
    nearest = ((rest[:, None] - found.centers[None]) ** 2).sum(axis=2).min(axis=1).sum()
    assert found.inertia == pytest.approx(nearest)
    assert (np.abs(found.centers) <= 10).all()


def test_a_peer_that_is_dropped_at_once_cannot_steer():
    app = client_app(loader(SHARDS), random_state=5)
    honest = [Node(app, i) for i in range(4) if i != LIAR]
    liar = LyingNode(app, LIAR, lie("describe", weight=np.inf))
    with_liar = fitted([*honest[:2], liar, *honest[2:]])
    assert with_liar.centers.tobytes() == fitted(honest).centers.tobytes()


def test_a_name_belongs_to_the_node_that_said_it_first():
    app = client_app(loader(SHARDS), random_state=5)
    nodes = [Node(app, i) for i in range(3)]
    nodes[2].context.node_config = {"partition-id": 1, "name": "1"}
    transport = FlowerTransport(FakeGrid(nodes), 1.0)
    assert transport.peers() == ["0", "1", "1 (999)"]
