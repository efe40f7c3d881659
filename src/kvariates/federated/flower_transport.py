"""Flower as a transport: a peer is a node that is connected to the SuperLink.

A Flower message is one record of bytes: an envelope or its reply, or numbered questions to a party
that holds columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from kvariates.peers.encoding import (
    DTYPES,
    MAX_BYTES,
    UNSIGNED,
    decode,
    decode_reply,
    encode,
    encode_envelope,
    encode_reply,
)
from kvariates.peers.peer import Envelope
from kvariates.peers.transport import Failure, Reply

# -- messages --------------------------------------------------------------------------------------


ACTION = "kvariates"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "kvariates"


def record_of(message: Message) -> dict[str, Any]:
    """The fields of a message; empty if it is not one of ours."""
    if not message.has_content() or RECORD not in message.content.config_records:
        return {}
    return dict(message.content.config_records[RECORD])


def content_of(**fields: str | bytes) -> RecordDict:
    """The content of a message."""
    return RecordDict({RECORD: ConfigRecord(dict(fields))})


def answering_app(reply: Callable[[dict[str, Any], Context], Reply]) -> ClientApp:
    """The ClientApp that answers a greeting by its name, and other messages by `reply`."""
    app = ClientApp()

    @app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:
        fields = record_of(message)
        if "greeting" in fields:
            return Message(content_of(name=node_name(context)), reply_to=message)
        content = content_of(reply=encode_reply(reply(fields, context)))
        return Message(content, reply_to=message)

    return app


def node_name(context: Context) -> str:
    """What the operator of the node calls it; "" if nothing."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", "")))


# -- messages of vertical k-means ------------------------------------------------------------------


VERTICAL_DTYPES = DTYPES | UNSIGNED


class VerticalQuestion(NamedTuple):
    """One question with its arguments."""

    question: str
    arguments: dict[str, Any]


class Questions(NamedTuple):
    """The questions of one message: only the last one has an answer.

    `number`: messages of a session are numbered 1, 2, 3, and each is answered once.
    """

    number: int
    asked: Sequence[VerticalQuestion]


def encode_questions(questions: Questions) -> bytes:
    """The bytes of questions."""
    return encode({"number": questions.number, "asked": [list(one) for one in questions.asked]})


def decode_questions(data: Any) -> Questions:
    """ValueError if the bytes are not questions."""
    value = decode(data if isinstance(data, bytes) else b"", MAX_BYTES, VERTICAL_DTYPES)
    if not isinstance(value, dict) or value.keys() != {"number", "asked"}:
        raise ValueError("the message should have the parts asked, number")
    number, asked = value["number"], value["asked"]
    if type(number) is not int or number < 1:
        raise ValueError("the number of a message should be an integer >= 1")
    if not isinstance(asked, list) or not asked or not all(map(_is_question, asked)):
        raise ValueError("a message should hold questions with arguments")
    return Questions(number, [VerticalQuestion(*one) for one in asked])


def _is_question(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], dict)
    )


# -- the transport ---------------------------------------------------------------------------------


FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5  # seconds between two looks for replies
LONGEST_NAME = 60
GREETING = "greeting"


class FlowerTransport:
    """Asks the nodes of a Flower grid.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    timeout : float
        How long to wait for an answer. A message that was not answered is not valid any more.
    max_bytes : int
        A longer answer is a failure.

    Nodes say a name when they are met; without one it is the number of the node. Those that are met
    at the same time are in the order of their names, so that a run can be repeated: the numbers of
    Flower's nodes are random.
    """

    def __init__(self, grid: Grid, timeout: float = 60.0, max_bytes: int = MAX_BYTES) -> None:
        self._grid, self._timeout, self._max_bytes = grid, timeout, max_bytes
        self._nodes: dict[str, int] = {}
        self._silent: dict[str, Failure] = {}  # nodes that did not say their name

    def peers(self) -> list[str]:
        connected = set(self._grid.get_node_ids())
        self._meet(connected - set(self._nodes.values()))
        return [name for name, node in self._nodes.items() if node in connected]

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        contents = {
            name: content_of(envelope=encode_envelope(envelope))
            for name, envelope in envelopes.items()
        }
        return self.deliver(contents)

    def deliver(
        self, contents: Mapping[str, RecordDict], dtypes: frozenset[str] = DTYPES
    ) -> dict[str, Reply]:
        """Send a message to each named node, and wait for the replies.

        `dtypes`: an answer with other arrays is a failure.
        """
        asked = {self._nodes[name]: own for name, own in contents.items()
                 if name not in self._silent}  # fmt: skip
        answered = self._exchange(asked)
        replies: dict[str, Reply] = {}
        for name in contents:
            found = self._silent.get(name) or answered[self._nodes[name]]
            replies[name] = found if isinstance(found, Failure) else self._reply(found, dtypes)
        return replies

    def end(self) -> None:
        """Do nothing: a node does nothing between two messages."""

    def _reply(self, fields: dict[str, Any], dtypes: frozenset[str]) -> Reply:
        data = fields.get("reply")
        if not isinstance(data, bytes):
            return Failure("its message has no reply")
        return decode_reply(data, self._max_bytes, dtypes)

    def _meet(self, nodes: Iterable[int]) -> None:
        """Ask new nodes for their names."""
        if not (new := sorted(nodes)):
            return
        said = self._exchange({node: content_of(greeting=GREETING) for node in new})
        names = {node: _name(node, said[node]) for node in new}
        for node in sorted(new, key=lambda node: (*_order(names[node]), node)):
            name = names[node]
            if name in self._nodes:
                name = f"{name} ({node})"  # a name belongs to the node that said it first
            self._nodes[name] = node
            if isinstance(failure := said[node], Failure):
                self._silent[name] = failure

    def _exchange(self, contents: Mapping[int, RecordDict]) -> dict[int, dict[str, Any] | Failure]:
        """Send a message to each node, and wait for the replies."""
        if not contents:
            return {}
        messages = [
            Message(content, node, MESSAGE_TYPE, ttl=self._timeout)
            for node, content in contents.items()
        ]
        nodes = [message.metadata.dst_node_id for message in messages]
        self._grid.push_messages(messages)
        waiting = {m.metadata.message_id: node for m, node in zip(messages, nodes, strict=True)}
        late = Failure(f"no answer within {self._timeout:g} s")
        found: dict[int, dict[str, Any] | Failure] = dict.fromkeys(contents, late)
        end, pause = time.monotonic() + self._timeout, FIRST_PAUSE
        while waiting and time.monotonic() < end:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    found[node] = _fields(reply)
            if waiting:
                time.sleep(min(pause, max(0.0, end - time.monotonic())))
                pause = min(2 * pause, LONGEST_PAUSE)
        return found


def wait_for_nodes(grid: Grid, count: int, seconds: float, kind: str, parameter: str) -> None:
    """Wait until so many nodes are connected. RuntimeError if they do not come."""
    end = time.monotonic() + seconds
    while (found := len(list(grid.get_node_ids()))) < count:
        if time.monotonic() > end:
            raise RuntimeError(
                f"{found} of {count} {kind} were connected after {seconds:g} s; start their "
                f"SuperNodes, or lower {parameter}."
            )
        time.sleep(0.1)


def _fields(reply: Message) -> dict[str, Any] | Failure:
    if reply.has_error():
        reason = " ".join((reply.error.reason or "no reason given").split())
        return Failure(f"Flower's error {reply.error.code}: {reason[:200]}")
    return record_of(reply)


def _name(node: int, said: dict[str, Any] | Failure) -> str:
    name = "" if isinstance(said, Failure) else said.get("name", "")
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        return str(node)
    return name


def _order(name: str) -> tuple[int, str]:
    """Numbers by size, before other names."""
    return (int(name), "") if name.isdecimal() and name.isascii() else (2**64, name)
