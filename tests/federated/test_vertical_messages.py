"""Messages to one party of vertical k-means: each is answered once, and a mask is used once."""

from __future__ import annotations

import numpy as np
import pytest
from api import (
    MESSAGE_TYPE,
    VERTICAL_DTYPES,
    Aggregator,
    Envelope,
    FitOptions,
    FlowerTransport,
    InProcessParties,
    Question,
    VerticalParty,
    VerticalSession,
    content_of,
    decode,
    decode_reply,
    encode,
    encode_envelope,
    record_of,
)
from api import client_module as client
from federated.vertical_grid import Party, X, app_of, grid_of, split
from flwr.app import Message

from kvariates.federated import vertical_client_app


def message_of(number, *questions):
    """The bytes of the message of this number."""
    *before, asked = [Question(name, arguments) for name, arguments in questions]
    return encode_envelope(Envelope(0, number - 1, asked, before))


def ask(node, number, *questions):
    return send(node, message_of(number, *questions))


def send(node, data):
    message = Message(content_of(envelope=data), 999, MESSAGE_TYPE)
    return decode_reply(record_of(node.answer(message))["reply"], dtypes=VERTICAL_DTYPES)


def met():
    """The grid of two parties after three messages."""
    grid = grid_of(split((3,)))
    VerticalSession(FlowerTransport(grid, 5.0, dtypes=VERTICAL_DTYPES))
    return grid


class FreshParty(Party):
    """Each message is answered by a new process."""

    def answer(self, message):
        client._cached.clear()
        return super().answer(message)


SPREAD = ("spread", {"round": 4})
DISTANCES = ("distances", {"first": 0, "last": 9, "round": 5})
START = ("start", {"rows": np.array([1, 2])})


@pytest.mark.parametrize("fresh", [False, True])
def test_a_replayed_message_and_a_second_mask_of_a_round_are_refused(fresh):
    grid = met()
    node = (FreshParty if fresh else Party)(app_of(split((3,))[0]), "bank")
    node.context = grid.nodes[1000].context
    one = message_of(4, SPREAD)
    assert send(node, one)["masked"].shape == (2,)
    assert send(node, one).reason == "message 4 came after message 4: each is answered once"
    assert "Round 4 was used already" in ask(node, 5, SPREAD).reason
    assert ask(node, 5, START, DISTANCES)["masked"].shape == (9, 2)  # failures change nothing
    assert "Round 5 was used already" in ask(node, 6, DISTANCES).reason
    for old in grid.questions:
        if b"keys" not in (data := record_of(old).get("envelope", b"keys")):
            assert "each is answered once" in send(node, data).reason


def test_a_state_comes_back_whole_from_its_bytes():
    """Also the digest of the questions: with an honest aggregator no result depends on it."""
    parties = [VerticalParty(own) for own in split((1, 4))]
    aggregator = Aggregator(VerticalSession(InProcessParties(parties)))
    aggregator.fit(FitOptions(3, "d2", n_init=2, max_iter=2, tol=0.0), np.random.default_rng(0))
    for number, party in enumerate(parties):
        before, other = party.state(), VerticalParty(split((1, 4))[number])
        assert all(before[part] for part in before if part not in ("index", "centers", "best"))
        other.restore(decode(encode(before)))
        assert encode(other.state()) == encode(before)


def test_a_repeated_question_for_keys_starts_a_session_with_new_keys():
    grid = met()
    node, asked = grid.nodes[1000], [record_of(m).get("envelope") for m in grid.questions]
    first = next(data for data in asked if data and b'"keys"' in data)
    peers = [data for data in asked if data and b'"peers"' in data]
    keys = {send(node, first)["public_key"] for _ in range(3)}
    assert len(keys) == 3
    assert any("list was changed" in send(node, data).reason for data in peers)


def test_a_message_after_one_that_is_missing_and_one_of_other_kind():
    grid = met()
    node = grid.nodes[1000]
    early = ask(node, 9, SPREAD)
    assert (early.reason, early.log_needed) == ("it has the state of message 3 at message 9", True)
    assert "no state" in ask(Party(app_of(X), "new"), 2, SPREAD).reason
    assert "no question 'rows'" in ask(node, 4, ("rows", {})).reason
    for data in (b"", b"nonsense", encode({"fit": 0}), 7):
        assert "message" in send(node, data).reason
    assert ask(node, 4, ("distances", {"of": 1})).reason.startswith("TypeError; see the log")


def test_other_columns_in_the_same_session_are_refused():
    """Else two tables would be hidden by one mask, if Flower repeats a message."""
    columns = iter([X, X, X + 1.0])
    node = Party(vertical_client_app(lambda _: next(columns)), "bank")
    assert "public_key" in ask(node, 1, ("keys", {}))
    client._cached.clear()
    assert "There is no session" in ask(node, 2, ("agree", {"sealed": []})).reason
    client._cached.clear()
    assert "other columns" in ask(node, 2, ("agree", {"sealed": []})).reason


def test_a_party_says_little_of_its_errors():
    def load(_):
        raise OSError("/secret/path")

    reply = ask(Party(vertical_client_app(load), "bank"), 1, ("keys", {}))
    assert reply.reason == "its columns could not be loaded (OSError)"
