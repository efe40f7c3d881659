"""Peers that fail, leave or join. Those that lie: test_lying_peers.py."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from api import (
    Coordinator,
    Envelope,
    HostData,
    LogNeeded,
    Peer,
    PeerLost,
    PeersPotential,
    Policy,
    Question,
    Rows,
    call,
)
from laws.cases import rows
from peers.local_peers import fitted, local, lying, peers_of, shards_of
from peers.local_transport import LocalTransport

SHARDS = shards_of(rows(300, 3), (100, 200))
NEGATIVE = lambda answer: {"potential": -1.0}  # noqa: E731
FEDERATED = frozenset(
    {"describe", "potential", "draw", "spread", "assign", "evaluate", "column_sums"}
)


def test_a_late_peer_is_dropped():
    never = threading.Event()
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    slow = lying("potential", lambda answer: never.wait(20) or answer, SHARDS)
    try:
        transport = LocalTransport(peers | {"peer 1": slow}, timeout=0.5)
        found = fitted(transport, 3, "dk-means++", least=1, shows_rows=False)
        assert found.transcript.dropped[0].reason == "no answer within 0.5 s"
    finally:
        never.set()


ENDLESS = """
import threading
from peers.local_peers import peers_of, shards_of
from laws.cases import rows
from kvariates.peers.questions import Envelope, Question
from kvariates.peers.transport import Failure
from peers.local_transport import LocalTransport

peers = {f"endless {i}": lambda _: threading.Event().wait() for i in range(20)}
peers |= {name: peer.answer for name, peer in peers_of(shards_of(rows(30, 2), (10,))).items()}
transport = LocalTransport(peers, timeout=0.2)
replies = transport.send({name: Envelope(1, 0, Question("describe", {})) for name in peers})
print(*(name for name, reply in replies.items() if not isinstance(reply, Failure)), sep=", ")
transport.end()
"""


def test_endless_peers_keep_neither_others_waiting_nor_the_process_alive():
    command, folder = [sys.executable, "-c", ENDLESS], Path(__file__).parents[1]
    printed = subprocess.check_output(command, cwd=folder, text=True, timeout=60)
    assert printed == "peer 0, peer 1\n"


def test_too_few_peers_are_one_error():
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    peers["peer 1"] = lying("potential", NEGATIVE, SHARDS)
    with pytest.raises(PeerLost, match=r"2 peers are left, but at least 3 are needed.*is -1"):
        fitted(LocalTransport(peers), 3, "dk-means++", least=3)
    with pytest.raises(PeerLost, match="peer 1: its potential is -1"):
        fitted(LocalTransport(peers), 3, "dk-means++")  # no peer may fail
    with pytest.raises(PeerLost, match="0 peers"):
        Coordinator(LocalTransport({}), 1)


def test_the_weight_of_a_lost_peer_leaves_the_potential():
    """After its loss, the result is that of the other peers alone."""
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    lost = LocalTransport(peers | {"peer 1": lying("potential", NEGATIVE, SHARDS)})
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
    peer = Peer(HostData(Rows.of(SHARDS[0][0]), None), 0, Policy(FEDERATED, points=2))
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
    peer = Peer(HostData(Rows.of(SHARDS[0][0]), None), 0, Policy(frozenset({"take"}), points=2))
    with pytest.raises(ValueError, match="0 of 2 rows were shown"):
        ask(peer, "take", indices=np.arange(3))
    assert len(ask(peer, "take", indices=np.arange(2))["points"]) == 2


@pytest.mark.parametrize("init", ["d2", "k-means||"])
def test_an_exact_seeding_needs_all_peers(init):
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    peers["peer 1"] = lying("total", lambda answer: {}, SHARDS)
    with pytest.raises(PeerLost, match="use init='dk-means"):
        fitted(LocalTransport(peers), 5, init, least=1)


def test_a_peer_that_is_lost_at_the_end_is_left_out_of_the_cost():
    peers = {name: peer.answer for name, peer in peers_of(SHARDS).items()}
    peers["peer 1"] = lying("evaluate", lambda answer: {}, SHARDS)
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
    peer = Peer(HostData(Rows.of(SHARDS[0][0]), None), 0, Policy(FEDERATED))
    log = (Question("begin_costs", {}),)
    with pytest.raises(ValueError, match="'begin_costs' is not allowed"):
        peer.answer(Envelope(1, 1, Question("describe", {}), log))


def test_a_failed_question_is_not_half_done():
    peer = Peer(HostData(Rows.of(SHARDS[0][0]), None), 0)
    ask(peer, "begin_costs")
    with pytest.raises(TypeError):
        ask(peer, "lower", position=1)
    with pytest.raises(LogNeeded):
        ask(peer, "largest", position=1, by_weight=False)


def test_one_peer_is_asked():
    coordinator = Coordinator(local(SHARDS), 1)
    assert coordinator.one("peer 1", call("describe", lambda answer: answer["n"])) == 100
