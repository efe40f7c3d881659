"""Secure sums over Flower: the bits of a fit without masks, peers that come and go, restarts."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from api import PeerLost, decode, decode_envelope, decode_reply, record_of, server_options
from api import client_module as client
from federated.fake_grid import BOX, FakeGrid, LyingNode, Node, ask, blobs, grid_of, loader
from federated.test_fits import fitted

from kvariates.federated import FEDERATED, client_app

X = blobs(240)
START = X[:4]
STEPS = {"init": START, "tol": 0, "max_iter": 30}
# Pushes of a fit with these: names, descriptions, keys, group, then one for each step.
FIRST_STEP = 4


def secure_grid(shards, grid=None, **options):
    return grid_of(shards, grid, secure_sums=True, **options)


def secure_fit(grid, **options):
    return fitted(grid, secure_sums=True, **options)


def vanish_at(*pushes):
    """Peer 1 does not answer the first of these pushes, peer 2 the second, and so on."""

    def vanish(grid, number):
        if number in pushes:
            grid.nodes.pop(1000 - 1 - pushes.index(number), None)

    return {"before": vanish}


def assert_same(one, two):
    assert one.centers.tobytes() == two.centers.tobytes()
    assert one.inertia == two.inertia
    assert one.converged == two.converged


@pytest.mark.parametrize("init", ["dk-means++", START], ids=["dk-means++", "given"])
@pytest.mark.parametrize("n_peers", [3, 11])
def test_the_result_has_the_bits_of_a_fit_without_masks(init, n_peers):
    weight = np.random.default_rng(1).uniform(0.5, 2, size=len(X))
    shards = list(zip(np.array_split(X, n_peers), np.array_split(weight, n_peers), strict=True))
    options = {"init": init, "bounds": BOX}
    secure = secure_fit(secure_grid(shards, policy=FEDERATED), **options)
    plain = fitted(grid_of(shards), **options)
    assert_same(secure, plain)
    assert secure.n_iter == plain.n_iter > 2
    assert secure.guarantee == plain.guarantee
    assert secure.transcript.points_revealed == plain.transcript.points_revealed


class RecordingNode(Node):
    """Keeps what it was asked and what it sent. `renew`: makes a new app before each message."""

    def __init__(self, app, partition, renew=None):
        super().__init__(app, partition)
        self.renew, self.sent, self.bytes, self.secrets = renew, [], b"", set()

    def answer(self, message):
        if self.renew is not None:
            client._cached.clear()
            self.app = self.renew()
        reply = super().answer(message)
        envelope = record_of(message).get("envelope")
        if envelope is not None:
            asked = decode_envelope(envelope).question
            self.bytes += record_of(reply)["reply"]
            if kept := client._state(self.context).get("masks"):
                self.secrets |= {decode(kept)["secret"]} - {b""}
            self.sent.append((asked, decode_reply(record_of(reply)["reply"])))
        return reply

    def masked(self):
        return [answer["masked"] for asked, answer in self.sent if asked.name == "masked_sum"]


def test_a_process_for_each_message_gives_the_same_result_and_new_masks():
    shards = np.array_split(X, 3)

    def app():
        return client_app(loader(shards), secure_sums=True, random_state=5)

    nodes = [RecordingNode(app(), i, app) for i in range(3)]
    assert_same(secure_fit(FakeGrid(nodes), **STEPS), secure_fit(secure_grid(shards), **STEPS))
    for node in nodes:
        words = np.concatenate(node.masked())
        assert len(np.unique(words)) == len(words)  # the last two rounds have the same sums


def test_a_peer_sends_nothing_but_masked_sums_its_description_and_a_key():
    shards = np.array_split(X, 3)
    nodes = [RecordingNode(client_app(loader(shards), secure_sums=True), i) for i in range(3)]
    secure_fit(FakeGrid(nodes), init=START, bounds=BOX)
    for node in nodes:
        parts = {asked.name: set(answer) for asked, answer in node.sent}
        assert parts == {
            "describe": {"n", "d", "dtype", "weight", "scale", "weighted"},
            "keys": {"public_key"},
            "group": {"fingerprint"},
            "masked_sum": {"masked"},
            "leave": set(),
        }
        for secret in node.secrets:
            assert secret not in node.bytes
        assert len(node.secrets) == 1
        assert decode(client._state(node.context)["masks"])["secret"] == b""


@pytest.mark.parametrize("step", [1, 3])
def test_after_a_peer_has_vanished_the_fit_goes_on_from_the_same_centres(step):
    shards = np.array_split(X, 4)
    left = [shards[i] for i in (0, 2, 3)]
    push = FIRST_STEP + step - 1
    found = secure_fit(secure_grid(shards, vanish_at(push)), timeout=0.2, **STEPS)
    centers = START
    if step > 1:
        centers = secure_fit(secure_grid(shards), **{**STEPS, "max_iter": step - 1}).centers
    assert_same(found, fitted(grid_of(left), **{**STEPS, "init": centers}))
    assert [dropped.peer for dropped in found.transcript.dropped] == ["1"]
    assert len(set(found.transcript.fingerprints)) == 2


@pytest.mark.parametrize("push", [2, 3, 4, 5, 6, 20])
def test_a_peer_may_vanish_at_any_time(push):
    """While keys are sent, the tolerance is computed, or rows are assigned."""
    shards = np.array_split(X, 4)
    grid = secure_grid(shards, vanish_at(push))
    found = secure_fit(grid, timeout=0.2, init=START, max_iter=30, tol=1e-9)
    rest = np.concatenate([shards[i] for i in (0, 2, 3)] if len(grid.nodes) == 3 else shards)
    nearest = ((rest[:, None] - found.centers[None]) ** 2).sum(axis=2).min(axis=1).sum()
    assert found.inertia == pytest.approx(nearest)


def joining(shards, vanish):
    """Peer 4 joins after the first iteration; if `vanish`, peer 1 vanishes after the second."""

    def change(grid, number):
        if number == FIRST_STEP + 1:
            grid.nodes[500] = Node(client_app(loader(shards), secure_sums=True), 4)
        if vanish and number == FIRST_STEP + 2:
            grid.nodes.pop(999)

    return secure_grid(shards[:4], {"before": change})


def test_a_peer_that_joins_waits_for_a_new_group():
    """A new group for each peer that joins would show that peer's sums, and use up max_groups."""
    shards = np.array_split(X, 5)
    found = secure_fit(joining(shards, vanish=False), **STEPS)
    assert_same(found, fitted(grid_of(shards[:4]), **STEPS))
    assert found.transcript.joined == []
    found = secure_fit(joining(shards, vanish=True), timeout=0.2, **STEPS)
    assert found.transcript.joined == ["4"]
    assert [dropped.peer for dropped in found.transcript.dropped] == ["1"]
    assert len(found.transcript.fingerprints) == 2
    centers = fitted(grid_of(shards[:4]), **{**STEPS, "max_iter": 2}).centers
    left = [shards[i] for i in (0, 2, 3, 4)]
    assert_same(found, fitted(grid_of(left), **{**STEPS, "init": centers}))


def test_the_sums_of_a_peer_that_vanishes_are_not_asked_twice():
    """The mean of the columns is asked once; the difference of two would be the peer's sums."""
    shards = np.array_split(X, 4)
    nodes = [RecordingNode(client_app(loader(shards), secure_sums=True), i) for i in range(4)]
    grid = FakeGrid(nodes, **vanish_at(FIRST_STEP + 1))  # after the sums of the columns
    found = secure_fit(grid, timeout=0.2, init=START, max_iter=3, tol=1e-9)
    assert len(found.transcript.dropped) == 1
    asked = [q.arguments["name"] for q, _ in nodes[0].sent if q.name == "masked_sum"]
    assert asked.count("column_sums") == 1


def test_a_peer_with_secure_sums_shows_no_potential_unless_it_allows_it():
    shards = np.array_split(X, 3)
    with pytest.raises(PeerLost, match="'potential' is not allowed"):
        secure_fit(secure_grid(shards), init="dk-means++", bounds=BOX)
    with pytest.raises(ValueError, match="needs init: an array of centres"):
        server_options(3, secure_sums=True)


def test_with_less_than_three_peers_the_fit_ends():
    grid = secure_grid(np.array_split(X, 3), vanish_at(FIRST_STEP))
    with pytest.raises(PeerLost, match="2 peers are left, but at least 3 are needed"):
        secure_fit(grid, timeout=0.2, **STEPS)


def test_peers_join_so_many_groups_and_no_more():
    shards = np.array_split(X, 5)
    for most in (1, 2):
        pushes = FIRST_STEP + 1, FIRST_STEP + 4  # the second one is after a new group
        grid = secure_grid(shards, vanish_at(*pushes[:most]), max_groups=most)
        with pytest.raises(PeerLost, match=rf"this peer joins at most {most} groups"):
            secure_fit(grid, timeout=0.2, **STEPS)


def test_both_sides_must_want_secure_sums():
    shards = np.array_split(X, 3)
    with pytest.raises(PeerLost, match=r"has no secure sums; use client_app\(secure_sums=True\)"):
        secure_fit(grid_of(shards), **STEPS)
    for init in (START, "dk-means++"):
        with pytest.raises(PeerLost, match=r"use server_app\(secure_sums=True\)"):
            fitted(secure_grid(shards), init=init)


def test_a_peer_without_secure_sums_is_left_out():
    shards = np.array_split(X, 4)
    grid = secure_grid(shards)
    grid.nodes[1000] = Node(client_app(loader(shards)), 0)
    found = secure_fit(grid, **STEPS)
    assert "no secure sums" in found.transcript.dropped[0].reason
    assert_same(found, fitted(grid_of(shards[1:]), **STEPS))


def lying(change):
    app = client_app(loader(np.array_split(X, 4)), secure_sums=True)
    liar = LyingNode(app, 1, change)
    return FakeGrid([Node(app, 0), liar, Node(app, 2), Node(app, 3)])


def test_a_total_that_cannot_be_is_one_clear_error():
    def change(name, answer):
        return {"masked": answer["masked"] + 1000} if name == "masked_sum" else answer

    words = r"the secure sum of 'assign' in round 1 is impossible: .*; .* cannot be told which"
    with pytest.raises(PeerLost, match=words):
        secure_fit(lying(change), **STEPS)


LIES = {
    "shape": ("masked_sum", lambda a: {"masked": a["masked"][1:]}, "int64 of shape"),
    "no words": ("masked_sum", lambda a: {"masked": "many"}, "int64 of shape"),
    "no key": ("keys", lambda a: {"public_key": 7}, "should be bytes"),
    "a bad key": ("keys", lambda a: {"public_key": bytes(32)}, ""),
    "a short key": ("keys", lambda a: {"public_key": b"x"}, "32 bytes"),
    "fingerprint": ("group", lambda a: {"fingerprint": "0000"}, "other public keys"),
}


@pytest.mark.parametrize(("question", "change", "words"), LIES.values(), ids=LIES)
def test_a_peer_that_sends_no_words_or_keys_is_left_out(question, change, words):
    found = secure_fit(lying(lambda name, a: change(a) if name == question else a), **STEPS)
    (dropped,) = found.transcript.dropped
    assert dropped.peer == "1"
    assert words in dropped.reason
    shards = np.array_split(X, 4)
    assert_same(found, fitted(grid_of([shards[i] for i in (0, 2, 3)]), **STEPS))


def test_two_equal_keys_end_the_fit():
    key = {}

    def change(name, answer):
        return {"public_key": key.setdefault("one", answer["public_key"])}

    app = client_app(loader(np.array_split(X, 3)), secure_sums=True)
    liars = [LyingNode(app, i, lambda n, a: change(n, a) if n == "keys" else a) for i in (0, 1)]
    with pytest.raises(PeerLost, match="3 peers with 2 keys"):
        secure_fit(FakeGrid([*liars, Node(app, 2)]), **STEPS)


def test_every_peer_logs_the_fingerprint_of_the_result():
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("flwr")
    logger.addHandler(handler)
    try:
        found = secure_fit(secure_grid(np.array_split(X, 3)), **STEPS)
    finally:
        logger.removeHandler(handler)
    (text,) = found.transcript.fingerprints
    assert [line.endswith(text) for line in lines if "fingerprint" in line] == [True] * 3


@pytest.mark.parametrize("fresh", [False, True])
def test_plain_questions_are_refused_and_groups_counted_in_any_process(fresh):
    node = Node(client_app(lambda _: X, secure_sums=True, max_groups=1), 0)
    for name in ("assign", "evaluate", "column_sums", "spread"):
        assert "only in secure sums" in ask(node, name).reason
    for reason in (None, "joins at most 1 groups"):
        keys = [ask(Node(node.app, i), "keys")["public_key"] for i in (1, 2)]
        own = ask(node, "keys")["public_key"]
        if fresh:
            client._cached.clear()
        reply = ask(node, "group", index=1, public_keys=[keys[0], own, keys[1]])
        assert reason is None or reason in reply.reason


def fit_with_invented_peers(confirm):
    """A coordinator that invents two peers with rows that it knows: the rest is the true one's."""
    true = Node(client_app(lambda _: X[:7], secure_sums=True, confirm=confirm), 0)
    invented = client_app(lambda _: np.zeros((1, 2)), secure_sums=True)
    grid = FakeGrid([true, Node(invented, 1), Node(invented, 2)])
    return true, lambda: secure_fit(grid, k=1, init=np.zeros((1, 2)), max_iter=1)


@pytest.mark.parametrize("answer", [False, None])
def test_a_peer_that_does_not_confirm_the_keys_sends_no_sums_to_invented_peers(answer):
    seen = []
    _, fit = fit_with_invented_peers(None)
    np.testing.assert_allclose(fit().centers[0] * 9, X[:7].sum(axis=0))  # its sums are known
    true, fit = fit_with_invented_peers(lambda text: seen.append(text) or answer)
    with pytest.raises(PeerLost, match=r"fingerprint 3 keys: .* was not confirmed"):
        fit()
    assert len(seen) == 1
    arguments = {"name": "column_sums", "arguments": {"exponent": 0}, "round": 1, "last": 0}
    assert "the state is lost" in ask(true, "masked_sum", **arguments).reason


def test_peers_are_asked_about_the_fingerprint_of_each_group():
    seen, shards = [], np.array_split(X, 4)
    grid = secure_grid(shards, confirm=lambda text: seen.append(text) or True)
    doubting = client_app(loader(shards), secure_sums=True, confirm=lambda _: False)
    grid.nodes[1000] = Node(doubting, 0)
    found = secure_fit(grid, **STEPS)
    assert_same(found, fitted(grid_of(shards[1:]), **STEPS))
    assert "was not confirmed" in found.transcript.dropped[0].reason
    assert seen[-3:] == found.transcript.fingerprints * 3
    with pytest.raises(ValueError, match="confirm needs secure_sums=True"):
        client_app(loader(shards), confirm=lambda _: True)
