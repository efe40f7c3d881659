"""Parties of vertical k-means as nodes of a fake grid."""

from __future__ import annotations

import numpy as np
from api import (
    SESSION,
    STATE,
    VERTICAL_DTYPES,
    content_of,
    decode_envelope,
    decode_reply,
    encode_reply,
    record_of,
)
from federated.fake_grid import FakeGrid, Node
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import context_from_proto, context_to_proto

from kvariates.federated import vertical_client_app

RNG = np.random.default_rng(4)
GROUP = RNG.integers(5, size=(300, 1))
X = RNG.normal(size=(300, 6)) + 4 * GROUP * RNG.random(6)
IDS = [f"person {i}" for i in range(300)]
NAMES = ["bank", "hospital", "insurer"]
K = 5


class Party(Node):
    """A node with a name. Its context travels as bytes, as between the processes of Flower.

    `states`: the state after each message.
    """

    def __init__(self, app, name, number=0):
        super().__init__(app, number)
        self.context = Context(1, 1000 - number, {"name": name}, RecordDict(), {})
        self.states = []

    def answer(self, message):
        self.context = context_from_proto(context_to_proto(self.context))
        reply = super().answer(message)
        if STATE in self.context.state.config_records:
            self.states.append(self.context.state.config_records[STATE][SESSION])
        return reply


def envelope_of(data):
    return decode_envelope(data, dtypes=VERTICAL_DTYPES)


class LyingParty(Party):
    """`change` maps the last question and the answer to another answer."""

    def __init__(self, app, name, number, change):
        super().__init__(app, name, number)
        self.change = change

    def answer(self, message):
        reply = super().answer(message)
        if (sent := record_of(message).get("envelope")) is None:
            return reply
        answer = decode_reply(record_of(reply)["reply"], dtypes=VERTICAL_DTYPES)
        changed = self.change(envelope_of(sent).question.name, answer)
        if changed is None:
            return None
        return Message(content_of(reply=encode_reply(changed)), reply_to=message)


class RecordedGrid(FakeGrid):
    """`sent`: the bytes of all messages, in both directions."""

    def __init__(self, nodes, **options):
        super().__init__(nodes, **options)
        self.sent, self.questions = [], []

    def push_messages(self, messages):
        messages = list(messages)
        self.questions += messages
        self.sent += [value for m in messages for value in record_of(m).values()]
        return super().push_messages(messages)

    def pull_messages(self, ids):
        replies = super().pull_messages(ids)
        self.sent += [value for reply in replies for value in record_of(reply).values()]
        return replies


def app_of(columns, results=None, **options):
    def keep(context, result):
        results[context.node_config["name"]] = result

    return vertical_client_app(
        lambda _: columns, on_result=None if results is None else keep, **options
    )


def grid_of(parts, results=None, **options):
    apps = [app_of(own, results) for own in parts]
    nodes = [Party(app, NAMES[i], i) for i, app in enumerate(apps)]
    return RecordedGrid(nodes[::-1], **options)


def split(cuts):
    return np.split(X, cuts, axis=1)
