"""Peers that fail, lie, leave or join."""

import threading

import numpy as np
import pytest
from laws.cases import rows
from peers.local_peers import fitted, local, peers_of, shards_of

from kvariates.data.rows import Rows
from kvariates.peers.coordinator import Coordinator, PeerLost, call
from kvariates.peers.fitting import guarantee_of
from kvariates.peers.peer import Envelope, LogNeeded, Peer, Policy
from kvariates.peers.peer_seeding import PeersPotential
from kvariates.peers.questions import Question
from kvariates.peers.transport import LocalTransport

SHARDS = shards_of(rows(300, 3), (100, 200))
FEDERATED = frozenset(
    {"describe", "potential", "draw", "spread", "assign", "evaluate", "column_sums"}
)
GROWING = iter([100.0, *(10.0 * i for i in range(1, 20))])  # the weight at first, then it grows


def lying(question, change):
    """A peer that changes its answers to one question."""
    honest = peers_of(SHARDS)["peer 1"].answer

    def answer(envelope):
        found = honest(envelope)
        return change(found) if envelope.question.name == question else found

    return answer


def with_values(**values):
    return lambda answer: {**answer, **values}


LIES = {
    "a potential that is no number": ("potential", with_values(potential=np.nan), "is nan"),
    "a negative potential": ("potential", with_values(potential=-1.0), "is -1"),
    "a growing potential": (
        "potential",
        lambda answer: answer if answer["potential"] == 100 else {"potential": next(GROWING)},
        "has grown",
    ),
    "an answer of another kind": ("potential", with_values(potential="much"), "could not convert"),
    "an answer without the value": ("potential", lambda answer: {}, "has no 'potential'"),
    "a row of another dimension": ("draw", with_values(points=np.zeros((1, 9))), "of shape"),
    "a row that is not finite": ("draw", with_values(points=np.full((1, 3), np.inf)), "finite"),
    "sums of another shape": ("assign", with_values(sums=np.zeros(2, np.int64)), "sums should be"),
    "sums that are not integers": ("assign", lambda a: {**a, "sums": a["sums"] * 1.0}, "int64"),
    "negative counts": ("assign", lambda a: {**a, "counts": a["counts"] - 999}, "negative"),
    "a negative spread": ("spread", with_values(spread=-2.0), "spread is -2"),
    "other features": ("describe", with_values(d=7), "has 7 features, others have 3"),
    "no rows": ("describe", with_values(n=-5), "describes -5 rows"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies_is_dropped_with_the_reason(lie):
    question, change, reason = LIES[lie]
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    transport = LocalTransport(peers | {"peer 1": lying(question, change)})
    # The first peer is drawn for some centre: with nine centres a row of every peer is asked for.
    found = fitted(transport, 9, "dk-means++", least=2, shows_rows=False, seed=1)
    (dropped,) = found.transcript.dropped
    assert dropped.peer == "peer 1"
    assert reason in dropped.reason
    assert found.centers.shape == (9, 3)
    assert "peer 1" in guarantee_of("dk-means++", 9, found)


def test_a_late_peer_is_dropped():
    never = threading.Event()
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    slow = lying("potential", lambda answer: never.wait(20) or answer)
    try:
        transport = LocalTransport(peers | {"peer 1": slow}, timeout=0.5)
        found = fitted(transport, 3, "dk-means++", least=1, shows_rows=False)
        assert found.transcript.dropped[0].reason == "no answer within 0.5 s"
    finally:
        never.set()


def test_too_few_peers_are_one_error():
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    peers["peer 1"] = lying(*LIES["a negative potential"][:2])
    with pytest.raises(PeerLost, match=r"2 peers are left, but at least 3 are needed.*is -1"):
        fitted(LocalTransport(peers), 3, "dk-means++", least=3)
    with pytest.raises(PeerLost, match="peer 1: its potential is -1"):
        fitted(LocalTransport(peers), 3, "dk-means++")  # no peer may fail
    with pytest.raises(PeerLost, match="0 peers"):
        Coordinator(LocalTransport({}), 1)


def test_the_weight_of_a_lost_peer_leaves_the_potential():
    """After its loss, the result is that of the other peers alone."""
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    lost = LocalTransport(peers | {"peer 1": lying(*LIES["a negative potential"][:2])})
    others = LocalTransport({name: peers[name] for name in ("peer 0", "peer 2")})
    found, expected = (
        fitted(transport, 6, "dk-means++", least=1, shows_rows=False)
        for transport in (lost, others)
    )
    np.testing.assert_array_equal(found.centers, expected.centers)
    assert found.inertia == expected.inertia


def test_peers_leave_and_join():
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    coming = peers.pop("peer 2")
    honest, steps = peers["peer 0"], []

    def answer(envelope):
        steps.append(envelope.question.name)
        if steps.count("assign") == 2:
            peers.pop("peer 1", None)
            peers["peer 2"] = coming
        return honest(envelope)

    peers["peer 0"] = answer
    init = SHARDS[0][0][:4].copy()
    found = fitted(LocalTransport(peers), 4, init, least=1, shows_rows=False, tol=0.0)
    left = fitted(local([SHARDS[0], SHARDS[2]]), 4, found.centers.astype(float), tol=0.0)
    assert [dropped.reason for dropped in found.transcript.dropped] == ["the peer has left"]
    assert found.n_iter > 3
    np.testing.assert_array_equal(found.centers, left.centers)  # a fixed point of those left
    assert found.inertia == left.inertia
    assert found.transcript.joined == ["peer 2"]


def test_a_peer_joins_a_seeding():
    """It is asked before the next draw: from then on the draws are those of all peers."""
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    coming = peers.pop("peer 2")
    potential = PeersPotential(Coordinator(LocalTransport(peers), 1, 1), 4)
    potential.add(SHARDS[0][0][:1])
    before = potential.total()
    peers["peer 2"] = coming
    together = potential.total()
    X = np.concatenate([X for X, _ in SHARDS])
    assert before < together == pytest.approx(((X - X[0]) ** 2).sum())
    potential.add(SHARDS[0][0][1:2])
    assert potential.total() == pytest.approx(
        np.minimum(((X - X[0]) ** 2).sum(axis=1), ((X - X[1]) ** 2).sum(axis=1)).sum()
    )


def ask(peer, name, fit=1, position=0, **arguments):
    return peer.answer(Envelope(fit, position, Question(name, arguments)))


def test_a_peer_keeps_to_its_policy():
    peer = Peer(Rows.of(SHARDS[0][0]), None, 0, Policy(FEDERATED, points=2))
    with pytest.raises(ValueError, match="'take' is not allowed"):
        ask(peer, "take", indices=np.arange(3))
    with pytest.raises(ValueError, match="'erase' is not known"):
        ask(peer, "erase")
    for step in (0, 1):
        ask(peer, "draw", step=step)
    for fit in (1, 2):  # a coordinator chooses the numbers of fits
        with pytest.raises(ValueError, match="2 of 2 rows were shown, and no more"):
            ask(peer, "draw", fit=fit, step=2)
    with pytest.raises(LogNeeded):
        ask(peer, "spread", position=3)


def test_one_answer_shows_no_more_than_the_policy_allows():
    peer = Peer(Rows.of(SHARDS[0][0]), None, 0, Policy(frozenset({"take"}), points=2))
    with pytest.raises(ValueError, match="0 of 2 rows were shown"):
        ask(peer, "take", indices=np.arange(3))
    assert len(ask(peer, "take", indices=np.arange(2))["points"]) == 2


@pytest.mark.parametrize("init", ["d2", "k-means||"])
def test_an_exact_seeding_needs_all_peers(init):
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    peers["peer 1"] = lying("total", lambda answer: {})
    with pytest.raises(PeerLost, match="use init='dk-means"):
        fitted(LocalTransport(peers), 5, init, least=1)


def test_a_peer_that_is_lost_at_the_end_is_left_out_of_the_cost():
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    peers["peer 1"] = lying("evaluate", lambda answer: {})
    init = SHARDS[0][0][:4].copy()
    found = fitted(LocalTransport(peers), 4, init, least=1, shows_rows=False)
    left = fitted(local([SHARDS[0], SHARDS[2]]), 4, init, shows_rows=False)
    assert (found.inertia, found.n_iter) == (left.inertia, left.n_iter)


def test_a_federated_policy_is_enough_for_dk_means():
    policy = Policy(FEDERATED, points=6)
    found = fitted(local(SHARDS, policy=policy), 6, "dk-means++", shows_rows=False)
    assert found.transcript.points_revealed == 6


def test_a_policy_covers_the_log():
    """A question that is not allowed cannot be asked by putting it into a log."""
    peer = Peer(Rows.of(SHARDS[0][0]), None, 0, Policy(FEDERATED))
    log = (Question("begin_costs", {}),)
    with pytest.raises(ValueError, match="'begin_costs' is not allowed"):
        peer.answer(Envelope(1, 1, Question("describe", {}), log))


def test_a_failed_question_is_not_half_done():
    peer = Peer(Rows.of(SHARDS[0][0]), None, 0)
    ask(peer, "begin_costs")
    with pytest.raises(TypeError):
        ask(peer, "lower", position=1)
    with pytest.raises(LogNeeded):
        ask(peer, "largest", position=1, by_weight=False)


def test_one_peer_is_asked():
    coordinator = Coordinator(local(SHARDS), 1)
    assert coordinator.one("peer 1", call("describe", "n")) == 100
