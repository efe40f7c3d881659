"""Vertical k-means over Flower: the bits of `VerticalKMeans`, lost processes, failing parties."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from api import Failure, PeerLost, decode, record_of
from api import masks_module as masks
from api import vertical_module as vertical
from federated.fake_grid import FakeGrid
from federated.vertical_grid import (
    IDS,
    NAMES,
    K,
    LyingParty,
    Party,
    X,
    app_of,
    envelope_of,
    grid_of,
    split,
)
from flwr.common.serde import context_from_proto, context_to_proto

from kvariates import KMeans, VerticalKMeans
from kvariates.federated import (
    PartyLost,
    client_app,
    server_app,
    vertical_client_app,
    vertical_server_app,
)


def fitted(grid, parties=2, k=K, **options):
    results = []
    options = {"random_state": 3, "timeout": 5.0, **options}
    vertical_server_app(k, n_parties=parties, on_result=results.append, **options)(grid, None)
    return results[0]


@pytest.mark.parametrize("fresh", [False, True], ids=["one process", "a process a message"])
@pytest.mark.parametrize("cuts", [(2,), (1, 4)], ids=["2 parties", "3 parties"])
def test_the_bits_are_those_of_parties_in_one_process(cuts, fresh):
    parts, results = split(cuts), {}
    expected = VerticalKMeans(K, n_init=2, random_state=3).fit(parts, ids=[IDS] * len(parts))
    grid = grid_of([(own, IDS) for own in parts], results, fresh=fresh)
    found = fitted(grid, len(parts), n_init=2, block_bytes=2**12)
    assert np.array_equal(found.labels, expected.labels_)
    assert (found.inertia, found.n_iter) == (expected.inertia_, expected.n_iter_)
    assert np.array_equal(found.seed_rows, expected.seed_rows_)
    assert found.guarantee == expected.guarantee_
    assert found.parties == tuple(NAMES[: len(parts)])
    pooled = KMeans(K, init=X[found.seed_rows], n_init=1).fit(X)
    assert np.array_equal(found.labels, pooled.labels_)
    assert found.n_iter == pooled.n_iter_
    for name, centers in zip(found.parties, expected.cluster_centers_, strict=True):
        assert results[name].centers.tobytes() == centers.tobytes()
        assert np.array_equal(results[name].labels, found.labels)
        assert results[name].fingerprint == found.transcript.fingerprint


def test_each_stream_of_masks_is_used_once_by_each_of_two_parties(monkeypatch):
    used, stream = Counter(), masks.stream

    def counted(key, round_number, size):
        used[key, round_number] += 1
        return stream(key, round_number, size)

    monkeypatch.setattr(masks, "stream", counted)
    found = fitted(grid_of(split((1, 4)), fresh=True), 3)
    rounds = sum(found.transcript.by_question[q].rounds for q in ("spread", "distances", "update"))
    assert set(used.values()) == {2}
    assert len(used) == 3 * rounds  # pairs of parties


def test_secrets_stay_at_the_party_and_its_state_does_not_grow_with_rows():
    sizes = []
    for rows in (100, 300):
        grid = grid_of([own[:rows] for own in split((3,))], fresh=True)
        fitted(grid, max_iter=3)
        for node in grid.nodes.values():
            *_, stored, last = node.states
            state, end = decode(stored)["party"], decode(last)["party"]
            assert end["secret_key"] is None
            assert not end["secret"]
            hidden = [state["secret_key"], state["secret"], state["centers"].tobytes()]
            for secret in hidden:
                assert len(secret) >= 32
                assert not any(secret in sent for sent in grid.sent if isinstance(sent, bytes))
            sizes.append(len(stored))
    assert max(sizes) - min(sizes) < 20  # digits of numbers
    assert max(sizes) < 2 * 8 * K * 3 + 1000


def test_questions_without_answers_travel_with_the_next_one():
    grid = grid_of(split((3,)))
    sent = fitted(grid).transcript.by_question
    together = sent["start"].rounds + sent["keep"].rounds
    rounds = sum(traffic.rounds for traffic in sent.values())
    assert sent["start"].rounds == K + 1
    assert next(grid.pushes) == rounds - together + 1  # names are asked, too


# ---- errors name the party ----


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([X, X[:-3]], "Party hospital has 297 rows and party bank has 300; all parties must"),
        ([(X, IDS), (X, IDS[::-1])], "Party hospital has other ids than party bank in 300 of 300"),
        ([X, X[0]], r"Party hospital: its columns .* \(ValueError\)\. No party"),
        ([(X, IDS), X], "Party hospital has no ids, but others have"),
        ([1e-200 * X, X], r"Party bank: .*vanish.* No party can be left out"),
    ],
)
def test_columns_that_do_not_fit_together(parts, words):
    with pytest.raises((ValueError, PartyLost), match=words):
        fitted(grid_of(parts))


LIES = {
    "shape": (lambda a: {"masked": a["masked"][:-1]}, r"Party hospital answered .* of shape"),
    "dtype": (lambda a: {"masked": a["masked"].view(np.int64)}, "hospital answered .* with int64"),
    "parts": (lambda _: {}, r"Party hospital: its answer to 'distances' .* parts nothing"),
    "kind": (lambda _: {"masked": "none"}, r"Party hospital: .* masked is a str"),
    "failure": (lambda _: Failure("out of\nmemory"), r"Party hospital: out of memory\. No party"),
    "late": (lambda _: None, r"Party hospital: no answer within 0\.2 s\. No party can be left out"),
}


@pytest.mark.parametrize(("change", "words"), LIES.values(), ids=LIES)
def test_a_party_that_fails_ends_the_fit_with_its_name(change, words):
    liar = LyingParty(app_of(X[:, 3:]), "hospital", 1,
                      lambda asked, a: change(a) if asked == "distances" else a)  # fmt: skip
    grid = FakeGrid([Party(app_of(X[:, :3]), "bank"), liar])
    with pytest.raises((ValueError, PartyLost), match=words) as caught:
        fitted(grid, timeout=0.2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("question", "answer", "words"),
    [
        ("keys", {"public_key": b"short", "rows": 300}, "public_key has 5 bytes"),
        ("keys", {"public_key": bytes(32), "rows": True}, "rows is a bool"),
        ("peers", {"sealed": [b""]}, "sealed is not one message for each party"),
        ("agree", {"exponent": 1.0, "digest": b""}, "exponent is a float"),
    ],
)
def test_wrong_parts_of_the_agreement_name_the_party(question, answer, words):
    liar = LyingParty(app_of(X[:, 3:]), "hospital", 1,
                      lambda asked, a: answer if asked == question else a)  # fmt: skip
    with pytest.raises(PartyLost, match=f"Party hospital: .*{words}"):
        fitted(FakeGrid([Party(app_of(X[:, :3]), "bank"), liar]))


def test_a_fingerprint_that_is_not_confirmed_ends_the_fit():
    doubting = app_of(X, confirm=lambda _: False)
    with pytest.raises(PartyLost, match=r"Party hospital: The fingerprint .* was not confirmed"):
        fitted(FakeGrid([Party(app_of(X), "bank"), Party(doubting, "hospital", 1)]))


def test_a_party_that_cannot_save_its_result_says_so_without_details():
    def fails(context, result):
        raise ValueError("/secret/path")

    poor = vertical_client_app(lambda _: X, on_result=fails)
    with pytest.raises(PartyLost, match=r"Party hospital: RuntimeError; see the log of its Super"):
        fitted(FakeGrid([Party(app_of(X), "bank"), Party(poor, "hospital", 1)]))


def test_a_node_that_does_not_say_its_name_is_named_by_its_number():
    class Silent(Party):
        def answer(self, message):
            return None

    grid = FakeGrid([Party(app_of(X), "bank"), Silent(app_of(X), "hospital", 1)])
    with pytest.raises(PartyLost, match=r"Party 999: no answer within 0\.2 s\. No party"):
        fitted(grid, timeout=0.2)


def test_apps_for_rows_and_for_columns_do_not_mix():
    with pytest.raises(PeerLost, match="it holds columns, not rows: use vertical_server_app"):
        server_app(2)(grid_of([X, X]), None)
    with pytest.raises(PartyLost, match="Party bank: "):
        fitted(FakeGrid([Party(client_app(lambda _: X), name, i) for i, name in
                         enumerate(NAMES[:2])]))  # fmt: skip


def test_exactly_the_parties_must_be_connected():
    with pytest.raises(RuntimeError, match=r"2 of 3 parties were connected after 0\.1 s"):
        fitted(grid_of(split((3,))), 3, wait_timeout=0.1)
    with pytest.raises(RuntimeError, match="3 nodes are connected, but n_parties=2: bank"):
        fitted(grid_of(split((1, 4))), 2)


class SlowContext(Party):
    """Flower stores the context after it has sent the answer: the next process may see the old."""

    behind = None

    def answer(self, message):
        if "envelope" not in record_of(message):
            return super().answer(message)
        current = self.context
        if self.behind is not None:
            self.context, self.behind = self.behind, None
            reply = super().answer(message)
            self.context = current
            return reply
        before = context_from_proto(context_to_proto(self.context))
        reply = super().answer(message)
        third = envelope_of(record_of(message)["envelope"]).position % 3 == 2
        self.behind = before if third else None
        return reply


def test_a_context_that_is_stored_late_is_waited_for(monkeypatch):
    monkeypatch.setattr(vertical, "PAUSE", 0.0)
    parts = split((3,))
    slow = SlowContext(app_of(parts[1]), "hospital", 1)
    found = fitted(FakeGrid([Party(app_of(parts[0]), "bank"), slow], fresh=True))
    expected = VerticalKMeans(K, random_state=3).fit(parts)
    assert np.array_equal(found.labels, expected.labels_)
    assert found.inertia == expected.inertia_


def test_the_files_are_complete(tmp_path):
    def save(context, result):
        result.save(tmp_path / f"{context.node_config['name']}.json")

    apps = [vertical_client_app(lambda _, own=own: own, on_result=save) for own in split((2,))]
    grid = FakeGrid([Party(app, NAMES[i], i) for i, app in enumerate(apps)])
    found = fitted(grid, save_to=tmp_path / "out" / "result.json")
    page = json.loads((tmp_path / "out" / "result.json").read_text())
    own = [json.loads((tmp_path / f"{name}.json").read_text()) for name in NAMES[:2]]
    assert page["labels"] == own[0]["labels"] == own[1]["labels"] == found.labels.tolist()
    assert page["inertia"] == found.inertia
    assert page["parties"] == ["bank", "hospital"]
    assert "centers" not in page
    assert page["transcript"]["fingerprint"] == own[0]["fingerprint"] == own[1]["fingerprint"]
    assert page["transcript"]["revealed"].keys() == {"The aggregator", "Each party"}
    means = [X[found.labels == j].mean(axis=0) for j in range(K)]
    together = np.hstack([own[0]["centers"], own[1]["centers"]])
    np.testing.assert_allclose(together, means, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_parties": 1}, "n_parties must be at least 2"),
        ({"timeout": 0}, "timeout must be"),
        ({"tol": -1.0}, "tol"),
        ({"n_init": 0}, "n_init"),
        ({"block_bytes": 2**26}, "block_bytes must be at most"),
        ({"block_bytes": 4}, "block_bytes"),
    ],
)
def test_wrong_parameters(options, words):
    with pytest.raises(ValueError, match=words):
        vertical_server_app(2, **{"n_parties": 2, **options})
