"""A grid of nodes in this process: each message is answered when it is pulled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from api import (
    MESSAGE_TYPE,
    Envelope,
    Question,
    content_of,
    decode_envelope,
    decode_reply,
    encode_envelope,
    encode_reply,
    record_of,
)
from api import client_module as client
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from kvariates.federated import client_app

Change = Callable[[str, dict[str, Any]], Any]


class Node:
    """A node with a ClientApp and its context. `partition` is its name."""

    def __init__(self, app: ClientApp, partition: int) -> None:
        self.app, self.partition = app, partition
        self.context = Context(1, 1000 - partition, {"partition-id": partition}, RecordDict(), {})

    def answer(self, message: Message) -> Message | None:
        return self.app(message, self.context)


def ask(node: Node, name: str, /, fit: int = 1, **arguments: Any) -> Any:
    """The reply of a node to one question."""
    envelope = encode_envelope(Envelope(fit, 0, Question(name, arguments)))
    message = Message(content_of(envelope=envelope), 999, MESSAGE_TYPE)
    return decode_reply(record_of(node.answer(message))["reply"])


class LyingNode(Node):
    """Changes its answers: `change` maps the question's name and the answer to another answer."""

    def __init__(self, app: ClientApp, partition: int, change: Change) -> None:
        super().__init__(app, partition)
        self.change = change

    def answer(self, message: Message) -> Message | None:
        reply = super().answer(message)
        sent = record_of(message).get("envelope")
        if sent is None:
            return reply
        answer = decode_reply(record_of(reply)["reply"])
        changed = self.change(decode_envelope(sent).question.name, answer)
        if changed is None or isinstance(changed, bytes):
            return changed and Message(content_of(reply=changed), reply_to=message)
        return Message(content_of(reply=encode_reply(changed)), reply_to=message)


class FakeGrid:
    """The part of Flower's grid that the transport uses.

    Nodes may be added to and removed from `nodes` at any time. `fresh`: each message is answered by
    a new process, which knows nothing but the context. `before`: called before each push.
    """

    def __init__(self, nodes: Iterable[Node], *, fresh: bool = False, before: Any = None) -> None:
        self.nodes = {node.context.node_id: node for node in nodes}
        self.fresh, self.before, self.pushes = fresh, before, count()
        self._messages: dict[str, Message] = {}
        self._numbers = count()
        self.bytes = 0

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        number = next(self.pushes)
        if self.before is not None:
            self.before(self, number)
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(next(self._numbers))
            self._messages[message.metadata.message_id] = message
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        replies = []
        for asked in ids:
            message = self._messages.pop(asked, None)
            node = message and self.nodes.get(message.metadata.dst_node_id)
            if not node:
                continue
            if self.fresh:
                client._cached.clear()
            reply = node.answer(message)
            if reply is not None:
                self.bytes += sum(map(len, record_of(message).values()))
                self.bytes += sum(map(len, record_of(reply).values()))
                replies.append(reply)
        return replies


def blobs(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    """Rows inside the box from -10 to 10."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-8, 8, size=(4, d))
    return np.clip(centers[rng.integers(4, size=n)] + rng.normal(size=(n, d)), -10, 10)


BOX = ([-10.0, -10.0], [10.0, 10.0])


def loader(shards: list[Any]) -> Callable[[Context], Any]:
    return lambda context: shards[int(context.node_config["partition-id"])]


UNUSED = "/unused"  # the ledger of a private peer whose releases are kept in memory


def ledgers(folder: Path) -> Callable[[Context], Path]:
    """A ledger file for each peer."""
    return lambda context: folder / f"ledger-{context.node_config['partition-id']}"


def grid_of(shards: list[Any], grid: Mapping[str, Any] | None = None, **options: Any) -> FakeGrid:
    app = client_app(loader(shards), **{"random_state": 5, **options})
    return FakeGrid([Node(app, i) for i in range(len(shards))], **(grid or {}))
