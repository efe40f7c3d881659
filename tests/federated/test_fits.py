"""Federated fits: the same bits as local peers, peers that come and go, and what they refuse."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from api import (
    MESSAGE_TYPE,
    QUESTIONS,
    Failure,
    FlowerTransport,
    HostData,
    Peer,
    PeerLost,
    Policy,
    Rows,
    content_of,
    decode_reply,
    fit,
    record_of,
    server_app,
    server_options,
    wait_for_nodes,
)
from api import client_module as client
from federated.fake_grid import BOX, FakeGrid, Node, ask, blobs, grid_of
from flwr.app import Message
from peers.local_transport import LocalTransport

from kvariates.federated import Private, client_app

X = blobs(240)


def fitted(grid, timeout=5.0, **options):
    options = {"random_state": 3, **options}
    return fit(FlowerTransport(grid, timeout), server_options(options.pop("k", 4), **options))


def local(shards, weights=None, policy=None, **options):
    weights = weights or [None] * len(shards)
    peers = {
        str(i): Peer(HostData(Rows.of(shard), weight), 5).answer
        for i, (shard, weight) in enumerate(zip(shards, weights, strict=True))
    }
    return fit(LocalTransport(peers), server_options(4, random_state=3, **options))


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_shards_and_seed_give_the_same_bits(fresh, dtype):
    shards = np.array_split(X.astype(dtype), 11)  # "10" comes after "9", not after "1"
    here, there = local(shards), fitted(grid_of(shards, {"fresh": fresh}, max_points=4))
    assert here.centers.tobytes() == there.centers.tobytes()
    assert here.centers.dtype == dtype
    assert here.inertia == there.inertia
    assert here.guarantee == there.guarantee
    assert there.guarantee is not None
    assert there.transcript.points_revealed == 4


def test_weights_travel():
    weight = np.random.default_rng(1).uniform(0.5, 2, size=len(X))
    shards, weights = np.array_split(X, 3), np.array_split(weight, 3)
    here = local(shards, weights)
    there = fitted(grid_of(list(zip(shards, weights, strict=True))))
    assert here.centers.tobytes() == there.centers.tobytes()


def test_exact_seedings_work_if_the_policy_allows_them():
    shards, trusting = np.array_split(X, 3), Policy(frozenset(QUESTIONS))
    there = fitted(grid_of(shards, policy=trusting, max_points=1000), init="k-means++")
    assert there.centers.tobytes() == local(shards, init="k-means++").centers.tobytes()
    with pytest.raises(PeerLost, match="not allowed by this peer"):
        fitted(grid_of(shards), init="k-means++")


@pytest.mark.parametrize("push", [3, 6, 12])
def test_a_client_that_vanishes_leaves_the_fit(push):
    def vanish(grid, number):
        if number == push:
            grid.nodes.pop(1000 - 1)

    shards = np.array_split(X, 3)
    found = fitted(grid_of(shards, {"before": vanish}), timeout=0.3)
    assert [dropped.peer for dropped in found.transcript.dropped] == ["1"]
    assert found.transcript.dropped[0].reason == "no answer within 0.3 s"
    assert found.guarantee is None
    assert "1" in found.guarantee_lost
    rest = np.concatenate([shards[0], shards[2]])
    nearest = ((rest[:, None] - found.centers[None]) ** 2).sum(axis=2).min(axis=1).sum()
    assert found.inertia == pytest.approx(nearest)


def test_a_client_that_joins_is_in_the_result():
    shards = np.array_split(X, 3)

    def join(grid, number):
        if number == 12:
            grid.nodes[500] = Node(client_app(lambda _: shards[2], random_state=5), 500)

    grid = grid_of(shards[:2], {"before": join})
    found = fitted(grid, tol=0, max_iter=50)
    nearest = ((X[:, None] - found.centers[None]) ** 2).sum(axis=2).min(axis=1).sum()
    assert found.inertia == pytest.approx(nearest)


def test_too_few_peers_is_one_clear_error():
    def vanish(grid, number):
        if number == 5:
            grid.nodes.clear()

    with pytest.raises(PeerLost, match=r"0 peers are left, but at least 2 .* no answer within"):
        fitted(grid_of(np.array_split(X, 3), {"before": vanish}), timeout=0.2, min_peers=2)
    with pytest.raises(RuntimeError, match=r"0 of 2 peers were connected after 0\.1 s"):
        wait_for_nodes(FakeGrid([]), 2, 0.1, "peers", "wait_for")


@pytest.mark.parametrize("fresh", [False, True])
def test_a_client_refuses_other_questions_and_more_rows(fresh):
    app = client_app(lambda _: X, max_points=2, random_state=1)
    node = Node(app, 0)
    for name in QUESTIONS.keys() - {"describe", "potential", "draw", "spread", "assign",
                                    "evaluate", "column_sums"}:  # fmt: skip
        assert "not allowed" in ask(node, name).reason
    assert "not known" in ask(node, "rows").reason
    for step in range(2):
        assert ask(node, "draw", step=step)["points"].shape == (1, 2)
        if fresh:
            client._cached.clear()
    assert "2 rows may be shown" in ask(node, "draw", step=2).reason


def test_a_client_says_little_of_its_errors():
    def load(_):
        raise OSError("/secret/path")

    reply = ask(Node(client_app(load), 0), "describe")
    assert reply.reason == "its data could not be loaded (OSError)"
    message = Message(content_of(envelope=b"nonsense"), 999, MESSAGE_TYPE)
    reply = record_of(Node(client_app(load), 0).answer(message))["reply"]
    assert "message" in decode_reply(reply).reason


def test_rows_outside_the_bounds():
    small = ([-1.0, -1.0], [1.0, 1.0])
    assert "ValueError" in ask(Node(client_app(lambda _: X, bounds=small), 0), "describe").reason
    clipped = Node(client_app(lambda _: X, bounds=small, clip=True), 0)
    assert ask(clipped, "describe")["scale"][0] == 1.0


def test_bytes_a_centre_grow_with_peers_and_not_with_data(monkeypatch):
    monkeypatch.setattr(client, "CACHED", 2000)

    def sent(n_peers, rows):
        grid = grid_of(np.array_split(blobs(n_peers * rows), n_peers))
        fitted(grid, max_iter=0, k=3)
        return grid.bytes / n_peers

    few = sent(10, 2)
    assert sent(10, 200) == pytest.approx(few, rel=0.05)
    for n_peers in (100, 1000):
        assert sent(n_peers, 2) == pytest.approx(few, rel=0.1)


def test_the_result_file_is_complete(tmp_path):
    path, results = tmp_path / "out" / "result.json", []
    app = server_app(4, bounds=BOX, save_to=path, on_result=results.append, random_state=3)
    app(grid_of(np.array_split(X, 3)), None)
    page = json.loads(path.read_text())
    assert np.array_equal(page["centers"], results[0].centers)
    assert "Theorem 4" in page["guarantee"]
    assert "KMeans begins with greedy k-means++" in page["guarantee"]
    assert page["transcript"]["points_revealed"] == 4
    assert [file.name for file in path.parent.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"init": "kmeans"}, "'dk-means\\+\\+'.*'pdk-means\\+\\+'"),
        ({"init": "pdk-means++"}, "needs public bounds"),
        ({"init": [[1.0, 2.0]]}, r"shape \(2, d\)"),
        ({"init": [[1.0, 2.0], [3.0, 11.0]], "bounds": BOX}, "inside the public bounds"),
        ({"bounds": ([1, 2], [0, 3])}, "low below high"),
        ({"bounds": (0, 1)}, "one number for each feature"),
        ({"max_rows": 3}, "needs public bounds"),
        ({"timeout": 0}, "timeout must be"),
        ({"min_peers": 0}, "min_peers must be"),
        ({"tol": -1}, "tol must be"),
        ({"wait_for": 0}, "wait_for must be at least 1"),
        ({"tol": 0.1, "init": "pdk-means++", "bounds": BOX}, "tol does not work with noise"),
        ({"tol": 0.1, "epsilon": 1.0, "bounds": BOX}, "tol does not work with noise"),
        ({"secure_sums": True, "min_peers": 2, "init": "dk-means++"}, "min_peers must be at"),
        ({"secure_sums": True}, "needs init"),
        ({"secure_sums": True, "init": "k-means++"}, "secure_sums works without noise"),
        ({"secure_sums": True, "epsilon": 1.0, "bounds": BOX}, "secure_sums works without noise"),
    ],
)
def test_wrong_parameters(options, words):
    with pytest.raises(ValueError, match=words):
        server_app(2, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_points": -1}, "max_points must be at least 0"),
        ({"max_groups": 0}, "max_groups must be at least 1"),
        ({"secure_sums": True, "private": "central", "bounds": BOX}, "choose one"),
    ],
)
def test_wrong_parameters_of_a_client(options, words):
    with pytest.raises(ValueError, match=words):
        client_app(lambda _: X, **options)


def at_the_same_time(monkeypatch, node, name, **arguments):
    """The replies to a question that two threads ask; what is kept is read and written slowly."""
    state = client._state

    def slow(context):
        time.sleep(0.05)
        return state(context)

    monkeypatch.setattr(client, "_state", slow)
    client._cached.clear()
    ask(node, "describe")
    with ThreadPoolExecutor(2) as pool:
        return [
            future.result()
            for future in [pool.submit(ask, node, name, **arguments) for _ in range(2)]
        ]


def test_two_threads_do_not_show_more_rows_than_allowed(monkeypatch):
    node = Node(client_app(lambda _: X, max_points=1), 0)
    replies = at_the_same_time(monkeypatch, node, "draw", step=0)
    assert sum(isinstance(reply, Failure) for reply in replies) == 1


def test_two_threads_get_the_same_release(monkeypatch, tmp_path):
    private = Private(1.0, 2, ledger=tmp_path / "ledger")
    node = Node(client_app(lambda _: X, bounds=BOX, private=private), 0)
    first, second = at_the_same_time(monkeypatch, node, "draw", step=0)
    assert np.array_equal(first["points"], second["points"])
    assert len(ask(node, "ledger")["charges"]) == 2  # the number of rows, and the row


def test_a_peer_that_forgets_gets_the_log_at_once():
    """Flower starts a process for each message; a second message for each would double the time."""
    shards = np.array_split(X, 3)
    steady, fresh = fitted(grid_of(shards)), fitted(grid_of(shards, {"fresh": True}))
    twice = 2 * 2 * len(shards)  # each peer is asked again at most twice
    assert fresh.transcript.messages - steady.transcript.messages <= twice


def test_more_clusters_than_rows_is_one_clear_error():
    with pytest.raises(ValueError, match=r"n_clusters=1000, .* together describe 240 rows; lower"):
        fitted(grid_of(np.array_split(X, 3), max_points=1000), k=1000)
    copies = np.repeat(X[:8], 10, axis=0)
    for k in (12, 60):  # a warning, as of KMeans in memory
        with pytest.warns(UserWarning, match=rf"n_clusters={k}, but only \d centres are distinct"):
            fitted(grid_of(np.array_split(copies, 3), max_points=1000), k=k)


def test_the_caller_is_warned_of_a_peer_whose_data_cannot_be_loaded():
    shards = np.array_split(X.copy(), 3)
    shards[1][0, 0] = np.nan
    words = (
        r"^1 of 3 peers were dropped, .*\(1: its data could not be loaded \(ValueError\)\)\. See"
    )
    with pytest.warns(UserWarning, match=words):
        assert fitted(grid_of(shards)).guarantee is None
